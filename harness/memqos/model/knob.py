"""Interface files ("knobs") of a cgroup, and the values they can hold.

Absent, zero and max differ: `ABSENT` means that the file was not written (or does not exist), `Bytes(0)` is a written
zero, `MAX` is the word "max" (no limit). Most files of cgroup v1 have no such word: `UNLIMITED` is the -1 written there
instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum

from memqos.model.node import CgroupVersion

__all__ = [
    "ABSENT",
    "MAX",
    "UNLIMITED",
    "Absent",
    "Bytes",
    "CpuMax",
    "Knob",
    "KnobValue",
    "Max",
    "Number",
    "Text",
    "Unlimited",
    "knobs_of",
]

# On cgroup v1 no limit reads as LONG_MAX rounded down to pages, or to huge pages of at most 1 GiB.
_NEARLY_UNLIMITED = 2**63 - 2**30


class Absent(Enum):
    """The type of `ABSENT`: not written, or no such file; never the same as zero or max."""

    ABSENT = "absent"

    def __str__(self) -> str:
        return "absent"


class Max(Enum):
    """The type of `MAX`: the word "max" in an interface file, no limit."""

    MAX = "max"

    def __str__(self) -> str:
        return "max"


class Unlimited(Enum):
    """The type of `UNLIMITED`: -1 in a file of cgroup v1, no limit; amounts of memory then read as a huge number."""

    UNLIMITED = "-1"

    def __str__(self) -> str:
        return "-1"


ABSENT = Absent.ABSENT
MAX = Max.MAX
UNLIMITED = Unlimited.UNLIMITED


@dataclass(frozen=True, slots=True, order=True)
class Bytes:
    """An amount of memory in bytes (>= 0)."""

    count: int

    def __hash__(self) -> int:
        """The number's own hash, which is faster than a tuple's: plans look up thousands of values."""
        return self.count

    def __str__(self) -> str:
        return str(self.count)


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """A number without a unit: cpu.weight, memory.oom.group, pids.max, cpu.shares, oom_score_adj."""

    count: int

    def __hash__(self) -> int:
        """As of Bytes."""
        return self.count

    def __str__(self) -> str:
        return str(self.count)


@dataclass(frozen=True, slots=True)
class CpuMax:
    """cpu.max: quota and period in µs; a quota of None is the word "max"."""

    quota: int | None
    period: int

    def __str__(self) -> str:
        return f"{'max' if self.quota is None else self.quota} {self.period}"


@dataclass(frozen=True, slots=True)
class Text:
    """A value compared as text: the lists in cpuset.mems and cpuset.cpus; "" inherits from the parent."""

    text: str

    def __str__(self) -> str:
        return self.text


KnobValue = Bytes | Number | CpuMax | Text | Max | Unlimited | Absent


class Knob(StrEnum):
    """The interface files that memqos plans and reads; the value is the file's name.

    `versions` says where a file exists: cpuset.* and pids.max on both versions of cgroups, the others on one.
    """

    MEMORY_MIN = "memory.min"
    MEMORY_LOW = "memory.low"
    MEMORY_HIGH = "memory.high"
    MEMORY_MAX = "memory.max"
    MEMORY_SWAP_MAX = "memory.swap.max"
    MEMORY_OOM_GROUP = "memory.oom.group"
    CPU_WEIGHT = "cpu.weight"
    CPU_MAX = "cpu.max"
    CPUSET_CPUS = "cpuset.cpus"
    CPUSET_MEMS = "cpuset.mems"
    PIDS_MAX = "pids.max"
    HUGETLB_2MB_MAX = "hugetlb.2MB.max"
    HUGETLB_1GB_MAX = "hugetlb.1GB.max"
    MEMORY_LIMIT_IN_BYTES = "memory.limit_in_bytes"
    MEMORY_MEMSW_LIMIT_IN_BYTES = "memory.memsw.limit_in_bytes"
    MEMORY_SOFT_LIMIT_IN_BYTES = "memory.soft_limit_in_bytes"
    MEMORY_SWAPPINESS = "memory.swappiness"
    MEMORY_OOM_CONTROL = "memory.oom_control"
    CPU_SHARES = "cpu.shares"
    CPU_CFS_QUOTA_US = "cpu.cfs_quota_us"
    CPU_CFS_PERIOD_US = "cpu.cfs_period_us"
    HUGETLB_2MB_LIMIT_IN_BYTES = "hugetlb.2MB.limit_in_bytes"
    HUGETLB_1GB_LIMIT_IN_BYTES = "hugetlb.1GB.limit_in_bytes"

    @property
    def versions(self) -> frozenset[CgroupVersion]:
        """The cgroup versions on which a file of this name exists."""
        if self in _ON_BOTH:
            return frozenset(CgroupVersion)
        return frozenset({CgroupVersion.V1 if self in _ON_V1 else CgroupVersion.V2})

    @property
    def controller(self) -> str:
        """The file's controller; on cgroup v1 also its hierarchy."""
        return self.value.partition(".")[0]

    @property
    def counts_pages(self) -> bool:
        """Whether the kernel keeps this amount in pages, so bytes read back are rounded down to a page."""
        return self in _PAGE_COUNTED

    @property
    def kernel_default(self) -> KnobValue:
        """The initial value in a new non-root cgroup; `read_back` gives its text.

        Source: kernel, cgroup-v2.rst and cgroup-v1/{memory,hugetlb,cpusets}.rst. memory.swappiness is inherited from
        the parent, at the root from vm.swappiness, 60 by default.
        """
        return _DEFAULTS[self]

    def is_default(self, value: KnobValue) -> bool:
        """Whether this value is the initial one, for any page size."""
        if self.kernel_default is UNLIMITED and isinstance(value, Bytes):
            return value.count >= _NEARLY_UNLIMITED
        return value == self.kernel_default

    def parse(self, text: str) -> KnobValue:
        """The value of this file's text; ValueError for a text that the kernel never prints there."""
        # The kernel ends a line with a line feed and prints no other blank at the end.
        text = text.strip("\n ")
        if self in _TEXTS:
            if not _is_list(text):
                raise ValueError(f"{_shown(text)} is not a list of numbers such as 0-3,5")
            return Text(text)
        if not text:
            raise ValueError("it is empty")
        if self is Knob.CPU_MAX:
            match = re.fullmatch(r"(max|\d{1,20}) (\d{1,20})", text, re.ASCII)
            if not match:
                raise ValueError(f"{_shown(text)} is not a quota and a period")
            return CpuMax(None if match[1] == "max" else int(match[1]), int(match[2]))
        if text == "max" and self not in _ON_V1:
            return MAX
        if text == "-1" and self is Knob.CPU_CFS_QUOTA_US:
            return UNLIMITED
        if self is Knob.MEMORY_OOM_CONTROL:
            # Several lines: the first one shows whether the OOM killer is off, the others are counters.
            text = text.partition("\n")[0].removeprefix("oom_kill_disable ")
        if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) > _U64_MAX:
            raise ValueError(f"{_shown(text)} is neither a number nor '{'-1' if self in _ON_V1 else 'max'}'")
        return Number(int(text)) if self in _NUMBERS else Bytes(int(text))


