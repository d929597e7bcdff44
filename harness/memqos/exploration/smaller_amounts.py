"""Smaller values for the amounts of an example that deviates: plainer ones, and a search for the least one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.exploration import Document
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["Amount", "Path", "amounts_in", "count_of", "places_in", "probes_between", "simpler_amounts"]

Path = tuple[str | int, ...]

_SECTIONS = frozenset({"requests", "limits", "overhead"})
_OF_PODS = ("pods", "to")
_SUFFIXES = {30: "Gi", 20: "Mi", 10: "Ki"}
_MIB = 1 << 20
_PAGE = 1 << 12
"""The smallest page: amounts that deviate often differ by less or more than whole pages."""
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
        if self.count >= _MIB:
            return (_MIB, _PAGE) if self.count % _MIB else (_MIB,)
        return (_PAGE,) if self.count >= _PAGE else (1,)


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
        whole, pages = count // _MIB * _MIB, count // _PAGE * _PAGE
        found = dict.fromkeys([count, 0, 1, whole, whole + _PAGE, pages, pages + 1, count // 2])
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
