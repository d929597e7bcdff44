"""Merging hints of several providers into one, as the Topology Manager does.

Source: kubelet `cm/topologymanager/policy.go` (mergePermutation, HintMerger) and `numa_info.go` (Closest). The kubelet
walks every combination of one hint per resource. What it ends with is the best under a total order, whatever the
walk's order, so this module computes the set of merged masks instead: eight zones have 255 masks, and two resources
65,025 combinations.

Revisions: v1.22 takes the narrowest of hints that are not preferred; v1.24 the one whose width comes closest, from
below, to what the neediest resource asks for (kubernetes/kubernetes pull request 108154).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memqos.engine.numa.bitmask import Mask
from memqos.engine.numa.hint import Hint, ProviderHints

__all__ = ["Merger", "filter_hints", "neediest_width"]

_ANY_PREFERRED = (Hint(None, preferred=True),)
_ANY_NOT_PREFERRED = (Hint(None, preferred=False),)
_Distances = Mapping[int, Sequence[int]]
_Rank = tuple[int, int, int, int, int]


def filter_hints(providers: Iterable[ProviderHints | None]) -> list[Sequence[Hint]]:
    """One list of hints per resource, with "no preference" and "impossible" spelled out as hints of any zone."""
    lists: list[Sequence[Hint]] = []
    for provider in providers:
        if not provider:
            lists.append(_ANY_PREFERRED)
            continue
        for hints in provider.values():
            if hints is None:
                lists.append(_ANY_PREFERRED)
            else:
                lists.append(hints or _ANY_NOT_PREFERRED)
    return lists


def neediest_width(lists: Iterable[Sequence[Hint]]) -> int:
    """The most zones that any one resource needs at least; 0 if every resource takes any zone."""
    widths = (min((hint.affinity.count for hint in hints if hint.affinity is not None), default=0) for hints in lists)
    return max(widths, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merger:
    """The rules of one merge.

    zones: all zones of the machine. closest: whether, among sets of as many zones, the smaller average distance wins
    (prefer-closest-numa-nodes); distances are then read by zone id. up_to_need: revision v1.24.
    """

    zones: Mask
    closest: bool = False
    distances: _Distances = field(default_factory=dict)
    up_to_need: bool = True

    def merge(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        """The best hint over all combinations; all zones, not preferred, if no combination shares a zone."""
        preferred = self._preferred(lists)
        if preferred:
            return min((Hint(mask, preferred=True) for mask in preferred), key=lambda hint: self._rank(hint, 0))
        width = neediest_width(lists)
        shared = (Hint(Mask(bits), preferred=False) for bits in self._shared(lists))
        return min(shared, key=lambda hint: self._rank(hint, width), default=Hint(self.zones, preferred=False))

    def _preferred(self, lists: Sequence[Sequence[Hint]]) -> set[Mask]:
        """The masks of combinations that stay preferred: one set of zones for every resource that names one."""
        named: set[int] = set()
        unnamed = True  # whether every resource so far could also take any zone, preferred
        # A list that several resources share, as the Memory Manager's do, names the same sets each time.
        for hints in {id(hints): hints for hints in lists}.values():
            preferred = [hint.affinity for hint in hints if hint.preferred]
            masks = {mask.bits for mask in preferred if mask is not None}
            any_zone = any(mask is None for mask in preferred)
            named = (named if any_zone else named & masks) | (masks if unnamed else set())
            unnamed = unnamed and any_zone
        found = {bits & self.zones.bits for bits in named} | ({self.zones.bits} if unnamed else set())
        return {Mask(bits) for bits in found if bits}

    def _shared(self, lists: Sequence[Sequence[Hint]]) -> set[int]:
        """The non-empty intersections of all combinations, as bits; not one if a resource has no hint."""
        shared = {self.zones.bits}
        for hints in lists:
            masks = {self.zones.bits if hint.affinity is None else hint.affinity.bits for hint in hints}
            shared = {one & other for one in shared for other in masks}
        return shared - {0}

    def _rank(self, hint: Hint, width: int) -> _Rank:
        """Where a merged hint stands: the lower the better, equal only for the same mask and preference."""
        mask = hint.affinity or Mask(0)
        count = mask.count
        # Only sets of as many zones are ever told apart by distance: their sums compare like their averages.
        distance = self._distance(mask) if self.closest else 0
        if hint.preferred:
            return (0, 0, count, distance, mask.bits)
        if not self.up_to_need or count > width:
            return (1, 1, count, distance, mask.bits)
        # As wide as is needed, else as close to that as there is.
        return (1, 0, -count, distance, mask.bits)

    def _distance(self, mask: Mask) -> int:
        zones = mask.zones
        return sum(self.distances[one][other] for one in zones for other in zones)