_U64_MAX = 2**64 - 1
_MOST_SHOWN = 60


def _shown(text: str) -> str:
    """The start of a file's text in quotes, with escapes for what does not print."""
    short = text[:_MOST_SHOWN] + "…" * (len(text) > _MOST_SHOWN)
    return "'" + "".join(one if one.isprintable() else repr(one)[1:-1] for one in short) + "'"


_LIST = re.compile(r"(?:\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*)?", re.ASCII)


def _is_list(text: str) -> bool:
    """Whether this is the kernel's text for a set of CPUs or memory nodes (`%*pbl`): ascending, "" for none.

    Source: kernel, lib/vsprintf.c, bitmap_list_string.
    """
    if not _LIST.fullmatch(text):
        return False
    last = -1
    for part in text.split(",") if text else ():
        first, dash, end = part.partition("-")
        if int(first) <= last or (dash and int(end) <= int(first)):
            return False
        last = int(end or first)
    return True


_ON_BOTH = frozenset({Knob.CPUSET_CPUS, Knob.CPUSET_MEMS, Knob.PIDS_MAX})
_V1_AMOUNTS = frozenset({Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, Knob.MEMORY_SOFT_LIMIT_IN_BYTES})
_V1_HUGE = frozenset({Knob.HUGETLB_2MB_LIMIT_IN_BYTES, Knob.HUGETLB_1GB_LIMIT_IN_BYTES})
_V1_NUMBERS = frozenset(
    {
        Knob.MEMORY_SWAPPINESS, Knob.MEMORY_OOM_CONTROL, Knob.CPU_SHARES, Knob.CPU_CFS_QUOTA_US,
        Knob.CPU_CFS_PERIOD_US,
    }
)  # fmt: skip
_ON_V1 = _V1_AMOUNTS | _V1_NUMBERS | _V1_HUGE
_PAGE_COUNTED = _V1_AMOUNTS | {
    Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX,
}  # fmt: skip
_TEXTS = frozenset({Knob.CPUSET_CPUS, Knob.CPUSET_MEMS})
_NUMBERS = _V1_NUMBERS | {Knob.MEMORY_OOM_GROUP, Knob.CPU_WEIGHT, Knob.PIDS_MAX}
_DEFAULTS: dict[Knob, KnobValue] = {
    Knob.MEMORY_MIN: Bytes(0),
    Knob.MEMORY_LOW: Bytes(0),
    Knob.MEMORY_HIGH: MAX,
    Knob.MEMORY_MAX: MAX,
    Knob.MEMORY_SWAP_MAX: MAX,
    Knob.MEMORY_OOM_GROUP: Number(0),
    Knob.CPU_WEIGHT: Number(100),
    Knob.CPU_MAX: CpuMax(None, 100_000),
    Knob.CPUSET_CPUS: Text(""),
    Knob.CPUSET_MEMS: Text(""),
    Knob.PIDS_MAX: MAX,
    Knob.HUGETLB_2MB_MAX: MAX,
    Knob.HUGETLB_1GB_MAX: MAX,
    Knob.MEMORY_LIMIT_IN_BYTES: UNLIMITED,
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: UNLIMITED,
    Knob.MEMORY_SOFT_LIMIT_IN_BYTES: UNLIMITED,
    Knob.MEMORY_SWAPPINESS: Number(60),
    Knob.MEMORY_OOM_CONTROL: Number(0),
    Knob.CPU_SHARES: Number(1024),
    Knob.CPU_CFS_QUOTA_US: UNLIMITED,
    Knob.CPU_CFS_PERIOD_US: Number(100_000),
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES: UNLIMITED,
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES: UNLIMITED,
}


def knobs_of(version: CgroupVersion) -> tuple[Knob, ...]:
    """The knobs that exist on one version of cgroups, in their order."""
    return tuple(knob for knob in Knob if version in knob.versions)
