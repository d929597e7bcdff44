"""The series of a watched cgroup, as columns for a chart.

`series.jsonl` has changes with their times; a chart needs every value at every time. Times are seconds since the file's
first sample, amounts are bytes as the kernel reports them. A pressure is a share of time in percent: of the half second
before, from the kernel's total of stalls; without a total, of the last ten seconds, as the kernel averages them.
Refaults ("refault anon", "refault file") are in pages since the creation of the cgroup; without refaults they have no
column. A value is None before its first sample and for "max": no line is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memqos.engine.translate.explain import Document

__all__ = ["CGROUPFS", "charts_of"]

CGROUPFS = "/sys/fs/cgroup"
MOST_POINTS = 1500
"""Most times in a chart; of more, an even selection is kept, and all times with events."""

_WINDOW = 0.5
"""Seconds over which stalls count: samples that events cause may be only milliseconds apart."""
_BY_TOTAL, _BY_AVERAGE = "share of the half second before", "share of time, last 10 s"

_LIMITS = ("memory.min", "memory.low", "memory.high", "memory.max")
_USAGE = ("anon", "file")
_REFAULTS = {"workingset_refault_anon": "refault anon", "workingset_refault_file": "refault file"}
_ZONE = re.compile(r"\b(N\d{1,4})=(\d{1,19})\b")
_EVENTS = ("memory.events", "memory.swap.events", "cgroup.events")
_MARKED = frozenset({"low", "high", "max", "oom", "oom_kill", "oom_group_kill", "fail"})


def charts_of(looks: Iterable[Mapping[str, Any]], cgroups: frozenset[str] | None = None) -> list[Document]:
    """One chart per watched cgroup, in the order of their first samples; none for a single sample.

    cgroups: only these with their ancestors and descendants; None for all.
    """
    by_cgroup: dict[str, _Course] = {}
    first: float | None = None
    for look in looks:
        folder, at, files = look.get("folder"), look.get("at"), look.get("files")
        if not (isinstance(folder, str) and isinstance(at, int | float) and isinstance(files, dict)):
            continue
        first = float(at) if first is None else first
        path = folder.removeprefix(CGROUPFS) or "/"
        if cgroups is None or _is_near(path, cgroups):
            by_cgroup.setdefault(path, _Course()).add(round(float(at) - first, 3), files, str(look.get("why", "")))
    return [course.chart(path) for path, course in by_cgroup.items() if len(course.times) > 1]


def _is_near(path: str, cgroups: frozenset[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in cgroups)


class _Course:
    """One cgroup over time."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._rows: list[dict[str, float | None]] = []
        self._marks: list[Document] = []
        self._counted: dict[str, int] = {}
        self._stalls: dict[str, list[tuple[float, float]]] = {}

    def add(self, at: float, files: Mapping[str, object], why: str) -> None:
        """Add one sample."""
        row = dict(self._rows[-1]) if self._rows else {}
        texts = {name: text for name, text in files.items() if isinstance(text, str)}
        row.update(_values(texts))
        row.update(self._pressures(at, texts.get("memory.pressure", "")))
        marks = list(self._events(texts, is_first=not self._rows))
        if why == "gone":
            row = dict.fromkeys(row)
            marks.append("gone")
        if self.times and at <= self.times[-1]:
            at = self.times[-1]
            self._rows[-1] = row
        else:
            self.times.append(at)
            self._rows.append(row)
        self._marks += [{"at": at, "what": what} for what in marks]

    def _events(self, texts: Mapping[str, str], *, is_first: bool) -> Iterator[str]:
        for file in _EVENTS:
            for name, value in _pairs(texts.get(file, "")):
                before = self._counted.get(f"{file} {name}", 0)
                self._counted[f"{file} {name}"] = int(value)
                swap = "swap " if file == "memory.swap.events" else ""
                if name in _MARKED and value > before and not is_first:
                    yield f"{swap}{name} +{int(value) - before}"
                if name == "populated" and value != before and not is_first:
                    yield "populated" if value else "empty"

    def _pressures(self, at: float, text: str) -> Iterator[tuple[str, float | None]]:
        """The columns "some" and "full"; in a sample without the file the total is unchanged."""
        for kind, average, total in _stalled(text):
            if total is None:
                yield kind, average
            else:
                self._stalls.setdefault(kind, []).append((at, total))
        for kind, told in self._stalls.items():
            if told[-1][0] < at:
                told.append((at, told[-1][1]))
            since, before = next((one for one in reversed(told) if at - one[0] >= _WINDOW), told[0])
            # A reset counter, or a changed clock, gives no share of time.
            share = (told[-1][1] - before) / 10_000 / (at - since) if at > since else None
            yield kind, None if share is None else round(min(max(share, 0.0), 100.0), 3)

    def chart(self, path: str) -> Document:
        """The columns by name, at the kept times."""
        marked = {mark["at"] for mark in self._marks}
        step = max(1, -(-len(self.times) // MOST_POINTS))
        kept = [
            number for number, at in enumerate(self.times)
            if number % step == 0 or at in marked or number == len(self.times) - 1
        ]  # fmt: skip
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        columns = {name: [self._rows[number].get(name) for number in kept] for name in names}
        return {
            "cgroup": path,
            "times": [self.times[number] for number in kept],
            "columns": {name: column for name, column in columns.items() if any(one is not None for one in column)},
            "marks": self._marks,
            "pressure": _BY_TOTAL if self._stalls else _BY_AVERAGE,
            "looks": len(self.times),
        }


def _values(texts: Mapping[str, str]) -> Iterator[tuple[str, float | None]]:
    for name in ("memory.current", "memory.swap.current", "memory.swap.max", *_LIMITS):
        if name in texts:
            yield name, _number(texts[name])
    for name, value in _pairs(texts.get("memory.stat", "")):
        if name in _USAGE:
            yield name, value
        if name in _REFAULTS and value:
            yield _REFAULTS[name], value
    yield from _zones(texts.get("memory.numa_stat", ""))


def _zones(text: str) -> Iterator[tuple[str, float | None]]:
    """Memory by NUMA node from lines like "anon N0=0 N1=4096"; the column is "anon N0"."""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        zones = _ZONE.findall(rest) if kind in _USAGE else []
        if len(zones) > 1:
            yield from ((f"{kind} {name}", float(amount)) for name, amount in zones)


def _stalled(text: str) -> Iterator[tuple[str, float | None, float | None]]:
    """Kind, average in percent and total in microseconds of "some avg10=0.00 avg60=… total=77"."""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        said = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        if kind in {"some", "full"}:
            yield kind, _number(said.get("avg10", "")), _number(said.get("total", ""))


def _pairs(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if (number := _number(value)) is not None:
            yield name, number


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) < float("inf") and found == found else None  # noqa: PLR0124 - not a NaN
