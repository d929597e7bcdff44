"""Observations: the text of interface files at one instant, and its typed values.

A reading keeps the kernel's text. A missing file, an unreadable file and a file that was not requested differ, and none
is zero.

`read_back` gives the text of an interface file after a write, which may differ from the written text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from memqos.model.knob import MAX, UNLIMITED, Bytes, Knob, KnobValue, Text, Unlimited
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath

__all__ = [
    "CgroupReading",
    "FileText",
    "NoFile",
    "Pressure",
    "PressureLine",
    "Reading",
    "Unreadable",
    "huge_pages_back",
    "read_back",
]


class NoFile(Enum):
    """The file was requested and does not exist."""

    NO_FILE = "no such file"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file exists and could not be read, with the reason."""

    reason: str

    def __str__(self) -> str:
        return self.reason


FileText = str | NoFile | Unreadable

_CORE = "cgroup."
"""The prefix of files that need no controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupReading:
    """The files of one cgroup, by name; a missing name was not requested."""

    path: CgroupPath
    files: Mapping[str, FileText]

    @property
    def has_no_file(self) -> bool:
        """Whether no requested file exists: the cgroup does not exist, or has none of their controllers."""
        return all(isinstance(text, NoFile) for text in self.files.values())

    @property
    def is_missing(self) -> bool:
        """Whether the cgroup does not exist: a core file, which every cgroup has, was requested as well."""
        return self.has_no_file and any(name.startswith(_CORE) for name in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Several cgroups at one instant.

    at: seconds of the observer's monotonic clock; only differences mean anything.
    source: the target's address, or the file of a recording.
    """

    source: str
    at: float
    cgroups: Mapping[CgroupPath, CgroupReading] = field(default_factory=dict)

    def file(self, path: CgroupPath, name: str) -> FileText | None:
        """The text of one file; NoFile if it or its cgroup does not exist, None if it was not requested."""
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


# PAGE_COUNTER_MAX in bytes is LONG_MAX rounded down to pages: from there on the kernel shows "max".
_LONG_MAX = 2**63 - 1
# CONFIG_NR_CPUS and 1 << CONFIG_NODES_SHIFT are at most this many.
_MOST_NUMBERS = 8192

_HUGE = {
    Knob.HUGETLB_2MB_MAX: 2 << 20,
    Knob.HUGETLB_1GB_MAX: 1 << 30,
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES: 2 << 20,
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES: 1 << 30,
}
# Called for every file of every planned cgroup.
_PAGE_COUNTED = frozenset(knob for knob in Knob if knob.counts_pages)
_ON_V1 = frozenset(knob for knob in Knob if CgroupVersion.V2 not in knob.versions)


def read_back(knob: Knob, written: KnobValue, page_size: int) -> KnobValue:
    """The file's value after this value was written.

    Memory amounts are kept in whole pages of `page_size` bytes, rounded down; from PAGE_COUNTER_MAX on the file
    shows "max" (kernel: mm/page_counter.c, page_counter_memparse). Lists of numbers show as ranges (lib/bitmap.c:
    "0,1,3" reads "0-1,3"). On cgroup v1 the largest amount reads as a number, whole huge pages if the file counts those
    (mm/memcontrol.c, mem_cgroup_read_u64; mm/hugetlb_cgroup.c). Everything else reads as written.
    """
    if isinstance(written, Text):
        return Text(_as_ranges(written.text))
    if not isinstance(written, (Bytes, Unlimited)):
        return written
    if knob in _HUGE:
        return huge_pages_back(written, _HUGE[knob], page_size, v2=knob not in _ON_V1)
    if knob not in _PAGE_COUNTED:
        return written
    most = _LONG_MAX // page_size
    pages = most if written is UNLIMITED else min(written.count // page_size, most)
    if pages >= most and knob not in _ON_V1:
        return MAX
    shown = pages * page_size
    return written if written is not UNLIMITED and written.count == shown else Bytes(shown)


def huge_pages_back(written: KnobValue, size: int, page_size: int, *, v2: bool) -> KnobValue:
    """The value of a limit of huge pages of `size` bytes after this was written: whole ones, rounded down.

    From the largest amount on it is "max" on cgroup v2, and that amount on v1 (mm/hugetlb_cgroup.c).
    """
    most = _LONG_MAX // page_size * page_size // size * size
    if written is UNLIMITED:
        return Bytes(most)
    if not isinstance(written, Bytes):
        return written
    shown = min(written.count // size * size, most)
    if shown >= most and v2:
        return MAX
    return written if written.count == shown else Bytes(shown)


def _as_ranges(text: str) -> str:
    """A list of numbers as the kernel prints it; any other text unchanged."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text, re.ASCII):
        return text
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= _MOST_NUMBERS:
            return text
        numbers.update(range(int(first), int(last or first) + 1))
    ordered = sorted(numbers)
    starts = [one for one in ordered if one - 1 not in numbers]
    ends = [one for one in ordered if one + 1 not in numbers]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
