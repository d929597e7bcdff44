"""The Memory Manager's hints: requests, reuse of init containers' memory, and sets of NUMA nodes.

Requests: the amounts of a container and of a pod.

Source: kubelet `policy_static.go` (getContainerRequestedResources, getPodRequestedResources).

Reuse: later containers of the same pod use the memory of init containers again.

Source: kubelet `policy_static.go` (updatePodReusableMemory, updateInitContainersMemoryBlocks). Since 1.22.

Hints: the sets of NUMA nodes that could hold a request; the smallest ones are preferred.

Source: kubelet `policy_static.go` (calculateHints, regenerateHints).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from memqos.engine.numa.policies import PodLevel, Policies
from memqos.engine.numa.table import MEMORY, Block, Blocks, NumaNodeState, NumaTable
from memqos.engine.numa.topology_manager import EMPTY, Hint, Mask, masks_of
from memqos.engine.pod.sums import PREFIX, pod_level_set
from memqos.engine.releases.table import Novelty
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList
from memqos.model.quantity import ZERO

__all__ = [
    "NOTHING_REUSABLE",
    "Request",
    "Reusable",
    "best",
    "calculate",
    "container_request",
    "has_room",
    "is_counted",
    "is_reusable",
    "managed_as_a_whole",
    "pod_request",
    "regenerate",
    "shrink_init_containers",
]

Request = Mapping[str, int]
"""Memory type to bytes, in the order memory, then huge pages by name."""


def is_counted(resource: str) -> bool:
    """Whether a resource is a type of memory: memory or hugepages-<size>."""
    return resource == MEMORY or resource.startswith(PREFIX)


def managed_as_a_whole(pod: Pod, policies: Policies) -> bool:
    """Whether the pod has pod-level resources and the kubelet's managers use them."""
    return policies.pod_level is PodLevel.MANAGED and pod_level_set(pod)


def is_reusable(pod: Pod, container: str, policies: Policies) -> bool:
    """Whether later containers may use this one's memory again: a regular init container, not a sidecar from 1.29 on.

    A kubelet without sidecar support treats a sidecar as a regular init container.
    """
    keeps = policies.sidecars and policies.release.has(Novelty.SIDECARS_KEEP_MEMORY)
    return any(
        one.name == container and not (keeps and one.kind is ContainerKind.SIDECAR) for one in pod.init_containers
    )


def container_request(container: Container, pod: Pod, policies: Policies) -> dict[str, int] | None:
    """Bytes of each memory type that a container requests; None if an amount is not whole: the kubelet refuses it.

    In a pod that is managed as a whole only a container with equal, non-zero requests and limits of cpu and memory
    counts; any other gets an empty request and uses the pod's shared part.
    """
    if managed_as_a_whole(pod, policies) and not _guaranteed(container):
        return {}
    return _whole(container.resources.requests)


def pod_request(pod: Pod, policies: Policies) -> dict[str, int] | None:
    """Bytes of each memory type that a pod needs at once; None if an amount is not whole.

    The larger of app containers plus sidecars, and of each init container plus the sidecars started before it; only
    the types that an app container requests. A pod that is managed as a whole states it in `spec.resources`.
    """
    if pod.resources is not None and managed_as_a_whole(pod, policies):
        stated = _whole(pod.resources.requests)
        return None if stated is None else {kind: size for kind, size in stated.items() if size > 0}
    init: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for one in pod.init_containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        for kind, size in request.items():
            if policies.sidecars and one.kind is ContainerKind.SIDECAR:
                sidecars[kind] = sidecars.get(kind, 0) + size
            else:
                init[kind] = max(init.get(kind, 0), sidecars.get(kind, 0) + size)
    total: dict[str, int] = {}
    for one in pod.containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        for kind, size in request.items():
            total[kind] = total.get(kind, 0) + size
    return _ordered({kind: max(size + sidecars.get(kind, 0), init.get(kind, 0)) for kind, size in total.items()})


def _guaranteed(container: Container) -> bool:
    requests, limits = container.resources.requests, container.resources.limits
    return all(not requests.get(name, ZERO).is_zero and requests[name] == limits.get(name) for name in ("cpu", MEMORY))


def _whole(requests: ResourceList) -> dict[str, int] | None:
    counted = {name: quantity for name, quantity in requests.items() if is_counted(name)}
    if not all(quantity.is_whole for quantity in counted.values()):
        return None
    return _ordered({name: quantity.value for name, quantity in counted.items()})


def _ordered(request: dict[str, int]) -> dict[str, int]:
    return dict(sorted(request.items(), key=lambda item: (item[0] != MEMORY, item[0])))


@dataclass(frozen=True, slots=True)
class Reusable:
    """Reusable memory that placed containers leave for the next one of the same pod, in bytes.

    amounts: (NUMA nodes, memory type) to bytes. The NUMA nodes are an exact set: a container on NUMA nodes 0 and 1
    cannot reuse memory of NUMA node 0.
    """

    amounts: Mapping[tuple[tuple[int, ...], str], int] = field(default_factory=dict)

    def of(self, numa_nodes: tuple[int, ...], kind: str) -> int:
        """Reusable bytes of a type on exactly these NUMA nodes."""
        return self.amounts.get((numa_nodes, kind), 0)

    def on(self, kind: str) -> dict[tuple[int, ...], int]:
        """Reusable bytes of a type by sets of NUMA nodes; no entry for zero."""
        return {numa_nodes: amount for (numa_nodes, of), amount in self.amounts.items() if of == kind and amount}

    def after(self, blocks: Blocks, *, left_over: bool) -> Reusable:
        """After placing a container: a regular init container leaves its memory, any other uses it up.

        Init containers run one after the other, so the largest one counts.
        """
        amounts = dict(self.amounts)
        for block in blocks:
            key = (block.numa_nodes, block.kind)
            known = amounts.get(key, 0)
            amounts[key] = max(known, block.size) if left_over else max(known - block.size, 0)
        return Reusable(amounts)


