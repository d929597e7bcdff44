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
from memqos.engine.numa.zone_table import Blocks, ZoneState, ZoneTable

__all__ = ["best", "calculate", "has_room", "regenerate"]


_Candidate = tuple[int, int, Mask, Hint, Hint]
"""A set of zones: by position (as bits), how many, by id, and its two hints: preferred, not preferred."""


@lru_cache(maxsize=64)
def _candidates(ids: tuple[int, ...]) -> tuple[_Candidate, ...]:
    """Every set of these zones, fewest zones first."""
    position = {zone: 1 << place for place, zone in enumerate(ids)}
    return tuple(
        (
            sum(position[zone] for zone in mask.zones),
            mask.count,
            mask,
            Hint(mask, preferred=True),
            Hint(mask, preferred=False),
        )
        for mask in masks_of(ids)
    )


@lru_cache(maxsize=1024)
def _unmixed(
    ids: tuple[int, ...], alone: int, grouped: int, in_use: tuple[tuple[int, int], ...]
) -> tuple[_Candidate, ...]:
    """The sets that mix no groups.

    alone: zones in use by themselves. grouped: zones in a set of several. in_use: for each such set, as bits, those of
    its zones that are in use.
    """
    return tuple(
        one
        for one in _candidates(ids)
        if (
            not one[2].bits & grouped
            if one[1] == 1
            else not one[2].bits & alone
            and not any(one[2].bits & used and one[2].bits != group for group, used in in_use)
        )
    )


def _groups(zones: Iterable[ZoneState]) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """What `_unmixed` asks about the zones."""
    alone = 0
    grouped = 0
    in_use: dict[int, int] = {}
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
    return alone, grouped, tuple(sorted(in_use.items()))


@lru_cache(maxsize=256)
def _sums(amounts: tuple[int, ...]) -> tuple[int, ...]:
    """The sum of the amounts over every set of positions."""
    sums = [0]
    for amount in amounts:
        sums += [one + amount for one in sums]
    return tuple(sums)


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
    # Per memory type: bytes asked for, what each set could hold, what it can hold now.
    needs = [
        (
            size,
            _sums(tuple([zone.of(kind).allocatable for zone in zones])),
            tuple([zone.of(kind).free for zone in zones]),
        )
        for kind, size in request.items()
    ]
    smallest = len(ids)
    for place, count, *_ in _candidates(ids):
        if all(could[place] >= size for size, could, _ in needs):
            smallest = count
            break
    found: Sequence[_Candidate] = _unmixed(ids, *_groups(zones))
    for kind, (size, could, free) in zip(request, needs, strict=True):
        found = _holding(found, size, could, _sums(free), reusable.on(kind))
    return tuple([preferred if count == smallest else other for _, count, _, preferred, other in found])


def _holding(
    sets: Sequence[_Candidate],
    size: int,
    could: Sequence[int],
    can: Sequence[int],
    left: Mapping[tuple[int, ...], int],
) -> list[_Candidate]:
    """The sets that could hold `size` bytes of one type and can now, with what init containers leave on them."""
    if not left:
        return [one for one in sets if could[one[0]] >= size and can[one[0]] >= size]
    extra = {Mask.of(zones).bits: amount for zones, amount in left.items()}
    return [one for one in sets if could[one[0]] >= size and can[one[0]] + extra.get(one[2].bits, 0) >= size]


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
