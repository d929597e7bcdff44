"""What a control file shows after a text was written into it: the kernel's own parsing and rounding.

Sources: lib/cmdline.c `memparse`, mm/page_counter.c `page_counter_memparse`, mm/hugetlb_cgroup.c, mm/memcontrol.c,
kernel/sched/core.c. A text that the kernel refuses (EINVAL, ERANGE) is a ValueError here.
"""

from __future__ import annotations

import re

from memqos.model.knob import MAX, UNLIMITED, Bytes, Knob, Number, read_back
from memqos.model.node import CgroupVersion

__all__ = ["memparse", "shows"]

_WORD = 2**64
_LONG_MAX = 2**63 - 1
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgGtTpPeE]?)", re.ASCII)
_SHIFTS = {letter: 10 * power for power, letter in enumerate("kmgtpe", start=1)}
_HUGETLB = re.compile(r"hugetlb\.(\d+)([KMG])B\.(?:rsvd\.)?(max|limit_in_bytes)", re.ASCII)
_RANGES = {Knob.CPU_WEIGHT: (1, 10_000), Knob.MEMORY_OOM_GROUP: (0, 1)}
_DEFAULT_PERIOD = 100_000


def memparse(text: str) -> int:
    """The bytes that a text says: decimal, 0x… or 0… (octal), with one of K M G T P E; it wraps at 64 bits.

    ValueError if anything else is in the text, as in "-1", "1.5G" and "1GiB".
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an amount that the kernel takes")
    digits, suffix = match[1], match[2].lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    value = int(digits, 8) if octal else int(digits, 0)
    return (value << _SHIFTS.get(suffix, 0)) % _WORD


def shows(name: str, text: str, page_size: int) -> str:
    """What the file of this name shows after `text` was written, on a kernel with pages of `page_size` bytes.

    Memory amounts are whole pages, huge page limits whole huge pages, both rounded down; "max" from the largest
    amount on. The files of cgroup v1 take "-1" for "max" and show the largest amount as a number. Files without a rule
    here show what was written. ValueError for what the kernel refuses.
    """
    text = text.strip()
    try:
        knob = Knob(name)
    except ValueError:
        knob = None
    huge = _HUGETLB.fullmatch(name)
    if huge is not None:
        return _huge(text, memparse(huge[1] + huge[2]), page_size, v2=huge[3] == "max")
    if knob is None:
        return text
    if knob.counts_pages:
        v2 = CgroupVersion.V2 in knob.versions
        unlimited = text == ("max" if v2 else "-1")
        return str(read_back(knob, (MAX if v2 else UNLIMITED) if unlimited else Bytes(memparse(text)), page_size))
    if knob in _RANGES:
        least, most = _RANGES[knob]
        found = knob.parse(text)
        if not isinstance(found, Number) or not least <= found.count <= most:
            raise ValueError(f"{name} takes {least} to {most}, not '{text}'")
        return text
    if knob is Knob.CPU_MAX:
        return str(knob.parse(text if " " in text else f"{text} {_DEFAULT_PERIOD}"))
    return text


def _huge(text: str, size: int, page_size: int, *, v2: bool) -> str:
    most = _LONG_MAX // page_size * page_size // size * size
    unlimited = text == ("max" if v2 else "-1")
    found = most if unlimited else min(memparse(text) // size * size, most)
    return "max" if v2 and found >= most else str(found)
