"""What was observed: the text of control files at one instant, and the typed values inside it.

A reading keeps the text as the kernel gave it. A file that does not exist, one that could not be read and one that
was not asked for are three things, none of them zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from memqos.model.path import CgroupPath

__all__ = ["CgroupReading", "FileText", "NoFile", "Pressure", "PressureLine", "Reading", "Unreadable"]


class NoFile(Enum):
    """The file was asked for and does not exist."""

    NO_FILE = "no such file"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file exists and could not be read, and why."""

    reason: str

    def __str__(self) -> str:
        return self.reason


FileText = str | NoFile | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupReading:
    """The files of one cgroup, by name; a name that is missing was not asked for."""

    path: CgroupPath
    files: Mapping[str, FileText]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Several cgroups at one instant.

    at: seconds of the observer's monotonic clock; only differences mean anything.
    source: the target's address, or the file that a recording came from.
    """

    source: str
    at: float
    cgroups: Mapping[CgroupPath, CgroupReading] = field(default_factory=dict)

    def file(self, path: CgroupPath, name: str) -> FileText | None:
        """The text of one file; NoFile if it (or its cgroup) was looked for and is not there, None if not asked for."""
        cgroup = self.cgroups.get(path)
        return None if cgroup is None else cgroup.files.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureLine:
    """One line of a PSI file: averages in percent, total in µs of stall since boot."""

    avg10: float
    avg60: float
    avg300: float
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """memory.pressure: some tasks stalled, and all tasks stalled."""

    some: PressureLine
    full: PressureLine