NOTHING_REUSABLE = Reusable()


def shrink_init_containers(table: NumaTable, pod: Pod, container: str, blocks: Blocks, policies: Policies) -> NumaTable:
    """The table with earlier init containers' blocks reduced by the part that this container reuses, down to 0.

    So a pod's blocks add up to its memory. Sidecars keep theirs.
    """
    left = {block: block.size for block in blocks}
    for earlier in pod.init_containers:
        if earlier.name == container:
            break
        held = table.blocks(pod.uid, earlier.name)
        if held and is_reusable(pod, earlier.name, policies):
            table = table.holding(pod.uid, earlier.name, tuple(_shrunk(one, left) for one in held))
    return table


def _shrunk(held: Block, left: dict[Block, int]) -> Block:
    """One block after its part was reused; `left` is the remaining need of the container, and is updated."""
    for block, size in left.items():
        if block.kind == held.kind and block.numa_nodes == held.numa_nodes:
            share = min(size, held.size)
            left[block] = size - share
            held = Block(held.numa_nodes, held.kind, held.size - share)
    return held


_Candidate = tuple[int, int, Mask, Hint, Hint]
"""A set of NUMA nodes: by position (as bits), its size, by id, and its two hints: preferred, not preferred."""


@lru_cache(maxsize=64)
def _candidates(ids: tuple[int, ...]) -> tuple[_Candidate, ...]:
    """Every set of these NUMA nodes, fewest first."""
    position = {numa: 1 << place for place, numa in enumerate(ids)}
    return tuple(
        (
            sum(position[numa] for numa in mask.numa_nodes),
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

    alone: NUMA nodes in use for a single-node container. grouped: NUMA nodes in a set of several. in_use: for each such
    set, as bits, those of its NUMA nodes that are in use.
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


def _groups(numa_nodes: Iterable[NumaNodeState]) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The facts about NUMA nodes that `_unmixed` uses."""
    alone = 0
    grouped = 0
    in_use: dict[int, int] = {}
    for numa in numa_nodes:
        bit = 1 << numa.id
        if len(numa.cells) > 1:
            grouped |= bit
        if numa.assignments > 0:
            if len(numa.cells) == 1:
                alone |= bit
            else:
                group = Mask.of(numa.cells).bits
                in_use[group] = in_use.get(group, 0) | bit
    return alone, grouped, tuple(sorted(in_use.items()))


@lru_cache(maxsize=256)
def _sums(amounts: tuple[int, ...]) -> tuple[int, ...]:
    """The sum of the amounts over every set of positions."""
    sums = [0]
    for amount in amounts:
        sums += [one + amount for one in sums]
    return tuple(sums)


def calculate(table: NumaTable, request: Request, reusable: Reusable) -> tuple[Hint, ...]:
    """The hints for a request (the same for every memory type of it), fewest NUMA nodes first; none if nothing fits.

    A set of NUMA nodes is hinted if its NUMA nodes could hold the request when empty, hold it now (with reusable memory
    on exactly that set; an exact fit is enough), and do not mix groups: a NUMA node serves either containers on one
    NUMA node, or containers on one exact set. Preferred are the sets of the least size that could hold the request when
    empty, even if no set of that size can hold it now. Without a memory type in the request there is no hint.
    """
    if not request:
        return ()
    ids = table.ids
    numa_nodes = [table.numa_nodes[one] for one in ids]
    # Per memory type: requested bytes, capacity of each set, free bytes of each set.
    needs = [
        (
            size,
            _sums(tuple([numa.of(kind).allocatable for numa in numa_nodes])),
            tuple([numa.of(kind).free for numa in numa_nodes]),
        )
        for kind, size in request.items()
    ]
    smallest = len(ids)
    for place, count, *_ in _candidates(ids):
        if all(could[place] >= size for size, could, _ in needs):
            smallest = count
            break
    found: Sequence[_Candidate] = _unmixed(ids, *_groups(numa_nodes))
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
    """The sets that could hold `size` bytes of one type when empty, and can hold them now, with reuse."""
    if not left:
        return [one for one in sets if could[one[0]] >= size and can[one[0]] >= size]
    extra = {Mask.of(numa_nodes).bits: amount for numa_nodes, amount in left.items()}
    return [one for one in sets if could[one[0]] >= size and can[one[0]] + extra.get(one[2].bits, 0) >= size]


def regenerate(blocks: Blocks, request: Request) -> dict[str, tuple[Hint, ...]] | None:
    """The hints of a container that already holds memory: exactly its NUMA nodes, preferred.

    None (no preference) if it holds another amount than requested. With these hints a pod is admitted again after the
    kubelet restarts.
    """
    if {block.kind: block.size for block in blocks} != dict(request) or len(blocks) != len(request):
        return None
    return {block.kind: (Hint(Mask.of(block.numa_nodes), preferred=True),) for block in blocks}


def best(hints: Iterable[Hint]) -> Hint | None:
    """The hint that the Memory Manager prefers: preferred ones first, then the narrower; None without hints."""

    def standing(hint: Hint) -> tuple[bool, int, int]:
        mask = hint.affinity or EMPTY
        return not hint.preferred, mask.count, mask.bits

    return min(hints, key=standing, default=None)


def has_room(table: NumaTable, mask: Mask, request: Request) -> bool:
    """Whether these NUMA nodes have the request free, without reuse."""
    numa_nodes = [table.numa_nodes[one] for one in mask.numa_nodes]
    return all(sum(numa.of(kind).free for numa in numa_nodes) >= size for kind, size in request.items())
