"""`memqos analyze`: what a series of memory.current and `high` says about a container above its memory.high.

A plot of an analysed series: memory in use over time, its thresholds, and the container's stretches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import click

from memqos.catalog.node_facts import PAGE_SIZES
from memqos.catalog.pods import read_text
from memqos.catalog.series_files import MOST_BYTES, Choice, Column, Series, series_in
from memqos.cli.node_options import size_of
from memqos.cli.terminal import say
from memqos.engine.cgroup.throttle import DEFAULT_HZ
from memqos.engine.cgroup.throttle_analysis import Analysis, analyse, analysis_document, analysis_text
from memqos.engine.cgroup.throttle_series import Course, Setup, levels_of
from memqos.errors import ExitCode, UnknownNameError, UsageError
from memqos.model.knob import Bytes

__all__ = ["command"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 400, 80, 740, 40, 320
_MOST_POINTS = 1500
_MIB = 1 << 20
_COLOURS = {
    Course.BELOW: "#e8e8e8",
    Course.IDLE: "#d5d5d5",
    Course.RECLAIMS: "#cfe8cf",
    Course.SLEEPS: "#cfe0f3",
    Course.THRASHES: "#f6d4c4",
    Course.UNKNOWN: "#efe3b8",
}


def throttle_plot(one: Analysis, title: str) -> str:
    """An SVG image: usage as a line, stretches as bands behind it, memory.high, the floor of sleep and memory.max."""
    seen = [sample for sample in one.samples if not sample.gone]
    begin, end = seen[0].at, seen[-1].at
    setup = one.setup
    lines = {
        "memory.high": None if setup.high is None else setup.high.count,
        "sleeps from": setup.floor,
        "memory.max": None if setup.limit is None else setup.limit.count,
    }
    amounts = [sample.usage for sample in seen] + [amount for amount in lines.values() if amount is not None]
    low, top = min(amounts), max(amounts)
    if setup.high is not None and max(sample.usage for sample in seen) > setup.high.count:
        # Usage below memory.high passes within seconds, so the plot shows what is above.
        low = max(low, setup.high.count - (top - setup.high.count) // 4)
    space = max(top - low, 1)

    def across(at: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (at - begin) / (end - begin)

    def up(amount: int) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (max(amount, low) - low) / space

    parts = []
    for part in one.segments:
        x, width = across(part.start), across(part.end) - across(part.start)
        colour = _COLOURS[part.course]
        parts.append(
            f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{_BOTTOM - _TOP}" fill="{colour}">'
            f"<title>{escape(f'{part.course}: {part.why}')}</title></rect>"
        )
    for name, amount in lines.items():
        if amount is not None:
            parts += _level(up(amount), f"{name} {amount / _MIB:.1f} MiB")
    step = max(1, -(-len(seen) // _MOST_POINTS))
    kept = [*seen[:-1:step], seen[-1]]
    points = " ".join(f"{across(sample.at):.1f},{up(sample.usage):.1f}" for sample in kept)
    parts.append(f'<polyline fill="none" stroke="#0b4f7a" stroke-width="1.5" points="{points}"/>')
    for number in range(5):
        at = begin + (end - begin) * number / 4
        parts.append(f'<text x="{across(at):.0f}" y="{_BOTTOM + 16}" text-anchor="middle">{at:.0f} s</text>')
    parts += _legend({part.course for part in one.segments})
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 12}">{escape(one.end.ending.value)}</text>')
    return _svg(title, parts)


def _level(y: float, text: str) -> Iterator[str]:
    yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" stroke="#888" stroke-dasharray="4 3"/>'
    yield f'<text x="{_RIGHT}" y="{y - 4:.1f}" text-anchor="end" fill="#555">{escape(text)}</text>'


def _legend(courses: set[Course]) -> Iterator[str]:
    for number, course in enumerate(one for one in Course if one in courses):
        x, y = _LEFT + 130 * number, _HEIGHT - 48
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{_COLOURS[course]}" stroke="#999"/>'
        yield f'<text x="{x + 16}" y="{y + 10}">{escape(course.value)}</text>'


def _svg(title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11">\n<title>{escape(title)}</title>\n<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


HELP = """Analyse a container above its memory.high from a benchmark's samples in SERIES, a CSV file.

SERIES (- for standard input) needs a time, memory.current and the counter high of memory.events. anon, file,
pgmajfault, oom_kill, memory.high and memory.max are used if present. Columns are found by their headers, with units
such as _bytes or _mi; --column names a column with another header. `memqos analyse` is the same command.

For each stretch it prints the passes through the kernel's throttling, the seconds and the pages kept per pass, the
sleep that the kernel's formula gives, and whether the program sleeps or thrashes its own text. At the end it prints
how the container ended: killed at memory.max, otherwise, or not known.

\b
Examples:
  memqos analyze throttle.csv
  memqos analyze watch.csv --memory-high 7744360448 --memory-max 8Gi --hz 1000
  memqos analyze watch.csv --memory-high 246Mi --memory-max 256Mi --pod aggressor
  memqos analyze throttle.csv --from 58 --to 69 --json
  memqos analyze log.txt --column 'high events=throttled' --memory-high 90Mi --plot log.svg
