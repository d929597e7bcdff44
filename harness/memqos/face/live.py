"""A run on a terminal: a live row with a bar per chapter, system or worker, below the lines that stay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TextIO, cast

from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.face.run_face import Tone
from memqos.face.tally import AtWork, Tally, TallyRow, case_name, counts, far, span
from memqos.face.text import Output
from memqos.report.outcome import Outcome

__all__ = ["LiveScreen"]

_PER_SECOND = 4
_WIDE, _NARROW = 70, 52
"""From so many columns on outcomes have words and bars are long; below the second there are no bars."""
_AROUND = 3
"""Lines of the terminal that rows leave free."""

_STYLES = {
    Outcome.CONFORMS: "green",
    Outcome.DEVIATES: "bold red",
    Outcome.KNOWN: "yellow",
    Outcome.NOT_OBSERVABLE: "yellow",
    Outcome.MACHINERY: "bold magenta",
    Outcome.USAGE: "bold magenta",
}
_SIGNS = {
    Outcome.CONFORMS: "+",
    Outcome.DEVIATES: "x",
    Outcome.KNOWN: "k",
    Outcome.NOT_OBSERVABLE: "?",
    Outcome.MACHINERY: "!",
    Outcome.USAGE: "!",
}
_TONES = {Tone.PLAIN: "", Tone.STEP: "dim", Tone.NOTE: "yellow", Tone.WRONG: ""}


class _OwnConsole(Console):
    """Rich's console with the size of the terminal: pytest's capture has replaced the standard streams."""

    output: Output

    @property
    def size(self) -> ConsoleDimensions:
        """The terminal's, as it is now."""
        return ConsoleDimensions(*self.output.size)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:  # noqa: ARG002 - the signature is rich's
        """Raises AttributeError: the size of a terminal cannot be set."""
        raise AttributeError("a terminal's size is not ours to set.")


class LiveScreen:
    """Rows below the lines, from 40 columns on, at most as high as the terminal."""

    def __init__(self, output: Output, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._console = _OwnConsole(
            file=cast("TextIO", output), force_terminal=True, highlight=False, emoji=False, markup=False
        )
        self._console.output = output
        self._unicode = output.speaks_unicode
        self._clock = clock
        self._live: Live | None = None
        self._tally: Callable[[], Tally] | None = None

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines above the rows, wrapped at words."""
        for number, line in enumerate(lines):
            style = "bold red" if tone is Tone.WRONG and number == 0 else _TONES[tone]
            indent = len(line) - len(line.lstrip())
            grid = Table.grid(padding=0)
            grid.add_column(width=indent) if indent else None
            grid.add_column(overflow="fold")
            text = Text(line.strip(), style=style)
            grid.add_row("", text) if indent else grid.add_row(text)
            self._console.print(grid)

    def open(self, tally: Callable[[], Tally]) -> None:
        """The rows appear."""
        self._tally = tally
        if self._live is None:
            self._live = Live(
                get_renderable=lambda: self,
                console=self._console,
                refresh_per_second=_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)

    def row_begins(self, row: TallyRow) -> None:
        """Its bar will show."""

    def row_ends(self, row: TallyRow) -> None:
        """Its bar shows it."""

    def close(self) -> None:
        """Remove the rows and show the cursor."""
        if self._live is not None:
            live, self._live = self._live, None
            with contextlib.suppress(OSError, ValueError):
                live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rows as they are now."""
        if self._tally is not None:
            yield self._rows(self._tally(), options.max_width, options.size.height)

    def _rows(self, tally: Tally, width: int, height: int) -> RenderableType:
        now = self._clock.now()
        if tally.at_a_time > 1:
            return Group(self._bar_line(tally, width), *self._workers(tally, width, height, now), self._far(tally, now))
        shown, hidden = _fitting(list(tally.rows.values()), max(1, height - _AROUND - 2))
        table = Table.grid(padding=(0, 1))
        for row in shown:
            table.add_row(*self._cells(row, width))
        lines: list[RenderableType] = [table]
        if hidden:
            lines.append(Text(f"and {hidden} more", style="dim", no_wrap=True, overflow="ellipsis"))
        lines += [_what_runs(one, now) for one in tally.running()]
        return Group(*lines, self._far(tally, now))

    def _bar_line(self, tally: Tally, width: int) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        table.add_row(*self._cells(tally.all, width))
        return table

    def _workers(self, tally: Tally, width: int, height: int, now: float) -> list[RenderableType]:
        lines: list[RenderableType] = []
        in_order = sorted(tally.workers.values(), key=lambda one: (len(one.name), one.name))
        for one in in_order[: max(1, height - _AROUND)]:
            line = Text(f"{one.name} ", style="bold", no_wrap=True, overflow="ellipsis")
            for outcome, text in counts(one.counts):
                line.append(
                    f"{text if width >= _WIDE else f'{one.counts[outcome]}{_SIGNS[outcome]}'} ", _STYLES[outcome]
                )
            line.append_text(_what_runs(one, now))
            lines.append(line)
        return lines

    def _cells(self, row: TallyRow, width: int) -> list[RenderableType]:
        """Name, bar, count and outcomes."""
        name = Text(row.name, style="bold" if 0 < row.done < row.total else "", no_wrap=True, overflow="ellipsis")
        name.truncate(max(10, width // 3), overflow="ellipsis")
        number = Text(f"{row.done}/{row.total}", justify="right", no_wrap=True)
        bar = [self._bar(row, 20 if width >= _WIDE else 8)] if width >= _NARROW else []
        return [name, *bar, number, _ended(row.counts, width)]

    def _bar(self, row: TallyRow, cells: int) -> Text:
        full = cells * row.done // row.total if row.total else cells
        done, left = ("━", "─") if self._unicode else ("#", "-")
        bad = any(row.counts[outcome] for outcome in (Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE))
        return Text(done * full, style="red" if bad else "green").append(left * (cells - full), style="dim")

    @staticmethod
    def _far(tally: Tally, now: float) -> Text:
        return Text(far(tally, now), style="bold", no_wrap=True, overflow="ellipsis")


def _ended(ended: Mapping[Outcome, int], width: int) -> Text:
    """Outcomes in words, or as signs if words do not fit."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for outcome, words in counts(ended):
        text.append(f"{words if width >= _WIDE else f'{ended[outcome]}{_SIGNS[outcome]}'} ", _STYLES[outcome])
    return text


def _what_runs(one: AtWork, now: float) -> Text:
    """A worker's case, its time and its step."""
    if not one.case:
        return Text("waits", style="dim", no_wrap=True, overflow="ellipsis")
    step = f": {one.step}" if one.step else ""
    text = f"{span(now - one.since)} {case_name(one.case)}{step}"
    return Text(text, style="cyan", no_wrap=True, overflow="ellipsis")


def _fitting(rows: list[TallyRow], most: int) -> tuple[list[TallyRow], int]:
    """As many rows as fit, in order, and the number of the others; finished rows are left out first."""
    if len(rows) <= most:
        return rows, 0
    ranked = sorted(rows, key=lambda row: 1 if row.done == 0 else 2 if row.done == row.total else 0)
    kept = {row.name for row in ranked[: max(1, most - 1)]}
    return [row for row in rows if row.name in kept], len(rows) - len(kept)
