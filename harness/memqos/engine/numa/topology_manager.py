"""The Topology Manager: NUMA nodes as bit masks, hints, their merge, and a policy's decision.

Bit masks: sets of NUMA nodes with the Topology Manager's order.

Source: kubelet `cm/topologymanager/bitmask`.

Hints: the NUMA nodes from which a provider could serve a request, and whether fewer could not.

Source: kubelet `topologymanager.TopologyHint` and `HintProvider`.

Merge: one hint from the hints of several providers.

Source: kubelet `cm/topologymanager/policy.go` (mergePermutation, HintMerger) and `numa_info.go` (Closest). The kubelet
walks every combination of one hint per resource. The result is the best under a total order and does not depend on the
walk, so this module computes the set of merged masks instead: eight NUMA nodes have 255 masks, and two resources 65,025
combinations.

Revisions: v1.22 takes the narrowest of hints that are not preferred; v1.24 takes the one whose width is closest, from
below, to the need of the neediest resource (kubernetes/kubernetes pull request 108154).

Decision: the affinity, and whether the pod is admitted.

Source: kubelet `cm/topologymanager/policy_*.go`; KEP-693.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from memqos.engine.numa.policies import TopologyPolicy

__all__ = [
    "EMPTY",
    "FULL",
    "NO_AFFINITY",
    "Hint",
    "Mask",
    "Merger",
    "ProviderHints",
    "TopologyDecision",
    "admits",
    "filter_hints",
    "masks_of",
    "neediest_width",
    "single_node_hints",
    "topology_decision",
]

_BITS = 64


@dataclass(frozen=True, slots=True)
class Mask:
    """A set of NUMA nodes: bit n stands for node n, 0 to 63. No bit set is the empty set, not "any NUMA node"."""

    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits < 1 << _BITS:
            raise ValueError(f"{self.bits} is not a mask of {_BITS} bits")

    @classmethod
    def of(cls, numa_nodes: Iterable[int]) -> Mask:
        """The mask of these NUMA nodes; ValueError if one is outside 0 to 63."""
        bits = 0
        for numa in numa_nodes:
            if not 0 <= numa < _BITS:
                raise ValueError(f"NUMA node {numa} is outside 0 to {_BITS - 1}, the range of a mask")
            bits |= 1 << numa
        return cls(bits)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes of the set, ascending."""
        return tuple(numa for numa in range(self.bits.bit_length()) if self.bits >> numa & 1)

    @property
    def count(self) -> int:
        """The number of NUMA nodes in the set."""
        return self.bits.bit_count()

    def __contains__(self, numa: int) -> bool:
        return 0 <= numa < _BITS and bool(self.bits >> numa & 1)

    def __bool__(self) -> bool:
        return self.bits != 0

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.bits & other.bits)

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.bits | other.bits)

    def __sub__(self, other: Mask) -> Mask:
        return Mask(self.bits & ~other.bits)

    def includes(self, other: Mask) -> bool:
        """Whether every NUMA node of the other set is in this one."""
        return self.bits & other.bits == other.bits

    def __str__(self) -> str:
        # Two digits per step, as in the kubelet's log. Its comparison is strict, so a single bit 2, 4, 6 … is one digit
        # shorter than its neighbours ("100", but "0101").
        steps = [step for step in range(_BITS - 2, 0, -2) if self.bits > 1 << step]
        return f"{self.bits:0{steps[0] + 2 if steps else 2}b}"


EMPTY = Mask(0)
FULL = Mask((1 << _BITS) - 1)


@lru_cache(maxsize=64)
def masks_of(numa_nodes: tuple[int, ...]) -> tuple[Mask, ...]:
    """Every non-empty set of these NUMA nodes: fewest first, then in lexicographic order of the nodes given."""
    return tuple(Mask.of(chosen) for size in range(1, len(numa_nodes) + 1) for chosen in combinations(numa_nodes, size))


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes that could serve a request.

    affinity: None means any NUMA node; an empty mask means no NUMA node at all. preferred: fewer NUMA nodes could not
    serve it.
    """

    affinity: Mask | None
    preferred: bool

    def __str__(self) -> str:
        affinity = "any NUMA node" if self.affinity is None else f"NUMA nodes {self.affinity}"
        return f"{affinity}, {'preferred' if self.preferred else 'not preferred'}"


ProviderHints = Mapping[str, Sequence[Hint] | None]
"""One provider's hints by resource. No resource at all: no preference. A resource with None: no preference for that
one. A resource with an empty sequence: no NUMA node can serve it.
"""

NO_AFFINITY = Hint(None, preferred=False)
"""The stored hint of a container under the Topology Manager's policy none."""


_ANY_PREFERRED = (Hint(None, preferred=True),)
_ANY_NOT_PREFERRED = (Hint(None, preferred=False),)
_Distances = Mapping[int, Sequence[int]]
_Rank = tuple[int, int, int, int, int]


