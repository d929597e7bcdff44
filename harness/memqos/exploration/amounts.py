"""Hypothesis strategies of amounts: bytes and CPUs, in every spelling that Kubernetes accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

from hypothesis import strategies as st

__all__ = ["byte_counts", "cpu_counts", "spellings", "spelt"]

PAGE = 4096
"""The smallest page of Linux: amounts of all architectures are drawn in its multiples, and beside them."""
MIB = 1 << 20
GIB = 1 << 30
MOST_MEMORY = 64 * GIB
MOST_CPU = 8000

_UNITS = (1, PAGE, PAGE, MIB, MIB, 4 * MIB)
_OFFSETS = (0, 0, 0, 0, 1, -1)
_BINARY = ("Ki", "Mi", "Gi", "Ti")
_DECIMAL = ("k", "M", "G", "T")
_EIGHTH = 8
"""Amounts get a decimal point if three digits after it suffice: 1.125Gi."""


CHOICES = st.integers(0, 255)
"""An index, taken modulo the number of choices: drawing from one prepared strategy is much faster."""

T = TypeVar("T")


def chosen(draw: st.DrawFn, choices: Sequence[T]) -> T:
    """One of these; hypothesis shrinks to the first."""
    return choices[draw(CHOICES) % len(choices)]


_ONE_IN = {count: st.integers(1, count) for count in (2, 3, 4, 5, 6, 16)}


def once_in(draw: st.DrawFn, count: int) -> bool:
    """True in one of `count` draws (2 to 6, or 16); hypothesis shrinks to False."""
    return draw(_ONE_IN[count]) == count


def drawn_bytes(draw: st.DrawFn, least: int, most: int) -> int:
    """As `byte_counts`."""
    bits = draw(st.integers(least.bit_length(), max(most.bit_length(), least.bit_length())))
    # From a wide range hypothesis draws mostly small numbers: drawing the power of two first makes all sizes likely.
    top = 1 << bits >> 1
    count = top + draw(st.integers(0, max(top - 1, 0)))
    count = count - count % chosen(draw, _UNITS) + chosen(draw, _OFFSETS)
    return min(max(count, least), most)


def drawn_cpu(draw: st.DrawFn, least: int, most: int) -> int:
    """As `cpu_counts`."""
    count = draw(st.integers(least, most))
    return min(max(count - count % chosen(draw, (1, 100, 1000)), least), most)


@st.composite
def byte_counts(draw: st.DrawFn, least: int = 0, most: int = MOST_MEMORY) -> int:
    """Bytes from `least` to `most`: zero, a few bytes, pages, whole MiB, and one more or less than these."""
    return drawn_bytes(draw, least, most)


@st.composite
def cpu_counts(draw: st.DrawFn, least: int = 0, most: int = MOST_CPU) -> int:
    """Thousandths of a CPU from `least` to `most`: any, whole CPUs, and tenths of one."""
    return drawn_cpu(draw, least, most)


def spellings(count: int) -> tuple[int | str, ...]:
    """All spellings of this whole amount (>= 0) in a manifest: a number, or a string with any exact suffix."""
    return tuple(dict.fromkeys([count, str(count), f"{count}.0", f"{count}e0", f"{count}000m", *_suffixed(count)]))


def _suffixed(count: int) -> Iterator[str]:
    for letters, step in ((_BINARY, 1024), (_DECIMAL, 1000)):
        for power, letter in enumerate(letters, 1):
            eighths = Fraction(count * _EIGHTH, step**power)
            if count and eighths.denominator == 1:
                yield f"{_decimal(eighths / _EIGHTH)}{letter}"
    for power in (3, 6):
        if count and count % 10**power == 0:
            yield from (f"{count // 10**power}{letter}{power}" for letter in "eE")


def _decimal(value: Fraction) -> str:
    """A number with three decimals at most."""
    whole, part = divmod(value, 1)
    return f"{whole}.{int(part * 1000):03}".rstrip("0") if part else str(whole)


def drawn_spelling(draw: st.DrawFn, count: int, *, plain: bool = False) -> int | str:
    """One of the spellings of bytes. plain: the shortest with a binary suffix, or the number."""
    return plainly(count) if plain else chosen(draw, spellings(count))


@st.composite
def spelt(draw: st.DrawFn, count: int) -> int | str:
    """One of the spellings of a whole amount."""
    return drawn_spelling(draw, count)


def plainly(count: int) -> str:
    """The shortest spelling of bytes: "64Mi", "65540Ki", "4097"."""
    for power in range(len(_BINARY), 0, -1):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{_BINARY[power - 1]}"
    return str(count)


def drawn_cpu_spelling(draw: st.DrawFn, milli: int) -> int | str:
    """One of the spellings of an amount of CPU in thousandths: "1500m", "1.5", 2, "2"."""
    found: list[int | str] = [f"{milli}m", f"{milli // 1000}.{milli % 1000:03}"]
    if milli % 1000 == 0:
        found += [milli // 1000, str(milli // 1000)]
    return chosen(draw, found)
