"""Readings over time: taken until a named condition holds or the deadline comes, and kept in any case.

A condition that does not come true may be a result about the system under test, so it is no error here: the series
says whether it was met. `require` makes it an error where nothing but the machinery can be to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.errors import DeadlineError
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText, Reading

__all__ = ["BEHAVIOUR_FILES", "Condition", "Series", "watch"]

BEHAVIOUR_FILES = (
    "memory.current",
    "memory.swap.current",
    "memory.events",
    "memory.swap.events",
    "memory.pressure",
)
"""What a behaviour is judged by; five small files of a cgroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that readings can show. name: as it will be read in a report; holds: asked after each reading."""

    name: str
    holds: Callable[[Sequence[Reading]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Readings in the order they were taken, and which condition ended the watching.

    met: the name of the condition that held after the last reading; "" if the deadline came first.
    awaited: the names of all that were waited for. seconds: from the first look to the last.
    """

    readings: tuple[Reading, ...]
    met: str
    awaited: tuple[str, ...]
    seconds: float

    @property
    def first(self) -> Reading:
        """The reading before anything was waited for."""
        return self.readings[0]

    @property
    def last(self) -> Reading:
        """The newest reading."""
        return self.readings[-1]

    def texts(self, path: CgroupPath, name: str) -> tuple[tuple[float, FileText | None], ...]:
        """A file's text over time: seconds since the first reading, and what `Reading.file` says."""
        return tuple((reading.at - self.first.at, reading.file(path, name)) for reading in self.readings)

    def require(self) -> Series:
        """The series itself; DeadlineError naming what was waited for if nothing of it came true."""
        if not self.met and self.awaited:
            condition = " or ".join(f"'{name}'" for name in self.awaited)
            raise DeadlineError(
                f"waited {self.seconds:.1f} s for {condition}, and it did not come true.",
                data={"condition": condition, "last": self.last, "elapsed": self.seconds},
            )
        return self


def watch(
    tree: CgroupTree,
    paths: Iterable[CgroupPath],
    *,
    deadline: Deadline,
    until: Sequence[Condition] = (),
    names: Sequence[str] = BEHAVIOUR_FILES,
    every: float = 0.25,
    record: Callable[[Reading], None] = lambda reading: None,  # noqa: ARG005 - the name is the contract
) -> Series:
    """Read these cgroups again and again until one of the conditions holds, or until the deadline.

    Without conditions it watches until the deadline, and that is no failure. every: seconds from the start of one
    reading to the start of the next, at least; a reading over ssh takes about 0.1 s under emulation. record: is
    given each reading as soon as it is taken.

    The last reading is made when the deadline has come, not before: what is true then counts.
    """
    paths = tuple(paths)
    readings: list[Reading] = []
    met = ""
    while not met:
        last = deadline.expired
        began = deadline.clock.now()
        # A reading that is begun in time may end late: it has half a minute of its own, and then the machine is ill.
        readings.append(tree.read_cgroups(paths, names, deadline=Deadline.after(30, deadline.clock)))
        record(readings[-1])
        met = next((condition.name for condition in until if condition.holds(readings)), "")
        if last:
            break
        if not met:
            deadline.clock.sleep(min(every - (deadline.clock.now() - began), deadline.remaining))
    return Series(
        readings=tuple(readings),
        met=met,
        awaited=tuple(condition.name for condition in until),
        seconds=readings[-1].at - readings[0].at,
    )
