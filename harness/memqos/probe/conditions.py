"""PURE conditions on readings, each with the name that a report will show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memqos.cgroupfs import parse
from memqos.model.path import CgroupPath
from memqos.model.reading import NoFile, Pressure, Reading
from memqos.probe.series import Condition

__all__ = [
    "counter",
    "event_rises",
    "gone",
    "gone_or",
    "pressure_of",
    "pressure_rises",
    "settles",
    "usage",
    "usage_at_least",
]


def counter(reading: Reading, path: CgroupPath, file: str, key: str) -> int:
    """One counter of memory.events, memory.swap.events or memory.stat; CgroupFileError if it was not observed."""
    where = f"{path}/{file}"
    counters = parse.counters(parse.present(reading.file(path, file), path=where), path=where)
    return parse.entry(counters, key, path=where)


def usage(reading: Reading, path: CgroupPath, file: str = "memory.current") -> int:
    """A file of one number, in bytes; CgroupFileError if it was not observed."""
    where = f"{path}/{file}"
    return parse.number(parse.present(reading.file(path, file), path=where), path=where)


def pressure_of(reading: Reading, path: CgroupPath) -> Pressure:
    """memory.pressure; CgroupFileError if it was not observed."""
    where = f"{path}/memory.pressure"
    return parse.pressure(parse.present(reading.file(path, "memory.pressure"), path=where), path=where)


def event_rises(path: CgroupPath, key: str, *, by: int = 1, file: str = "memory.events") -> Condition:
    """A counter is at least `by` (>= 1) above what the first reading had."""
    return _of_last(
        f"{key} of {path}/{file} rises by {by} or more",
        path,
        lambda readings: counter(readings[-1], path, file, key) >= counter(readings[0], path, file, key) + by,
    )


def usage_at_least(path: CgroupPath, amount: int, *, file: str = "memory.current") -> Condition:
    """A file of one number is at least this many bytes."""
    return _of_last(
        f"{path}/{file} is {amount} bytes or more", path, lambda readings: usage(readings[-1], path, file) >= amount
    )


def pressure_rises(path: CgroupPath, *, by_us: int) -> Condition:
    """Memory stall time is at least this many µs (> 0) above what the first reading had ("some", total)."""
    return _of_last(
        f"stall time of {path}/memory.pressure rises by {by_us} µs or more",
        path,
        lambda readings: (
            pressure_of(readings[-1], path).some.total >= pressure_of(readings[0], path).some.total + by_us
        ),
    )


def settles(path: CgroupPath, *, within: int, readings: int = 4, file: str = "memory.current") -> Condition:
    """The newest readings (>= 2 of them) of a file of one number differ by no more than `within` bytes."""

    def holds(seen: Sequence[Reading]) -> bool:
        newest = [usage(reading, path, file) for reading in seen[-readings:]]
        return len(newest) == readings and max(newest) - min(newest) <= within

    return _of_last(f"{path}/{file} stays within {within} bytes for {readings} readings", path, holds)


def gone(path: CgroupPath) -> Condition:
    """The cgroup exists no more, as when its last process ended; it must have been there in the first reading."""
    return Condition(
        name=f"{path} is gone", holds=lambda readings: _is_gone(readings[-1], path) and not _is_gone(readings[0], path)
    )


def gone_or(condition: Condition, path: CgroupPath) -> tuple[Condition, Condition]:
    """This condition, or the end of the cgroup that it is about."""
    return condition, gone(path)


def _of_last(name: str, path: CgroupPath, holds: Callable[[Sequence[Reading]], bool]) -> Condition:
    """A condition that does not hold of a cgroup that is gone: there is nothing left to read."""
    return Condition(name=name, holds=lambda readings: not _is_gone(readings[-1], path) and holds(readings))


def _is_gone(reading: Reading, path: CgroupPath) -> bool:
    cgroup = reading.cgroups.get(path)
    return cgroup is None or all(isinstance(text, NoFile) for text in cgroup.files.values())