def filter_hints(providers: Iterable[ProviderHints | None]) -> list[Sequence[Hint]]:
    """One list of hints per resource, with "no preference" and "impossible" spelled out as hints of any NUMA node."""
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
    """The largest of the resources' least numbers of NUMA nodes; 0 if every resource accepts any NUMA node."""
    widths = (min((hint.affinity.count for hint in hints if hint.affinity is not None), default=0) for hints in lists)
    return max(widths, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merger:
    """The rules of one merge.

    numa_nodes: all NUMA nodes of the machine. closest: whether the smaller average distance wins among sets of equal
    size (prefer-closest-numa-nodes); distances are then read by NUMA node id. up_to_need: revision v1.24.
    """

    numa_nodes: Mask
    closest: bool = False
    distances: _Distances = field(default_factory=dict)
    up_to_need: bool = True

    def merge(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        """The best hint over all combinations; all NUMA nodes, not preferred, if no combination shares a NUMA node."""
        preferred = self._preferred(lists)
        if preferred:
            return min((Hint(mask, preferred=True) for mask in preferred), key=lambda hint: self.rank(hint, 0))
        width = neediest_width(lists)
        shared = (Hint(Mask(bits), preferred=False) for bits in self._shared(lists))
        return min(shared, key=lambda hint: self.rank(hint, width), default=Hint(self.numa_nodes, preferred=False))

    def _preferred(self, lists: Sequence[Sequence[Hint]]) -> set[Mask]:
        """The masks of combinations that stay preferred: the same set of NUMA nodes for every resource with hints."""
        named: set[int] = set()
        unnamed = True  # whether every resource so far could also take any NUMA node, preferred
        # Resources that share a list, as the Memory Manager's do, have the same sets.
        for hints in {id(hints): hints for hints in lists}.values():
            preferred = [hint.affinity for hint in hints if hint.preferred]
            masks = {mask.bits for mask in preferred if mask is not None}
            any_node = any(mask is None for mask in preferred)
            named = (named if any_node else named & masks) | (masks if unnamed else set())
            unnamed = unnamed and any_node
        found = {bits & self.numa_nodes.bits for bits in named} | ({self.numa_nodes.bits} if unnamed else set())
        return {Mask(bits) for bits in found if bits}

    def _shared(self, lists: Sequence[Sequence[Hint]]) -> set[int]:
        """The non-empty intersections of all combinations, as bits; none if a resource has no hint."""
        shared = {self.numa_nodes.bits}
        for hints in lists:
            masks = {self.numa_nodes.bits if hint.affinity is None else hint.affinity.bits for hint in hints}
            shared = {one & other for one in shared for other in masks}
        return shared - {0}

    def rank(self, hint: Hint, width: int) -> _Rank:
        """The rank of a merged hint: lower is better, equal only for the same mask and preference."""
        mask = hint.affinity or Mask(0)
        count = mask.count
        # Distances are compared only between sets of equal size: their sums compare like their averages.
        distance = self.distance(mask) if self.closest else 0
        if hint.preferred:
            return (0, 0, count, distance, mask.bits)
        if not self.up_to_need or count > width:
            return (1, 1, count, distance, mask.bits)
        # The needed width, else the closest to it.
        return (1, 0, -count, distance, mask.bits)

    def distance(self, mask: Mask) -> int:
        """The sum of the distances between all NUMA nodes of a mask, each to itself included; not their average."""
        numa_nodes = mask.numa_nodes
        return sum(self.distances[one][other] for one in numa_nodes for other in numa_nodes)


@dataclass(frozen=True, slots=True)
class TopologyDecision:
    """The policy's decision: the affinity of the container or pod, and whether it is admitted."""

    hint: Hint
    admitted: bool


def admits(policy: TopologyPolicy, hint: Hint) -> bool:
    """Whether a policy admits a pod with this merged hint."""
    return hint.preferred or policy in {TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT}


def single_node_hints(lists: Sequence[Sequence[Hint]]) -> list[Sequence[Hint]]:
    """The hints that single-numa-node keeps: preferred ones of one NUMA node or of any."""
    return [
        [hint for hint in hints if hint.preferred and (hint.affinity is None or hint.affinity.count == 1)]
        for hints in lists
    ]


def topology_decision(
    policy: TopologyPolicy, providers: Sequence[ProviderHints | None], merger: Merger
) -> TopologyDecision:
    """The decision of one policy about one container or pod.

    The policy none needs no decision. Under single-numa-node an affinity of all NUMA nodes is stored as "any NUMA node"
    (None); on a machine with one NUMA node every aligned container gets that.
    """
    if policy is TopologyPolicy.NONE:
        return TopologyDecision(NO_AFFINITY, admitted=True)
    lists = filter_hints(providers)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        merged = merger.merge(single_node_hints(lists))
        hint = Hint(None, merged.preferred) if merged.affinity == merger.numa_nodes else merged
    else:
        hint = merger.merge(lists)
    return TopologyDecision(hint, admits(policy, hint))
