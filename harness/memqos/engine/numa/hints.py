"""The Memory Manager's hints: which sets of zones could hold a request, and which are as small as can be.

Source: kubelet `policy_static.go` (calculateHints, regenerateHints).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from memqos.engine.numa.bitmask import EMPTY, Mask, masks_of
from memqos.engine.numa.hint import Hint
from memqos.engine.numa.requests import Request
from memqos.engine.numa.reuse import Reusable
from memqos.engine.numa.zone_table import Blocks, Zone, ZoneTable

__all__ = ["best", "calculate", "has_room", "regenerate"]


@lru_cache(maxsize=64)
def _candidates(ids: tuple[int, ...]) -> tuple[tuple[int, int, Mask, Hint, Hint], ...]:
    """Every set of zones: by position in `ids` and by id (as bits), with its preferred and its other hint."""
    position = {zone: place for place, zone in enumerate(ids)}
    return tuple(
        (
            sum(1 << position[zone] for zone in mask.zones),
            mask.bits,
            mask,
            Hint(mask, preferred=True),
            Hint(mask, preferred=False),
        )
        for mask in masks_of(ids)
    )


def _sums(amounts: Sequence[int]) -> list[int]:
    """The sum of the amounts over every set of positions."""
    sums = [0]
    for amount in amounts:
        sums += [one + amount for one in sums]
    return sums


def _groups(zones: Iterable[Zone]) -> tuple[int, Mapping[int, int], int]:
    """What bars sets of several zones: zones used alone; zones in use by group; and zones that are in any group."""
    alone = 0
    in_use: dict[int, int] = {}
    grouped = 0
    for zone in zones:
        bit = 1 << zone.id
        if len(zone.cells) > 1:
            grouped |= bit
        if zone.assignments > 0:
            if len(zone.cells) == 1:
                alone |= bit
            else:
                group = Mask.of(zone.cells).bits
                in_use[group] = in_use.get(group, 0) | bit
    return alone, in_use, grouped


def calculate(table: ZoneTable, request: Request, reusable: Reusable) -> tuple[Hint, ...]:
    """The hints for a request (the same for every memory type of it), fewest zones first; none if nothing fits.

    A set of zones is hinted if its zones could hold the request when empty, hold it now (with what the pod's init
    containers leave on exactly that set; an exact fit is enough), and mix no groups: a zone serves either containers
    on one zone, or those on one exact set. Preferred are the sets as small as the smallest that could hold the
    request when empty, whether or not that one can hold it now. Without a memory type in the request there is no hint.
    """
    if not request:
        return ()
    ids = table.ids
    zones = [table.zones[one] for one in ids]
    needs = [
        (
            size,
            _sums([zone.of(kind).allocatable for zone in zones]),
            _sums([zone.of(kind).free for zone in zones]),
            kind,
        )
        for kind, size in request.items()
    ]
    alone, in_use, grouped = _groups(zones)
    smallest = len(ids)
    found: list[tuple[int, Hint, Hint]] = []
    for place, bits, mask, preferred, other in _candidates(ids):
        if any(allocatable[place] < size for size, allocatable, _, _ in needs):
            continue
        count = bits.bit_count()
        smallest = min(smallest, count)
        if count == 1:
            if bits & grouped:
                continue
        elif bits & alone or any(bits & used and bits != group for group, used in in_use.items()):
            continue
        if all(
            free[place] >= size or free[place] + reusable.of(mask.zones, kind) >= size for size, _, free, kind in needs
        ):
            found.append((count, preferred, other))
    return tuple(preferred if count == smallest else other for count, preferred, other in found)


def regenerate(blocks: Blocks, request: Request) -> dict[str, tuple[Hint, ...]] | None:
    """The hints of a container that already holds memory: exactly where that is, preferred.

    None, which is no preference, if what it holds is not what is requested. This is how a pod gets through admission
    again after the kubelet restarts.
    """
    if {block.kind: block.size for block in blocks} != dict(request) or len(blocks) != len(request):
        return None
    return {block.kind: (Hint(Mask.of(block.zones), preferred=True),) for block in blocks}


def best(hints: Iterable[Hint]) -> Hint | None:
    """The hint that the Memory Manager would take itself: preferred first, then the narrower; None without hints."""

    def standing(hint: Hint) -> tuple[bool, int, int]:
        mask = hint.affinity or EMPTY
        return not hint.preferred, mask.count, mask.bits

    return min(hints, key=standing, default=None)


def has_room(table: ZoneTable, mask: Mask, request: Request) -> bool:
    """Whether these zones have the request free, not counting what init containers leave."""
    zones = [table.zones[one] for one in mask.zones]
    return all(sum(zone.of(kind).free for zone in zones) >= size for kind, size in request.items())
