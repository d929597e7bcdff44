"""A series of samples from a benchmark's CSV file with any column names.

A column is recognised by the letters of its header; a unit at its end (_bytes, _mi, _kb, _s, "(MiB)") applies to its
values. Separators may be commas, semicolons, tabs, bars or blanks. Comment lines (#) and empty lines are skipped; a
comment may be the header. Times are seconds, clock times, ISO 8601, or an epoch in seconds to nanoseconds.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite

from memqos.engine.cgroup.throttle_series import Sample
from memqos.errors import UsageError
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["COLUMNS", "MOST_BYTES", "Choice", "Column", "Series", "series_in"]

MOST_BYTES = 64 << 20
"""The largest file: some 500,000 samples."""


class Column(StrEnum):
    """The meaning of a column. HIGH, LIMIT: the values of memory.high and memory.max, not counters of memory.events."""

    TIME = "time"
    USAGE = "memory.current"
    HIGH_EVENTS = "high events"
    MAX_EVENTS = "max events"
    OOM_KILLS = "oom_kill"
    ANON = "anon"
    FILE = "file"
    MAJFAULTS = "pgmajfault"
    HIGH = "memory.high"
    LIMIT = "memory.max"
    POD = "pod"


COLUMNS: Mapping[Column, tuple[str, ...]] = {
    Column.TIME: (
        "elapsed", "elapsedtime", "time", "timestamp", "ts", "t", "at", "date", "datetime", "epoch", "unixtime",
        "uptime", "second", "seconds", "sec", "secs",
    ),
    Column.USAGE: (
        "memorycurrent", "current", "usage", "memoryusage", "memusage", "memory", "mem", "used", "usedmemory",
        "memcurrent",
    ),
    Column.HIGH_EVENTS: (
        "highevents", "eventshigh", "evthigh", "memoryeventshigh", "memoryhighevents", "highevent", "highcount",
        "nhigh", "memoryhighcount", "eventhigh", "memeventshigh", "memhighevents",
    ),
    Column.MAX_EVENTS: (
        "maxevents", "eventsmax", "evtmax", "memoryeventsmax", "memorymaxevents", "maxevent", "maxcount", "eventmax",
        "memeventsmax",
    ),
    Column.OOM_KILLS: (
        "oomkill", "oomkills", "evtoomkill", "eventsoomkill", "memoryeventsoomkill", "memoryoomkill", "oomkilled",
        "eventoomkill", "memeventsoomkill", "oomkillcount",
    ),
    Column.ANON: ("anon", "memorystatanon", "statanon", "anonymous"),
    Column.FILE: ("file", "memorystatfile", "statfile", "pagecache", "cache"),
    Column.MAJFAULTS: (
        "pgmajfault", "majfault", "majfaults", "majorfaults", "pgmajfaults", "memorystatpgmajfault", "statpgmajfault",
        "majorfault",
    ),
    Column.HIGH: ("memoryhigh", "memhigh", "highlimit", "memoryhighlimit"),
    Column.LIMIT: ("memorymax", "memmax", "limit", "memorylimit", "memlimit"),
    Column.POD: ("pod", "podname", "container", "containername", "cgroup", "name"),
}  # fmt: skip
"""The headers of a column: only small letters and digits, without a unit. The first match wins."""

_UNITS: Mapping[str, float] = {
    "b": 1, "byte": 1, "bytes": 1, "k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "kb": 10**3, "m": 1 << 20,
    "mi": 1 << 20, "mib": 1 << 20, "mb": 10**6, "g": 1 << 30, "gi": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "s": 1, "sec": 1, "secs": 1, "seconds": 1, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60,
    "minutes": 60,
}  # fmt: skip
_TIME_UNITS = frozenset({"s", "sec", "secs", "seconds", "ms", "msec", "us", "ns", "min", "minutes"})
_AMOUNTS = frozenset({Column.USAGE, Column.ANON, Column.FILE, Column.HIGH, Column.LIMIT})
_NEEDED = (Column.TIME, Column.USAGE, Column.HIGH_EVENTS)
_MISSING = frozenset({"", "-", "--", "na", "n/a", "nan", "none", "null", "?"})
_CLOCK = re.compile(r"(\d{1,2}):(\d{2}):(\d{2}(?:[.,]\d+)?)")
_EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_DECIMAL = frozenset({"kb", "mb", "gb"})
_DAY = 86400.0
_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The content of a file. high, limit: memory.high and memory.max if it has columns for them; 0 means "max".

    resolution: the least difference of amounts in bytes, 1 for whole bytes. notes: sentences about skipped rows.
    """

    samples: tuple[Sample, ...]
    high: int | None
    limit: int | None
    resolution: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A column: its index, header, and the factor of numbers without a unit."""

    index: int
    header: str
    unit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The selected part of a file.

    headers: the header of a column, if not recognised. pod: the selected one of several pods or containers. since,
    until: the first and the last second; None for all.
    """

    headers: Mapping[Column, str] = field(default_factory=dict)
    pod: str | None = None
    since: float | None = None
    until: float | None = None

    def holds(self, at: float) -> bool:
        """Whether a moment is selected."""
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)