"""


@click.command(name="analyze", help=HELP)
@click.argument("series", metavar="SERIES")
@click.option(
    "--memory-high", metavar="SIZE|max", help="The container's memory.high, if the series has no such column."
)
@click.option("--memory-max", metavar="SIZE|max", help="Its memory.max, if the series has no such column.")
@click.option(
    "--levels",
    type=click.IntRange(1, 16),
    help="How many nested cgroups are over memory.high: 2 for crun below CRI-O. Default: found from the steps of high.",
)
@click.option(
    "--hz",
    type=click.IntRange(24, 1200),
    default=DEFAULT_HZ,
    show_default=True,
    help="Jiffies per second of the node's kernel (CONFIG_HZ); 1000 on Fedora and RHEL.",
)
@click.option(
    "--page-size",
    type=click.Choice([str(size) for size in PAGE_SIZES]),
    default="4096",
    show_default=True,
    help="Bytes of a memory page.",
)
@click.option("--pod", metavar="NAME", help="The pod or container whose samples count, if the series has several.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=HEADER",
    help=f"The header of a column: NAME is one of {', '.join(Column)}. May be repeated.",
)
@click.option("--from", "since", type=float, metavar="SECONDS", help="Ignore samples before this time.")
@click.option("--to", "until", type=float, metavar="SECONDS", help="Ignore samples after this time.")
@click.option("--ended", is_flag=True, help="The container ended after the last sample, whatever ended it.")
@click.option("--plot", metavar="FILE", help="Write a plot as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(**options: Any) -> int:
    """The page of `memqos analyze`."""
    return _Order(**options).answer()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The options and arguments, as click gives them."""

    series: str
    memory_high: str | None
    memory_max: str | None
    levels: int | None
    hz: int
    page_size: str
    pod: str | None
    columns: tuple[str, ...]
    since: float | None
    until: float | None
    ended: bool
    plot: str | None
    as_json: bool

    def answer(self) -> int:
        """Print the analysis; the exit code."""
        series = self._series()
        setup, notes = self._setup(series)
        found = analyse(series.samples, setup, ended=self.ended)
        if self.plot is not None:
            self._write_plot(found)
        if self.as_json:
            say(json.dumps(analysis_document(found, notes), indent=1))
        else:
            say(analysis_text(found, notes))
        return ExitCode.CONFORMS if found else ExitCode.NOTHING_OBSERVED

    def _series(self) -> Series:
        data = read_text(self.series, "a series of samples", MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise UsageError(
                f"the file is larger than {MOST_BYTES >> 20} MiB.", where=self.series, next_step="Give fewer samples."
            )
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"the file is not UTF-8 text: byte {error.start}.", where=self.series, next_step="Give a CSV file."
            ) from None
        choice = Choice(headers=_headers(self.columns), pod=self.pod, since=self.since, until=self.until)
        return series_in(text, where=self.series, choice=choice)

    def _setup(self, series: Series) -> tuple[Setup, list[str]]:
        """The setup, and a note for each assumption."""
        notes = list(series.notes)
        high = _knob("--memory-high", self.memory_high, series.high, "memory.high")
        if high is None:
            raise UsageError(
                "the series has no column for memory.high.",
                where=self.series,
                next_step="Give it with --memory-high SIZE.",
            )
        limit = _knob("--memory-max", self.memory_max, series.limit, "memory.max")
        if limit is None:
            notes.append("memory.max is not given: the distance to it is not known (--memory-max SIZE)")
        setup = Setup(
            high=Bytes(high) if high else None,
            limit=Bytes(limit) if limit else None,
            hz=self.hz,
            levels=self.levels or 1,
            page_size=int(self.page_size),
            resolution=series.resolution,
        )
        return (setup, notes) if self.levels else _with_levels(setup, series, notes)

    def _write_plot(self, found: Sequence[Analysis]) -> None:
        if not found or self.plot is None:
            return
        try:
            Path(self.plot).write_text(throttle_plot(found[-1], Path(self.series).name), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"'{self.plot}' cannot be written: {(error.strerror or str(error)).lower()}.", where="--plot"
            ) from None


def _with_levels(setup: Setup, series: Series, notes: list[str]) -> tuple[Setup, list[str]]:
    levels = levels_of(series.samples, setup)
    if levels is None:
        said = "1 level is assumed: too few steps of 'high' are multiples of 17 (--levels sets it)"
        return setup, [*notes, said]
    return Setup(
        high=setup.high,
        limit=setup.limit,
        hz=setup.hz,
        levels=levels,
        page_size=setup.page_size,
        resolution=setup.resolution,
    ), [*notes, f"the steps of 'high' are multiples of {17 * levels}: {levels} level{'s' * (levels > 1)}"]


def _headers(given: tuple[str, ...]) -> Mapping[Column, str]:
    found: dict[Column, str] = {}
    for one in given:
        name, equals, header = one.partition("=")
        if name not in {*Column}:
            raise UnknownNameError.of("column", name, list(Column), where="--column")
        if not equals or not header:
            raise UsageError(f"'{one}' names no header.", where="--column", next_step=f"Write '{name}=HEADER'.")
        found[Column(name)] = header
    return found


def _knob(option: str, text: str | None, in_series: int | None, file: str) -> int | None:
    """Bytes of memory.high or memory.max, 0 for max; None if neither the option nor the series has it."""
    if text is None:
        return in_series
    given = 0 if text == "max" else size_of(option, text, least=1)
    if in_series is not None and given != in_series:
        raise UsageError(
            f"the series has {in_series or 'max'} as its {file}, not {given or 'max'}.",
            where=option,
            next_step="Leave the option out, or name the right column with --column.",
        )
    return given
