"""Screens for a run's progress, on a terminal or in a log, and the text before the first case."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.face.run_face import ClaimPlaces, Face, NoService, Screen, Service, Tone, service_of
from memqos.face.tally import AtWork, Tally, TallyRow, case_name, counts, far, ran, span
from memqos.face.text import Output
from memqos.report.outcome import Outcome

__all__ = ["LiveScreen", "LogScreen", "opened_face", "outlook"]


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


HEARTBEAT_SECONDS = 30.0


class LogScreen:
    """Lines without control characters, except those of a service.

    service: the owner of the log. folds: whether rows come one after another, so that each can fold.
    """

    def __init__(
        self,
        output: Output,
        service: Service,
        *,
        folds: bool,
        every: float = HEARTBEAT_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        wall: Callable[[], datetime] = utc_now,
    ) -> None:
        self._output = output
        self._service = service
        self._folds = folds
        self._every = every
        self._clock = clock
        self._wall = wall
        self._part = ""
        self._over = threading.Event()
        self._beat: threading.Thread | None = None
        self._tally: Callable[[], Tally] | None = None

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines; a step has a dot before it."""
        dot = "· " if self._output.speaks_unicode else "- "
        mark = dot if tone in {Tone.STEP, Tone.NOTE} else ""
        self._output.write("".join(f"{mark}{line}\n" for line in lines))

    def open(self, tally: Callable[[], Tally]) -> None:
        """Start to print the progress every half minute."""
        self._tally = tally
        if self._beat is None:
            self._beat = threading.Thread(target=self._beats, name="memqos heartbeat", daemon=True)
            self._beat.start()

    def row_begins(self, row: TallyRow) -> None:
        """Begin a folding part, if the log has these; parts do not nest."""
        self._end_part()
        if self._folds and (opening := self._service.opens(row.name, self._title(row), at=self._now())):
            self._output.write(opening)
            self._part = row.name

    def row_ends(self, row: TallyRow) -> None:
        """The row in one line, below its part."""
        if self._part == row.name:
            self._end_part()
        self.say([ran(row)])

    def close(self) -> None:
        """Print no line after this."""
        self._over.set()
        if self._beat is not None:
            self._beat.join()
            self._beat = None
        with contextlib.suppress(OSError, ValueError):
            self._end_part()

    def heartbeat(self) -> list[str]:
        """The progress, and each running case with its time."""
        if self._tally is None:
            return []
        now, tally = self._clock.now(), self._tally()
        several = len(tally.workers) > 1
        lines = [far(tally, now)]
        for one in tally.running():
            step = f": {one.step}" if one.step else ""
            who = f"[{one.name}] " if several else ""
            lines.append(f"  {who}{case_name(one.case)}, {span(now - one.since)}{step}")
        return lines

    def _beats(self) -> None:
        while not self._over.wait(self._every):
            self.say(self.heartbeat(), Tone.STEP)

    def _title(self, row: TallyRow) -> str:
        return f"{row.name} ({row.total} case{'' if row.total == 1 else 's'})"

    def _end_part(self) -> None:
        if self._part:
            self._output.write(self._service.closes(self._part, at=self._now()))
            self._part = ""

    def _now(self) -> int:
        return int(self._wall().timestamp())


_DUMB = frozenset({"", "dumb", "unknown"})


def opened_face(
    output: Output,
    environment: Mapping[str, str],
    *,
    verbosity: int,
    is_plain: bool,
    several: bool,
    places: ClaimPlaces,
) -> Face:
    """Rows on a terminal that can show them, and lines everywhere else.

    environment: TERM and the variables of CI services count. is_plain: lines on any output. several: whether cases run
    at the same time.
    """
    service = service_of(environment, here=Path.cwd())
    is_live = output.isatty() and service is None and not is_plain and environment.get("TERM", "") not in _DUMB
    screen: Screen = LiveScreen(output) if is_live else LogScreen(output, service or NoService(), folds=not several)
    return Face(screen, verbosity=verbosity, service=service, places=places)


def outlook(tally: Tally, *, chapters: int, machines: Sequence[str], workers: int, elsewhere: int = 0) -> list[str]:
    """The plan of a run: number of cases, machines, and expected time.

    machines: each sort once. elsewhere: number of cases whose expected time comes from other systems.
    """
    cases = tally.all.total
    if not cases:
        return ["no case to run"]
    at_a_time = f", {workers} at a time" if workers > 1 else ""
    counted = f"{cases} case{'' if cases == 1 else 's'} in {chapters} chapter{'' if chapters == 1 else 's'}"
    left = tally.left(SYSTEM_CLOCK.now())
    if tally.unknown == cases or left is None:
        time = "its duration is not known yet"
    else:
        time = f"about {span(left)}{_resting_on(cases, unknown=tally.unknown, elsewhere=elsewhere)}"
    return [f"{counted} on {', '.join(machines)}{at_a_time}; {time}"]


def _resting_on(cases: int, *, unknown: int, elsewhere: int) -> str:
    """The reason why a time is uncertain."""
    if elsewhere == cases:
        return ", estimated from other systems: none of them ran on this one before"
    if not unknown:
        return f"; {elsewhere} ran only on other systems before" if elsewhere else ""
    return f"; {unknown} never ran here before" + (f" and {elsewhere} only on other systems" if elsewhere else "")