def series_in(text: str, *, where: str, choice: Choice | None = None) -> Series:
    """The series in a file's text; UsageError with the line and the column of an unreadable value.

    where: the file's name, for errors.
    """
    choice = choice or Choice()
    lines = _lines(text)
    if not lines:
        raise UsageError("the file is empty.", where=where, next_step="Give a CSV file with a header and samples.")
    separator = _separator(lines)
    (at, head), *body = [(number, _cells(line, separator, f"{where}:{number}")) for number, line in lines]
    columns = _columns(head, body, choice.headers, f"{where}:{at}")
    rows = _of_pod([(number, cells) for number, cells in body if cells != head], columns, choice.pod, where)
    return _series(list(_moments(rows, columns, choice, where)), columns, where)


# ---- lines and headers


def _lines(text: str) -> list[tuple[int, str]]:
    """The data lines with their numbers; the last comment before them, if the first one begins with a number."""
    found: list[tuple[int, str]] = []
    comment: tuple[int, str] | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if line.lstrip().startswith("#"):
            comment = comment if found else (number, line.lstrip().lstrip("#").strip())
        elif line.strip():
            if not found and comment is not None and comment[1] and line.lstrip()[0] in "0123456789.":
                found.append(comment)
            found.append((number, line))
    return found


def _separator(lines: Sequence[tuple[int, str]]) -> str:
    """The separator of the header's cells; blanks by default."""
    head = lines[0][1]
    return max(_SEPARATORS, key=head.count) if any(one in head for one in _SEPARATORS) else ""


def _cells(line: str, separator: str, where: str) -> list[str]:
    if not separator:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
    except csv.Error as error:
        raise UsageError(f"the line is not CSV: {error}.", where=where, next_step="Fix or remove this line.") from None


_Row = tuple[int, Sequence[str]]


def _columns(
    head: Sequence[str], body: Sequence[_Row], headers: Mapping[Column, str], where: str
) -> dict[Column, _Read]:
    """The place of each column; UsageError if a needed one is missing or ambiguous."""
    known = [_named(header) for header in head]
    found: dict[Column, _Read] = {}
    for column, names in COLUMNS.items():
        if column in headers:
            found[column] = _given(column, headers[column], head, where)
            continue
        for name in names:
            at = [index for index, (one, unit) in enumerate(known) if one == name and _fits(column, unit)]
            if at:
                found[column] = _Read(index=at[0], header=head[at[0]], unit=_unit(column, known[at[0]][1]))
                break
    for name, counter, knob in (
        ("high", Column.HIGH_EVENTS, Column.HIGH),
        ("max", Column.MAX_EVENTS, Column.LIMIT),
    ):
        taken = {one.index for one in found.values()}
        for index in [index for index, one in enumerate(known) if one == (name, "") and index not in taken][:1]:
            found.setdefault(knob if _is_knob(index, body) else counter, _Read(index=index, header=head[index], unit=1))
    for column in _NEEDED:
        if column not in found:
            raise UsageError(
                f"no column is recognised as {_IN_WORDS[column]}; the header has {_listed(head)}.",
                where=where,
                next_step=f"Name it: --column '{column}=HEADER'.",
            )
    return found


def _is_knob(index: int, body: Sequence[_Row]) -> bool:
    """Whether a column called high or max has memory.high or memory.max: one amount, while a counter grows."""
    seen = {cells[index] for _, cells in body if index < len(cells)} - {"", "0"}
    return len(seen) == 1 and all(one == "max" or (one.isdecimal() and int(one[:20]) >= 1 << 20) for one in seen)


_IN_WORDS = {
    Column.TIME: "the time",
    Column.USAGE: "memory.current",
    Column.HIGH_EVENTS: "the counter 'high' of memory.events",
}


