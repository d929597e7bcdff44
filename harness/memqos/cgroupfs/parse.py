"""PURE parsing of the kernel's control files. What does not parse is a CgroupFileError with path, line and text.

New keys appear from kernel to kernel, so files of keys are read by name and unknown keys are kept. Numbers are the
kernel's own: ASCII digits, no sign, at most 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from memqos.errors import CgroupFileError
from memqos.model.reading import FileText, NoFile, Pressure, PressureLine, Unreadable

__all__ = ["counters", "entry", "numa_stat", "number", "present", "pressure", "words"]

_U64_MAX = 2**64 - 1
_AVERAGE = re.compile(r"\d{1,3}\.\d\d", re.ASCII)
_LONGEST_SHOWN = 200


def present(text: FileText | None, *, path: str) -> str:
    """The file's text; CgroupFileError if it is not there, could not be read, or was not asked for."""
    match text:
        case str():
            return text
        case NoFile():
            why = "the file does not exist"
        case Unreadable(reason):
            why = f"it could not be read: {reason}"
        case None:
            why = "it was not read"
    raise CgroupFileError(f"{why}.", where=path, data={"path": path, "line": 0, "text": ""})


def number(text: str, *, path: str) -> int:
    """A file that is one number (memory.current in bytes, memory.oom.group)."""
    return _u64(_only_line(text, path), path, 1)


def counters(text: str, *, path: str) -> dict[str, int]:
    """A file of "key number" lines (memory.events, memory.stat, memory.swap.events, cgroup.events), in its order."""
    found: dict[str, int] = {}
    for line_number, line in _lines(text, path):
        key, separator, value = line.partition(" ")
        if not key or not separator:
            _refuse("not a key and a number", path, line_number, line)
        if key in found:
            _refuse("a second line of this key", path, line_number, line)
        found[key] = _u64(value, path, line_number)
    return found


def entry(counters: Mapping[str, int], key: str, *, path: str) -> int:
    """One counter by name; CgroupFileError if this kernel does not have it."""
    if key not in counters:
        _refuse(f"without '{key}'", path, 0, ", ".join(counters))
    return counters[key]


def numa_stat(text: str, *, path: str) -> dict[str, dict[int, int]]:
    """memory.numa_stat: key to zone id to bytes. Only zones with memory are in it."""
    found: dict[str, dict[int, int]] = {}
    for line_number, line in _lines(text, path):
        key, *zones = line.split(" ")
        if not key or not zones or key in found:
            _refuse("not one key with its zones", path, line_number, line)
        found[key] = {}
        for zone in zones:
            match = re.fullmatch(r"N(\d{1,5})=(\d{1,20})", zone, re.ASCII)
            if not match or int(match[1]) in found[key]:
                _refuse("not one amount for each zone", path, line_number, line)
            found[key][int(match[1])] = _u64(match[2], path, line_number)
    return found


def pressure(text: str, *, path: str) -> Pressure:
    """A PSI file (memory.pressure): averages in percent, totals in µs.

    A kernel that prints no "full" line, as for the whole machine's CPUs before 5.13, is refused: memqos reads PSI of
    memory only, which always has both.
    """
    found: dict[str, PressureLine] = {}
    for line_number, line in _lines(text, path):
        kind, fields = _assignments(line, path, line_number)
        if kind in found or set(fields) != {"avg10", "avg60", "avg300", "total"}:
            _refuse("not one PSI line of its kind", path, line_number, line)
        averages = [fields[name] for name in ("avg10", "avg60", "avg300")]
        if not all(_AVERAGE.fullmatch(average) for average in averages):
            _refuse("not PSI averages", path, line_number, line)
        found[kind] = PressureLine(
            avg10=float(averages[0]),
            avg60=float(averages[1]),
            avg300=float(averages[2]),
            total=_u64(fields["total"], path, line_number),
        )
    if set(found) != {"some", "full"}:
        _refuse("not the PSI lines 'some' and 'full'", path, len(found) + 1, text)
    return Pressure(some=found["some"], full=found["full"])


def words(text: str, *, path: str) -> tuple[str, ...]:
    """A file of words on one line (cgroup.controllers, cgroup.subtree_control); empty is no words."""
    return tuple(_only_line(text, path).split()) if text.strip() else ()


def _lines(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines. The kernel ends each line, so a text without the last newline was cut off."""
    if not text:
        _refuse("empty", path, 1, text)
    if not text.endswith("\n"):
        _refuse("cut off in its last line", path, text.count("\n") + 1, text.rpartition("\n")[2])
    yield from enumerate(text[:-1].split("\n"), start=1)


def _only_line(text: str, path: str) -> str:
    line = text.removesuffix("\n")
    if not line or "\n" in line:
        _refuse("not one line", path, 1, line)
    return line


def _assignments(line: str, path: str, number: int) -> tuple[str, Mapping[str, str]]:
    kind, *pairs = line.split(" ")
    fields = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(fields) != len(pairs):
        _refuse("not a list of assignments", path, number, line)
    return kind, fields


def _u64(text: str, path: str, line: int) -> int:
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) > _U64_MAX:
        _refuse("not an unsigned 64-bit number", path, line, text)
    return int(text)


def _refuse(why: str, path: str, line: int, text: str) -> NoReturn:
    shown = text[:_LONGEST_SHOWN] + ("…" if len(text) > _LONGEST_SHOWN else "")
    raise CgroupFileError(
        f"'{shown}' is {why}.", where=f"{path}:{line}", data={"path": path, "line": line, "text": text}
    )
