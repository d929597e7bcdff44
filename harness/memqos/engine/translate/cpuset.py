"""Lists of CPUs and memory nodes, "0-3,5": as numbers, and as bits whose bytes were taken in the wrong order."""

from __future__ import annotations

import re

__all__ = ["listed", "numbers", "reversed_bytes"]

_PART = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_MOST = 1 << 16


def numbers(text: str) -> frozenset[int]:
    """The CPUs or nodes of a list; "" is none. ValueError for what is not a list, or goes beyond 65535."""
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
    """The list that systemd understands when it is given the bits of this one with the highest byte first."""
    found = numbers(text)
    top = max(found, default=0) // 8
    return listed(frozenset((top - number // 8) * 8 + number % 8 for number in found))