def _listed(head: Sequence[str]) -> str:
    shown = [f"'{one[:40]}'" for one in head[:20]]
    return ", ".join(shown) + (", …" if len(head) > len(shown) else "")


def _named(header: str) -> tuple[str, str]:
    """A header's letters and digits in small letters, without its unit; and the unit, "" without one."""
    for text in (header, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", header)):
        words = re.findall(r"[a-z0-9]+", text.lower())
        if len(words) > 1 and words[-1] in _UNITS:
            return "".join(words[:-1]), words[-1]
    return "".join(words), ""


def _fits(column: Column, unit: str) -> bool:
    """Whether a header with this unit may be this column: a counter or a time has no bytes."""
    if not unit:
        return True
    return (column in _AMOUNTS and unit not in _TIME_UNITS) or (column is Column.TIME and unit in _TIME_UNITS)


def _unit(column: Column, unit: str) -> float:
    return _UNITS[unit] if unit and (column in _AMOUNTS or column is Column.TIME) else 1


def _given(column: Column, header: str, head: Sequence[str], where: str) -> _Read:
    for index, one in enumerate(head):
        if one == header:
            return _Read(index=index, header=one, unit=_unit(column, _named(one)[1]))
    raise UsageError(
        f"there is no column '{header[:80]}'; the header has {_listed(head)}.",
        where="--column",
        next_step=f"Give one of those of {where}.",
    )


# ---- rows


def _of_pod(rows: Sequence[_Row], columns: Mapping[Column, _Read], pod: str | None, where: str) -> Sequence[_Row]:
    """The rows of one pod; UsageError for several pods without a choice, or an unknown pod."""
    at = columns.get(Column.POD)
    names = [] if at is None else list(dict.fromkeys(cells[at.index] for _, cells in rows if at.index < len(cells)))
    if pod is None:
        if len(names) > 1:
            raise UsageError(
                f"it has samples of several pods: {_listed(names)}.",
                where=where,
                next_step="Choose one with --pod NAME.",
            )
        return rows
    if at is None or pod not in names:
        has = f"it has {_listed(names)}" if names else "it has no column of pods"
        raise UsageError(f"there are no samples of '{pod[:80]}': {has}.", where=where, next_step="See --pod in --help.")
    return [(number, cells) for number, cells in rows if at.index < len(cells) and cells[at.index] == pod]


@dataclass(frozen=True, slots=True)
class _Moment:
    """A row with its own time. values: those of its cells; None for a missing one."""

    at: float
    values: Mapping[Column, float | None]


def _moments(
    rows: Sequence[_Row], columns: Mapping[Column, _Read], choice: Choice, where: str
) -> Iterator[_Moment | None]:
    """The selected rows, with times in seconds; None for each skipped row."""
    time = columns[Column.TIME]
    first = last = None
    days = 0
    for number, cells in rows:
        values = {column: _value(column, cells, one, f"{where}:{number}") for column, one in columns.items()}
        at = values[Column.TIME]
        if at is None or (values[Column.USAGE] is None) != (values[Column.HIGH_EVENTS] is None):
            yield None
            continue
        at += days * _DAY
        if last is not None and at < last - _DAY / 2 and _CLOCK.fullmatch(cells[time.index]):
            days, at = days + 1, at + _DAY
        if last is not None and at < last:
            raise UsageError(
                f"the time in column '{time.header}' is before that of the sample above it.",
                where=f"{where}:{number}",
                next_step="Sort the samples by time, or choose one pod with --pod NAME.",
            )
        first = at if first is None else first
        if at == last:
            yield None
            continue
        last = at
        second = at - first if _is_epoch(first) or _CLOCK.fullmatch(cells[time.index]) else at
        if choice.holds(second):
            yield _Moment(second, values)


def _series(moments: Sequence[_Moment | None], columns: Mapping[Column, _Read], where: str) -> Series:
    samples: list[Sample] = []
    knobs: dict[Column, set[int]] = {Column.HIGH: set(), Column.LIMIT: set()}
    for moment in moments:
        if moment is None:
            continue
        sample = _sample(moment, samples[-1] if samples else None)
        samples.append(sample)
        for column, seen in knobs.items():
            value = moment.values.get(column)
            if not sample.gone and value is not None:
                seen.add(int(value))
    return Series(
        samples=tuple(samples),
        high=_knob(knobs[Column.HIGH], columns.get(Column.HIGH), where),
        limit=_knob(knobs[Column.LIMIT], columns.get(Column.LIMIT), where),
        resolution=max(1, int(columns[Column.USAGE].unit)),
        notes=tuple(_notes(moments, columns)),
    )


def _notes(moments: Sequence[_Moment | None], columns: Mapping[Column, _Read]) -> Iterator[str]:
    if left_out := moments.count(None):
        yield f"{left_out} rows were left out: no time of their own, or memory.current without 'high' or the reverse"
    for column, one in columns.items():
        if column in _AMOUNTS and _named(one.header)[1] in _DECIMAL:
            yield f"column '{one.header}' is read in units of {int(one.unit)} bytes"


def _is_epoch(seconds: float) -> bool:
    """Whether a time is a calendar time: times are then relative to the first sample."""
    return seconds > 1e8  # noqa: PLR2004 - three years


def _sample(moment: _Moment, before: Sample | None) -> Sample:
    values = moment.values
    usage, events, anon = (values.get(one) for one in (Column.USAGE, Column.HIGH_EVENTS, Column.ANON))
    # Scripts write zero for an unreadable file, or leave the cell empty; memory.stat disappears first.
    gone = not usage or (before is not None and bool(before.anon) and anon == 0 and 2 * usage < before.usage)
    whole = {column: None if values.get(column) is None else int(values[column] or 0) for column in Column}
    return Sample(
        at=moment.at,
        usage=int(usage or 0),
        high_events=int(events or 0),
        anon=whole[Column.ANON],
        file=whole[Column.FILE],
        majfaults=whole[Column.MAJFAULTS],
        max_events=whole[Column.MAX_EVENTS],
        oom_kills=whole[Column.OOM_KILLS],
        gone=gone,
    )


def _knob(seen: set[int], column: _Read | None, where: str) -> int | None:
    if not seen:
        return None
    if len(seen) > 1:
        header = column.header if column else ""
        raise UsageError(
            f"column '{header}' has {len(seen)} values, {min(seen)} to {max(seen)}: it changes, or is a counter.",
            where=where,
            next_step="Choose the samples of one value with --from and --to, or name the counter with --column.",
        )
    return seen.pop()


# ---- cells


def _value(column: Column, cells: Sequence[str], one: _Read, where: str) -> float | None:
    """A cell's number; None for a missing one, and 0 for memory.high or memory.max "max"."""
    if column is Column.POD:
        return None
    text = cells[one.index] if one.index < len(cells) else ""
    if text.lower() in _MISSING:
        return None
    if column in {Column.HIGH, Column.LIMIT} and text.lower() in {"max", "infinity", "unlimited"}:
        return 0
    found = _time(text, one.unit) if column is Column.TIME else _number(text, one.unit, amount=column in _AMOUNTS)
    is_counter = column not in _AMOUNTS and column is not Column.TIME
    if found is None or not isfinite(found) or (found < 0 and column is not Column.TIME) or (is_counter and found % 1):
        wanted = "a time" if column is Column.TIME else "an amount" if column in _AMOUNTS else "a count"
        raise UsageError(
            f"'{text[:40]}' in column '{one.header[:40]}' is not {wanted}.",
            where=where,
            next_step="Fix or remove this line, or name another column with --column.",
        )
    return found


def _number(text: str, unit: float, *, amount: bool) -> float | None:
    """A number; None for any other or ambiguous text: "1,234" is a thousand in some locales."""
    if _THOUSANDS.fullmatch(text) and amount:
        return None
    try:
        return float(text.replace(",", ".") if text.count(",") == 1 else text) * unit
    except ValueError:
        pass
    word = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]+)", text)
    if not amount or not word or word[2].lower() not in _UNITS or word[2].lower() in _TIME_UNITS:
        return None
    try:
        return float(Quantity.parse(text).value)
    except QuantityError:
        return float(word[1]) * _UNITS[word[2].lower()] if word[1].count(".") < 2 else None  # noqa: PLR2004


def _time(text: str, unit: float) -> float | None:
    clock = _CLOCK.fullmatch(text)
    if clock:
        return 3600 * int(clock[1]) + 60 * int(clock[2]) + float(clock[3].replace(",", "."))
    number = _number(text.removesuffix("s"), unit, amount=False)
    if number is not None:
        return next((number * scale for least, scale in _EPOCHS if unit == 1 and number >= least), number)
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return None
    # Without a time zone any will do: only differences count.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
