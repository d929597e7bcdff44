"""The text of an interface file after a write.

Lists of CPUs and memory nodes, "0-3,5": as numbers, and as bits with their bytes in the wrong order.

Other texts: the kernel's parsing and rounding.

Sources: lib/cmdline.c `memparse`, mm/page_counter.c `page_counter_memparse`, mm/hugetlb_cgroup.c, mm/memcontrol.c,
kernel/sched/core.c. A text that the kernel refuses (EINVAL, ERANGE) is a ValueError here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from memqos.model.knob import MAX, UNLIMITED, Bytes, Knob, KnobValue, Number, Text
from memqos.model.node import CgroupVersion
from memqos.model.reading import huge_pages_back, read_back

__all__ = ["listed", "memparse", "numbers", "reversed_bytes", "shows", "taken"]

_PART = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_MOST = 1 << 16


def numbers(text: str) -> frozenset[int]:
    """The CPUs or nodes of a list; "" is none. ValueError for any other text, or a number beyond 65535."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{part[:80]}' is not a number or a range in a list such as 0-3,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < _MOST:
            raise ValueError(f"'{part[:80]}' is not a range from low to high below {_MOST}")
        found.update(range(first, last + 1))
    return frozenset(found)


def listed(found: frozenset[int]) -> str:
    """The shortest list of these numbers, in order."""
    parts: list[list[int]] = []
    for number in sorted(found):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def reversed_bytes(text: str) -> str:
    """The list that systemd reads if it receives the bits of this one with the highest byte first."""
    found = numbers(text)
    top = max(found, default=0) // 8
    return listed(frozenset((top - number // 8) * 8 + number % 8 for number in found))


_WORD = 2**64
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgGtTpPeE]?)", re.ASCII)
_SHIFTS = {letter: 10 * power for power, letter in enumerate("kmgtpe", start=1)}
_HUGETLB = re.compile(r"hugetlb\.(\d+)([KMG])B\.(?:rsvd\.)?(max|limit_in_bytes)", re.ASCII)
_AMOUNTS: Mapping[Knob, tuple[str, KnobValue]] = {
    knob: ("max", MAX) if CgroupVersion.V2 in knob.versions else ("-1", UNLIMITED)
    for knob in Knob
    if knob.counts_pages or _HUGETLB.fullmatch(knob)
}
_RANGES = {Knob.CPU_WEIGHT: (1, 10_000), Knob.MEMORY_OOM_GROUP: (0, 1)}
_LISTS = frozenset({Knob.CPUSET_CPUS, Knob.CPUSET_MEMS})
_DEFAULT_PERIOD = 100_000


def memparse(text: str) -> int:
    """The bytes of a text: decimal, 0x… or 0… (octal), with one of K M G T P E; it wraps at 64 bits.

    ValueError for any other text, such as "-1", "1.5G" and "1GiB".
    """
    if text.isdecimal() and text.isascii() and text[0] != "0":
        return int(text) % _WORD
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an amount that the kernel accepts")
    digits, suffix = match[1], match[2].lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    value = int(digits, 8) if octal else int(digits, 0)
    return (value << _SHIFTS.get(suffix, 0)) % _WORD


# A node has few different texts, and each occurs many times.
@lru_cache(maxsize=4096)
def taken(knob: Knob, text: str) -> KnobValue:
    """The kernel's value for a text before rounding; ValueError for a text that it refuses.

    The files of cgroup v1 accept "-1" for "max". cpu.max without a period means the kernel's default.
    """
    if knob in _AMOUNTS:
        word, unlimited = _AMOUNTS[knob]
        return unlimited if text == word else Bytes(memparse(text))
    if knob is Knob.CPU_MAX:
        return knob.parse(text if " " in text else f"{text} {_DEFAULT_PERIOD}")
    if knob in _LISTS:
        numbers(text)  # in any order; the file then shows them ascending
        return Text(text)
    found = knob.parse(text)
    if knob in _RANGES:
        least, most = _RANGES[knob]
        if not isinstance(found, Number) or not least <= found.count <= most:
            raise ValueError(f"{knob} takes {least} to {most}, not '{text}'")
    return found


def shows(name: str, text: str, page_size: int) -> str:
    """The text of the file of this name after `text` was written, on a kernel with pages of `page_size` bytes.

    Memory amounts are whole pages, huge page limits whole huge pages, both rounded down; "max" from the largest
    amount on, a number on cgroup v1. Files without a rule here show the written text. ValueError for a text that the
    kernel refuses.
    """
    text = text.strip()
    if name in list(Knob):
        return str(read_back(Knob(name), taken(Knob(name), text), page_size))
    huge = _HUGETLB.fullmatch(name)
    if huge is None:
        return text
    v2 = huge[3] == "max"
    unlimited = text == ("max" if v2 else "-1")
    value = (MAX if v2 else UNLIMITED) if unlimited else Bytes(memparse(text))
    return str(huge_pages_back(value, memparse(huge[1] + huge[2]), page_size, v2=v2))
