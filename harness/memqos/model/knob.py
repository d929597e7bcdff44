"""Control files ("knobs") of a cgroup, and the values they can hold.

Absent, zero and max are three things: `ABSENT` means that nobody wrote the file (or that it does not exist),
`Bytes(0)` is a written zero, `MAX` is the word "max" (no limit).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum

__all__ = ["ABSENT", "MAX", "Absent", "Bytes", "CpuMax", "Knob", "KnobValue", "Max", "Number", "Text", "read_back"]

# PAGE_COUNTER_MAX in bytes is LONG_MAX rounded down to pages: from there on the kernel shows "max".
_LONG_MAX = 2**63 - 1
# CONFIG_NR_CPUS and 1 << CONFIG_NODES_SHIFT are at most this many.
_MOST_NUMBERS = 8192


class Absent(Enum):
    """The type of `ABSENT`: not written, or no such file; never the same as zero or max."""

    ABSENT = "absent"

    def __str__(self) -> str:
        return "absent"


class Max(Enum):
    """The type of `MAX`: the word "max" in a control file, no limit."""

    MAX = "max"

    def __str__(self) -> str:
        return "max"


ABSENT = Absent.ABSENT
MAX = Max.MAX


@dataclass(frozen=True, slots=True, order=True)
class Bytes:
    """An amount of memory in bytes (>= 0)."""

    count: int

    def __str__(self) -> str:
        return str(self.count)


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """A number without a unit: cpu.weight, memory.oom.group, pids.max, cpu.shares, oom_score_adj."""

    count: int

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
    """A value that is compared as text: the lists in cpuset.mems and cpuset.cpus; "" inherits from the parent."""

    text: str

    def __str__(self) -> str:
        return self.text


KnobValue = Bytes | Number | CpuMax | Text | Max | Absent


class Knob(StrEnum):
    """The control files that memqos plans and reads; the value is the file's name on cgroup v2."""

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

    @property
    def counts_pages(self) -> bool:
        """Whether the kernel keeps this amount in pages, so that bytes read back are rounded down to a page."""
        return self in _PAGE_COUNTED

    @property
    def kernel_default(self) -> KnobValue:
        """What a new non-root cgroup holds when nobody wrote the file (kernel: cgroup-v2.rst, memory controller)."""
        return _DEFAULTS[self]

    def parse(self, text: str) -> KnobValue:
        """The value that this file's text shows; ValueError if it is not one the kernel prints there."""
        text = text.strip()
        if self in _TEXTS:
            return Text(text)
        if self is Knob.CPU_MAX:
            match = re.fullmatch(r"(max|\d+) (\d+)", text, re.ASCII)
            if not match:
                raise ValueError(f"'{text}' is not a quota and a period")
            return CpuMax(None if match[1] == "max" else int(match[1]), int(match[2]))
        if text == "max":
            return MAX
        if not re.fullmatch(r"\d{1,20}", text, re.ASCII):
            raise ValueError(f"'{text}' is neither a number nor 'max'")
        return Number(int(text)) if self in _NUMBERS else Bytes(int(text))


_PAGE_COUNTED = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX})
_TEXTS = frozenset({Knob.CPUSET_CPUS, Knob.CPUSET_MEMS})
_NUMBERS = frozenset({Knob.MEMORY_OOM_GROUP, Knob.CPU_WEIGHT, Knob.PIDS_MAX})
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
}


def read_back(knob: Knob, written: KnobValue, page_size: int) -> KnobValue:
    """What the kernel shows after this value was written.

    Memory amounts are kept in whole pages of `page_size` bytes, rounded down; from PAGE_COUNTER_MAX on the file
    shows "max" (kernel: mm/page_counter.c, page_counter_memparse). Lists of numbers show as ranges (lib/bitmap.c:
    "0,1,3" reads "0-1,3"). Everything else reads as written.
    """
    if isinstance(written, Text):
        return Text(_as_ranges(written.text))
    if not isinstance(written, Bytes) or not knob.counts_pages:
        return written
    pages = min(written.count // page_size, _LONG_MAX // page_size)
    return MAX if pages >= _LONG_MAX // page_size else Bytes(pages * page_size)


def _as_ranges(text: str) -> str:
    """A list of numbers as the kernel prints it; the text itself where it is not a list of numbers and ranges."""
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
