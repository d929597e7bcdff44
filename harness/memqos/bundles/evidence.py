"""The evidence of a case in a results folder as plain data: tree, requests, logs, names of files.

It comes from a machine under test, or from a folder that may be damaged, so it is read within bounds, kept as text, and
links are never followed. Unreadable parts are reported.

Also the series of a watched cgroup, as columns for a chart. `series.jsonl` has changes with their times; a chart needs
every value at every time. Times are seconds since the file's first sample, amounts are bytes as the kernel reports
them. A pressure is a share of time in percent: of the half second before, from the kernel's total of stalls; without a
total, of the last ten seconds, as the kernel averages them. Refaults ("refault anon", "refault file") are in pages
since the creation of the cgroup; without refaults they have no column. A value is None before its first sample and for
"max": no line is drawn.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memqos.bundles.files import COMPRESSED
from memqos.engine.translate.explain import Document
from memqos.plain_file import read_bounded
from memqos.report.outcome import TestResult

__all__ = ["LOG_BYTES", "MOST_POINTS", "CaseEvidence", "charts_of", "folder_of", "inside"]

LOG_BYTES = 24 << 10
"""Bytes of a log's end that are kept."""
MOST_REQUESTS = 120
LONGEST_FILE = 64 << 20
"""Longer files are not read: no run writes them."""

_TEXTS = (".txt", ".log", ".unit.txt", ".yaml")


class CaseEvidence:
    """The folder of a case or a population. told: unreadable parts, a sentence each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[str] = []

    def document(self) -> Document:
        """All of the evidence, without missing parts."""
        found: Document = {
            "tree": self._tree(),
            "requests": self._requests(),
            "manifests": self._manifests(),
            "logs": self._logs(),
            "files": [file.name for file in self._files()],
        }
        if self.told:
            found["told"] = self.told
        return {name: part for name, part in found.items() if part}

    def _files(self) -> list[Path]:
        try:
            return sorted(file for file in self.folder.iterdir() if file.is_file() and not file.is_symlink())
        except OSError as error:
            self.told.append(f"The folder cannot be read: {error.strerror}.")
            return []

    def lines(self, name: str) -> Iterator[Document]:
        """The JSON objects of a file, one per line; none if it is missing."""
        damaged = 0
        for line in io.BytesIO(self._bytes(name)):
            one = _value(line)
            if isinstance(one, dict):
                yield one
            else:
                damaged += 1
        if damaged:
            self.told.append(f"{name} has {damaged} damaged {'line' if damaged == 1 else 'lines'}.")

    def _bytes(self, name: str) -> bytes:
        """A file's bytes, also from a compressed file; none if it is missing, or unreadable, which is reported."""
        file = self.folder / name
        is_compressed = not file.exists()
        file = file.with_name(f"{name}{COMPRESSED}") if is_compressed else file
        try:
            if file.is_symlink() or (file.exists() and not file.is_file()):
                self.told.append(f"{name} is not a regular file and was not read.")
                return b""
            with gzip.open(file) if is_compressed else file.open("rb") as stream:
                found = read_bounded(stream, LONGEST_FILE)
        except FileNotFoundError:
            return b""
        except (OSError, EOFError, zlib.error) as error:
            self.told.append(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")
            return b""
        if len(found) > LONGEST_FILE:
            self.told.append(f"{name} is longer than any file of a run and was not read.")
            return b""
        return found

    def _whole(self, name: str) -> Document:
        text = self._bytes(name)
        found = _value(text) if text else {}
        if not isinstance(found, dict):
            self.told.append(f"{name} is damaged.")
            return {}
        return found

    def _tree(self) -> list[Document]:
        """Each cgroup of the plan or of a reading: by file the expected value and the last observed one."""
        observed: dict[str, Mapping[str, object]] = {}
        for reading in self.lines("readings.jsonl"):
            cgroups = reading.get("cgroups")
            if isinstance(cgroups, dict):
                observed |= {path: files for path, files in cgroups.items() if isinstance(files, dict)}
        nodes: dict[str, Document] = {}
        planned = self._whole("plan.json").get("cgroups")
        for cgroup in planned if isinstance(planned, list) else ():
            if not isinstance(cgroup, dict) or cgroup.get("container"):
                continue  # only the runtime knows the cgroup of a container: its findings have it
            knobs = cgroup.get("knobs")
            expected = {
                knob: str(one.get("value")) for knob, one in (knobs.items() if isinstance(knobs, dict) else ())
                if isinstance(one, dict)
            }  # fmt: skip
            nodes[str(cgroup.get("path"))] = {"level": str(cgroup.get("level")), "expected": expected}
        for path, files in observed.items():
            texts = {name: _file_text(text) for name, text in files.items()}
            nodes.setdefault(path, {})["observed"] = texts
        return [{"path": path, **node} for path, node in sorted(nodes.items())]

    def _requests(self) -> list[Document]:
        found = [
            {name: one.get(name) for name in ("method", "at", "seconds", "request", "reply", "error")}
            for one in self.lines("requests.jsonl")
        ]
        if len(found) > MOST_REQUESTS:
            self.told.append(f"requests.jsonl has {len(found)} requests; the first {MOST_REQUESTS} are shown.")
        return found[:MOST_REQUESTS]

    def _manifests(self) -> list[str]:
        return [self._tail(file, 4 * LOG_BYTES) for file in self._files() if file.name.startswith("manifest")]

    def _logs(self) -> Document:
        names = {file.name.removesuffix(COMPRESSED): file for file in self._files()}
        return {
            name: self._tail(file, LOG_BYTES)
            for name, file in names.items()
            if name.endswith(_TEXTS) and not name.startswith("manifest")
        }

    def _tail(self, file: Path, most: int) -> str:
        if file.suffix == COMPRESSED:
            whole = self._bytes(file.name.removesuffix(COMPRESSED))
            return _tail(whole[-most:], most, len(whole))
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - most))
                end = stream.read(most)
        except OSError as error:
            self.told.append(f"{file.name} cannot be read: {error.strerror}.")
            return ""
        return _tail(end, most, size)


