"""Amounts of examples: hypothesis strategies of bytes and CPUs in every spelling that Kubernetes accepts.

For an example that deviates: plainer and smaller amounts, and a search for the least one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from hypothesis import strategies as st

from memqos.exploration import Document
from memqos.model.quantity import Quantity, QuantityError

__all__ = [
    "Amount",
    "Path",
    "amounts_in",
    "byte_counts",
    "count_of",
    "cpu_counts",
    "places_in",
    "probes_between",
    "simpler_amounts",
    "spellings",
    "spelt",
]


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


Path = tuple[str | int, ...]

_SECTIONS = frozenset({"requests", "limits", "overhead"})
_OF_PODS = ("pods", "to")
_SUFFIXES = {30: "Gi", 20: "Mi", 10: "Ki"}
_FEW = 4


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of an example.

    paths: the places that hold it, spelled the same. count: its value, in bytes or in the field's own unit, a cpu's in
    thousandths. spelled: the value of the field for another count.
    """

    paths: Sequence[Path]
    count: int
    spelled: Callable[[int], Any]

    def put(self, count: int) -> tuple[tuple[Path, Any], ...]:
        """The new values of its places."""
        return tuple((path, self.spelled(count)) for path in self.paths)

    @property
    def units(self) -> Sequence[int]:
        """The steps by which the least amount is looked for, the largest first. Whole MiB are small enough to read."""
        if self.count >= MIB:
            return (MIB, PAGE) if self.count % MIB else (MIB,)
        return (PAGE,) if self.count >= PAGE else (1,)


def places_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field and element of a document with its path, parents first."""
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = tuple(value.items())
    elif isinstance(value, list | tuple):
        items = tuple(enumerate(value))
    for key, inner in items:
        yield (*path, key), inner
        yield from places_in(inner, (*path, key))


def count_of(value: object) -> int:
    """The amount in a leaf, 0 for any other text."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    try:
        return Quantity.parse(str(value)).milli_value // 1000
    except QuantityError:
        return 0


def amounts_in(document: Document) -> Iterator[Amount]:
    """The amounts of an example: those that are spelled the same together, then each of them alone."""
    seen: dict[str, list[Path]] = {}
    for path, value in places_in(document):
        if not isinstance(value, dict | list | bool) and _is_amount(path) and not str(value).endswith("%"):
            seen.setdefault(str(value), []).append(path)
    for text, paths in seen.items():
        if len(paths) > 1:
            yield _amount(text, paths)
        for path in paths:
            yield _amount(text, [path])


def simpler_amounts(document: Document) -> Iterator[tuple[tuple[Path, Any], ...]]:
    """New values for the places of each amount: nothing, one, whole MiB or pages and just above, a plainer spelling."""
    for one in amounts_in(document):
        count = one.count
        whole, pages = count // MIB * MIB, count // PAGE * PAGE
        found = dict.fromkeys([count, 0, 1, whole, whole + PAGE, pages, pages + 1, count // 2])
        for smaller in found:
            if 0 <= smaller <= count:
                yield one.put(smaller)


def probes_between(low: int, high: int) -> Sequence[Sequence[int]]:
    """Counts above low and below high to try at once, neighbours in pairs: a fault may need an odd or an even count."""
    apart = high - low
    if apart <= _FEW + 1:
        return [[one] for one in range(low + 1, high)]
    return [[one, one + 1] for one in (low + apart // 3, low + 2 * apart // 3)]


def _is_amount(path: Path) -> bool:
    if path[0] in _OF_PODS:
        return any(part in _SECTIONS for part in path)
    if path[0] == "tree":
        return True
    if path[0] == "steps":
        return not str(path[-1]).startswith("cpuset")
    return path[-1] in {"memory", "cpu", "memory.available", "podPidsLimit"}


def _amount(text: str, paths: Sequence[Path]) -> Amount:
    first = paths[0]
    if first[0] in {"steps", "tree"}:
        # A unified entry is a string, all other fields are numbers; -1 means no limit.
        return Amount(paths, int(text), str if "unified" in first else int)
    if first[-1] == "cpu":
        return Amount(paths, Quantity.parse(text).milli_value, "{}m".format)
    return Amount(paths, Quantity.parse(text).value, _plainly)


def _plainly(count: int) -> str:
    for bits, suffix in _SUFFIXES.items():
        if count and count % (1 << bits) == 0:
            return f"{count >> bits}{suffix}"
    return str(count)