def _tail(end: bytes, most: int, size: int) -> str:
    """The last bytes of a file of this size as text, with a first line if they are not all."""
    text = end.decode("utf-8", "backslashreplace")
    return text if size <= most else f"… the last {most >> 10} KiB of {size >> 10}:\n{text}"


def folder_of(results: Path, result: TestResult) -> Path | None:
    """The folder with the evidence of a case: its own, else that of its population; None for neither.

    The folder must be within the results, since its name was read from a file.
    """
    own = inside(results, result.folder) if result.folder else None
    if own is not None:
        return own
    parameters = result.id.partition("[")[2].removesuffix("]")
    populations = results / "populations"
    try:
        names = sorted(one.name for one in populations.iterdir()) if result.machine else []
    except OSError:
        return None
    fitting = [
        name for name in names
        if name.startswith(f"{result.machine}-") and parameters.startswith(name.removeprefix(f"{result.machine}-"))
    ]  # fmt: skip
    return populations / max(fitting, key=len) if fitting else None


def inside(results: Path, name: str) -> Path | None:
    """A folder by its name below the results; None if it is missing or outside of them."""
    try:
        folder = (results / name).resolve()
        return folder if folder.is_relative_to(results.resolve()) and folder.is_dir() else None
    except (OSError, ValueError):
        return None


def _refuse(word: str) -> None:
    """The value without NaN and Infinity, which are not JSON: a browser would not read them."""
    raise ValueError(word)


def _value(text: bytes) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _file_text(text: object) -> str | None:
    if isinstance(text, dict):
        return f"unreadable: {text.get('unreadable')}"
    return None if text is None else str(text).strip("\n")


CGROUPFS = "/sys/fs/cgroup"
MOST_POINTS = 1500
"""Most times in a chart; of more, an even selection is kept, and all times with events."""

_WINDOW = 0.5
"""Seconds over which stalls count: samples that events cause may be only milliseconds apart."""
_BY_TOTAL, _BY_AVERAGE = "share of the half second before", "share of time, last 10 s"

_LIMITS = ("memory.min", "memory.low", "memory.high", "memory.max")
_USAGE = ("anon", "file")
_REFAULTS = {"workingset_refault_anon": "refault anon", "workingset_refault_file": "refault file"}
_NUMA_NODE = re.compile(r"\b(N\d{1,4})=(\d{1,19})\b")
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
    yield from _numa_nodes(texts.get("memory.numa_stat", ""))


def _numa_nodes(text: str) -> Iterator[tuple[str, float | None]]:
    """Memory by NUMA node from lines like "anon N0=0 N1=4096"; the column is "anon N0"."""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        numa_nodes = _NUMA_NODE.findall(rest) if kind in _USAGE else []
        if len(numa_nodes) > 1:
            yield from ((f"{kind} {name}", float(amount)) for name, amount in numa_nodes)


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
