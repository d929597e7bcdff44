"""Memory reserved on NUMA nodes, and the table of a node without pods.

`reservedMemory`: the memory of each NUMA node withheld from containers; its sum must be the node's reservations.

Sources: kubelet `validation_reserved_memory.go`, `memory_manager.go` (validateReservedMemory),
`container_manager_linux.go` (GetNodeAllocatableReservation), `eviction/api` (GetThresholdQuantity).

A node's table before any pod is placed.

Source: kubelet `policy_static.go` (getDefaultMachineState, NewPolicyStatic), `topology_manager.go` (NewManager).

The Static policy: memory for one container, and giving it back.

Source: kubelet `cm/memorymanager/policy_static.go` (Allocate, RemoveContainer) and `memory_manager.go` (AddContainer);
KEP-1769.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from memqos.engine.numa.hints import (
    Request,
    Reusable,
    best,
    calculate,
    container_request,
    has_room,
    is_counted,
    is_reusable,
    shrink_init_containers,
)
from memqos.engine.numa.policies import MemoryPolicy, Policies, TopologyPolicy, configuration_error
from memqos.engine.numa.table import MEMORY, Block, Blocks, MemoryTable, NumaNodeState, NumaTable
from memqos.engine.numa.topology_manager import EMPTY, FULL, Hint, Mask
from memqos.engine.plan import Input, Reason
from memqos.engine.pod.sums import PREFIX
from memqos.errors import UsageError
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import Container, Pod
from memqos.model.quantity import ZERO, Quantity, QuantityError

__all__ = [
    "NOT_WHOLE",
    "Allocation",
    "Rejection",
    "Reserved",
    "allocate",
    "by_numa_node",
    "check_fields",
    "check_sums",
    "container_started",
    "empty_table",
    "explain",
    "first_table",
    "hard_eviction",
    "in_words",
    "kubelet_numa_nodes",
    "mixes_groups",
    "node_reservation",
    "remove_container",
    "settle",
]

Reserved = Mapping[int, Mapping[str, int]]
"""NUMA node id to memory type to reserved bytes."""

_FIELD = "reservedMemory"
_SIGNAL = "memory.available"
_DEFAULT_THRESHOLD = "100Mi"
_PERCENT = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{0,12})?%", re.ASCII)
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def in_words(amount: Fraction | int) -> str:
    """An amount of bytes for the user: 1124Mi; the plain number if no binary unit fits."""
    step = 0
    whole = Fraction(amount)
    while whole and step < len(_UNITS) - 1 and (whole / 1024).denominator == 1:
        whole /= 1024
        step += 1
    if whole.denominator != 1:
        return f"{float(whole):g}"
    return f"{whole}{_UNITS[step]}"


def check_fields(settings: KubeletSettings) -> None:
    """ManifestError for an invalid `reservedMemory`: a type twice in a NUMA node, an unknown type, a zero."""
    seen: set[tuple[int, str]] = set()
    for numa, limits in settings.reserved_memory or ():
        for kind, quantity in limits.items():
            if not is_counted(kind):
                raise configuration_error(
                    settings,
                    _FIELD,
                    f"'{kind}' of NUMA node {numa} is not a type of memory.",
                    "Use memory or hugepages-*.",
                )
            if quantity <= ZERO:
                raise configuration_error(
                    settings, _FIELD, f"{kind} of NUMA node {numa} is {quantity}, and must be more than zero."
                )
            if not quantity.is_whole:
                raise configuration_error(
                    settings, _FIELD, f"{kind} of NUMA node {numa} is {quantity}, which is not a whole number of bytes."
                )
            if (numa, kind) in seen:
                raise configuration_error(settings, _FIELD, f"{kind} of NUMA node {numa} is given twice.", "Keep one.")
            seen.add((numa, kind))


def hard_eviction(settings: KubeletSettings, capacity: int) -> Quantity:
    """The hard eviction threshold of memory.available, in bytes; zero if it is not set, or set to 0% or 100%.

    Default 100Mi if `evictionHard` is not given at all. A percentage is of the capacity (bytes), in the kubelet's own
    arithmetic: a float32 fraction times a float64, truncated.
    """
    given = settings.eviction_hard
    text = _DEFAULT_THRESHOLD if given is None else given.get(_SIGNAL, "")
    if text in {"", "0%", "100%"}:
        return ZERO
    if _PERCENT.fullmatch(text):
        fraction = _float32(_float32(float(text.removesuffix("%"))) / 100)
        if 0 <= fraction <= 1:
            return Quantity.of_bytes(int(float(capacity) * fraction))
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL} is {text}, and must be from 0% to 100%.")
    try:
        threshold = Quantity.parse(text)
    except QuantityError as error:
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL}: {error}.") from error
    if threshold <= ZERO:
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL} is {text}, and must be more than zero.")
    return threshold


def _float32(value: float) -> float:
    """The nearest IEEE single, as a float."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**24), exponent - 24)


def node_reservation(settings: KubeletSettings, capacity: int) -> dict[str, Quantity]:
    """The node's reservation of each memory type: system-reserved, kube-reserved and the hard eviction threshold."""
    total: dict[str, Quantity] = {}
    eviction = {MEMORY: hard_eviction(settings, capacity)}
    for part in (settings.system_reserved or {}, settings.kube_reserved or {}, eviction):
        for kind, quantity in part.items():
            if is_counted(kind):
                total[kind] = total.get(kind, ZERO) + quantity
    return {kind: quantity for kind, quantity in total.items() if not quantity.is_zero}


def check_sums(
    settings: KubeletSettings, reservation: Mapping[str, Quantity], numa_nodes: Mapping[int, object]
) -> None:
    """ManifestError if a node does not exist, or if a type's sum is not exactly the node's reservation."""
    sums: dict[str, Quantity] = {}
    for numa, limits in settings.reserved_memory or ():
        if numa not in numa_nodes:
            raise configuration_error(
                settings,
                _FIELD,
                f"there is no NUMA node {numa} on this machine.",
                f"It has {', '.join(map(str, sorted(numa_nodes)))}.",
            )
        for kind, quantity in limits.items():
            sums[kind] = sums.get(kind, ZERO) + quantity
    for kind in sorted(sums.keys() | reservation.keys(), key=lambda name: (name != MEMORY, name)):
        here, there = sums.get(kind, ZERO), reservation.get(kind, ZERO)
        if here != there:
            error = configuration_error(
                settings,
                _FIELD,
                f"the NUMA nodes reserve {in_words(here.amount)} of {kind} together ({here.amount} bytes), but the "
                "node "
                f"reserves {in_words(there.amount)} ({there.amount} bytes).",
                "Both must be equal: systemReserved + kubeReserved + evictionHard memory.available (100Mi by default).",
            )
            error.data |= {"type": kind, "numa_nodes": here.amount, "node": there.amount}
            raise error


def by_numa_node(settings: KubeletSettings, numa_nodes: Mapping[int, object]) -> Reserved:
    """The reservation of each NUMA node, in bytes; an empty mapping for a NUMA node without an entry."""
    reserved: dict[int, dict[str, int]] = {numa: {} for numa in numa_nodes}
    for numa, limits in settings.reserved_memory or ():
        reserved[numa] |= {kind: quantity.value for kind, quantity in limits.items()}
    return reserved


MOST_NUMA_NODES = 16
"""The most NUMA nodes with either manager on: n nodes have 2^n - 1 sets, all tried for every container."""

_WRAP = 1 << 64


def first_table(facts: NodeFacts, settings: KubeletSettings, policies: Policies) -> NumaTable:
    """The table of a kubelet that starts without a checkpoint.

    ManifestError for a `reservedMemory` or a number of NUMA nodes with which this kubelet does not start, UsageError
    for a NUMA node that reserves more than it has. With the policy None nothing is reserved, and `reservedMemory` is
    only checked for its syntax.
    """
    numa_nodes = {numa.id: numa for numa in kubelet_numa_nodes(facts)}
    check_fields(settings)
    _check_topology(settings, policies, numa_nodes)
    if policies.memory is MemoryPolicy.NONE:
        return empty_table(numa_nodes.values(), {}, facts.hugepage_sizes)
    _check_size(numa_nodes, "memoryManagerPolicy Static")
    check_sums(settings, node_reservation(settings, facts.memory), numa_nodes)
    reserved = by_numa_node(settings, numa_nodes)
    if not any(amounts.get(MEMORY) for amounts in reserved.values()):
        raise configuration_error(
            settings,
            "reservedMemory",
            "the policy Static needs memory to be reserved in at least one NUMA node.",
            "Give reservedMemory.",
        )
    return _checked(empty_table(numa_nodes.values(), reserved, facts.hugepage_sizes))


def empty_table(numa_nodes: Iterable[NumaNode], reserved: Reserved, hugepage_sizes: Iterable[int]) -> NumaTable:
    """NUMA nodes with nothing taken: allocatable is the total less the reserved, for memory also less all huge pages.

    hugepage_sizes: the kernel's page sizes in bytes; every NUMA node has a row for each. If a NUMA node reserves more
    than it has, allocatable wraps around at 2^64, as in the kubelet, which starts nevertheless.
    """
    return NumaTable(
        numa_nodes={numa.id: _numa_node(numa, reserved.get(numa.id, {}), hugepage_sizes) for numa in numa_nodes},
        distances={numa.id: numa.distances for numa in numa_nodes},
    )


def kubelet_numa_nodes(facts: NodeFacts) -> tuple[NumaNode, ...]:
    """The machine's NUMA nodes; a machine without NUMA facts is one NUMA node, as for the kubelet."""
    return facts.numa_nodes or (NumaNode(id=0, memory=facts.memory, cpus=tuple(range(facts.cpus))),)


def _numa_node(numa: NumaNode, reserved: Mapping[str, int], hugepage_sizes: Iterable[int]) -> NumaNodeState:
    pages = dict.fromkeys(hugepage_sizes, 0) | dict(numa.hugepages)
    totals = {f"{PREFIX}{in_words(size)}": size * pages[size] for size in sorted(pages)}
    memory = {kind: _untouched(total, reserved.get(kind, 0)) for kind, total in totals.items()}
    memory[MEMORY] = _untouched(numa.memory, reserved.get(MEMORY, 0), sum(totals.values()))
    return NumaNodeState(id=numa.id, cells=(numa.id,), memory=memory)


def _untouched(node_total: int, reserved: int, elsewhere: int = 0) -> MemoryTable:
    """One row; elsewhere: its bytes that huge pages take."""
    allocatable = (node_total - reserved - elsewhere) % _WRAP
    return MemoryTable(total=node_total, system_reserved=reserved, allocatable=allocatable, free=allocatable)


def _checked(table: NumaTable) -> NumaTable:
    """The table; UsageError if a NUMA node reserves more of a type than it has, so that allocatable wrapped around."""
    for numa in table.numa_nodes.values():
        for kind, memory in numa.memory.items():
            if memory.allocatable > memory.total:
                pages = memory.total + _WRAP - memory.system_reserved - memory.allocatable
                raise UsageError(
                    f"NUMA node {numa.id} has {in_words(memory.total)} of {kind}, which is less than what "
                    "reservedMemory "
                    f"({in_words(memory.system_reserved)}) and huge pages ({in_words(pages)}) take of it.",
                    next_step="Reserve less in this NUMA node.",
                    data={
                        "numa_node": numa.id,
                        "type": kind,
                        "total": memory.total,
                        "reserved": memory.system_reserved,
                    },
                )
    return table


def _check_size(numa_nodes: Mapping[int, NumaNode], policy: str) -> None:
    if len(numa_nodes) > MOST_NUMA_NODES or max(numa_nodes) >= FULL.count:
        raise UsageError(
            f"this machine has {len(numa_nodes)} NUMA nodes, the last one {max(numa_nodes)}: {policy} looks at every "
            f"set of NUMA nodes, which memqos computes for up to {MOST_NUMA_NODES} NUMA nodes with ids "
            f"below {FULL.count}.",
            next_step="Switch the policy off for this machine.",
            data={"numa_nodes": sorted(numa_nodes), "policy": policy},
        )


def _check_topology(settings: KubeletSettings, policies: Policies, numa_nodes: Mapping[int, NumaNode]) -> None:
    """Checks the machine for the Topology Manager; no check with the policy none."""
    if policies.topology is TopologyPolicy.NONE:
        return
    _check_size(numa_nodes, f"topologyManagerPolicy {policies.topology}")
    if len(numa_nodes) > policies.options.max_numa_nodes:
        raise configuration_error(
            settings,
            "topologyManagerPolicy",
            f"the policy {policies.topology} takes at most {policies.options.max_numa_nodes} NUMA nodes; this machine "
            f"has {len(numa_nodes)}.",
            "Raise max-allowable-numa-nodes (1.31 and later), or use the policy none.",
        )
    short = [numa.id for numa in numa_nodes.values() if len(numa.distances) <= max(numa_nodes)]
    if policies.options.prefer_closest and short:
        raise UsageError(
            f"NUMA node {short[0]} does not give its distance to every other NUMA node, which "
            "prefer-closest-numa-nodes requires.",
            next_step="Give the distances of every NUMA node.",
            data={"numa_nodes": short},
        )


SOURCE = "kubelet memorymanager policy_static.go"
NOT_WHOLE = "[memorymanager] failed to represent quantity as int64"
NO_DEFAULT = "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
_NO_PREFERRED_DEFAULT = "[memorymanager] failed to find the default preferred hint"
_NO_EXTENSION = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
_NO_PREFERRED_EXTENSION = "[memorymanager] failed to find the extended preferred hint"
_MIXES_GROUPS = "[memorymanager] preferred hint violates NUMA node allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A placed container. reusable: the reusable memory for the next container of the same pod."""

    table: NumaTable
    reusable: Reusable
    blocks: Blocks
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A request that cannot be placed; message is the kubelet's own."""

    message: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The NUMA nodes that serve a request."""

    mask: Mask
    reason: Reason


def allocate(
    pod: Pod, container: Container, *, table: NumaTable, hint: Hint, reusable: Reusable, policies: Policies
) -> Allocation | Rejection:
    """Memory for one container of a Guaranteed pod; hint is the Topology Manager's.

    A container that holds memory already keeps it as it is. Each memory type counts as one assignment in each NUMA
    node. Beyond reusable memory on exactly these NUMA nodes, bytes are taken from the NUMA nodes in ascending order.
    """
    leaves = is_reusable(pod, container.name, policies)
    held = table.blocks(pod.uid, container.name)
    if held is not None:
        reason = explain(policies, "A container that holds memory keeps it.", {}, container)
        return Allocation(table=table, reusable=reusable.after(held, left_over=leaves), blocks=held, reason=reason)
    request = container_request(container, pod, policies)
    if request is None:
        return Rejection(message=NOT_WHOLE, reason=explain(policies, "Requests are whole bytes.", {}, container))
    settled = settle(container, request, table=table, hint=hint, reusable=reusable, policies=policies)
    if isinstance(settled, Rejection):
        return settled
    numa_nodes = settled.mask.numa_nodes
    blocks = tuple(Block(numa_nodes, kind, size) for kind, size in request.items())
    for block in blocks:
        table = table.taken(numa_nodes, block.kind, max(block.size - reusable.of(numa_nodes, block.kind), 0))
    table = table.holding(pod.uid, container.name, blocks)
    return Allocation(
        table=shrink_init_containers(table, pod, container.name, blocks, policies),
        reusable=reusable.after(blocks, left_over=leaves),
        blocks=blocks,
        reason=settled.reason,
    )


def settle(
    subject: Container | Pod, request: Request, *, table: NumaTable, hint: Hint, reusable: Reusable, policies: Policies
) -> Settled | Rejection:
    """The NUMA nodes for a request of a container or of a whole pod.

    The Topology Manager's affinity; without one the Memory Manager's own best hint; without room (reuse does not count
    here) either is extended to the best own hint that includes it. A preferred hint may only become another preferred
    one. Since 1.32 the result must not mix groups.
    """
    rule = "The NUMA nodes are the Topology Manager's affinity."
    if hint.affinity is None:
        rule = "Without an affinity from the Topology Manager the NUMA nodes are the Memory Manager's own best hint."
        own = best(calculate(table, request, reusable))
        if own is None:
            return Rejection(message=NO_DEFAULT, reason=explain(policies, rule, request, subject))
        if hint.preferred and not own.preferred:
            return Rejection(message=_NO_PREFERRED_DEFAULT, reason=explain(policies, rule, request, subject))
        hint = own
    mask = hint.affinity or EMPTY
    if not has_room(table, mask, request):
        rule = f"NUMA nodes {mask} have no room; they are extended to the best own hint that includes them."
        wider = best(one for one in calculate(table, request, reusable) if (one.affinity or EMPTY).includes(mask))
        if wider is None:
            return Rejection(message=_NO_EXTENSION, reason=explain(policies, rule, request, subject))
        if hint.preferred and not wider.preferred:
            return Rejection(message=_NO_PREFERRED_EXTENSION, reason=explain(policies, rule, request, subject))
        mask = wider.affinity or EMPTY
    if policies.checks_groups and mixes_groups(table, mask):
        rule = f"A NUMA node serves containers on it alone or on one exact set of NUMA nodes; {mask} would mix them."
        return Rejection(message=_MIXES_GROUPS, reason=explain(policies, rule, request, subject))
    return Settled(mask=mask, reason=explain(policies, rule, request, subject, mask))


def mixes_groups(table: NumaTable, mask: Mask) -> bool:
    """Whether a set of several NUMA nodes contains one in use alone or in another set. False for a single NUMA node."""
    if mask.count == 1:
        return False
    numa_nodes = mask.numa_nodes
    used = [table.numa_nodes[one] for one in numa_nodes if table.numa_nodes[one].assignments > 0]
    return any(len(numa.cells) == 1 or tuple(sorted(numa.cells)) != numa_nodes for numa in used)


def remove_container(table: NumaTable, pod_uid: str, container: str) -> NumaTable:
    """The table without one container's memory; the same table for a container that holds none.

    The memory of a pod that was placed as a whole is released with its last container.
    """
    held = table.blocks(pod_uid, container)
    whole = table.pod_blocks.get(pod_uid)
    if whole is None:
        return table if held is None else table.without(pod_uid, container).given_back(held)
    table = table.without(pod_uid, container)
    if pod_uid in table.assignments:
        return table
    rest = {uid: blocks for uid, blocks in table.pod_blocks.items() if uid != pod_uid}
    return replace(table.given_back(whole), pod_blocks=rest)


def container_started(table: NumaTable, pod: Pod, container: str, policies: Policies) -> NumaTable:
    """The table after a container was created: regular init containers before it have ended and hold nothing."""
    for earlier in pod.init_containers:
        if earlier.name == container:
            break
        if is_reusable(pod, earlier.name, policies):
            table = remove_container(table, pod.uid, earlier.name)
    return table


def explain(
    policies: Policies, rule: str, request: Request, subject: Container | Pod, mask: Mask | None = None
) -> Reason:
    """A reason of this policy about the request of a container or pod; mask: the resulting NUMA nodes."""
    inputs = (
        Input(f"{subject.name}: requests.{kind}", str(size), _place(subject, kind)) for kind, size in request.items()
    )
    return Reason(
        rule=rule,
        revision=policies.memory_revision,
        source=SOURCE,
        inputs=tuple(inputs),
        arithmetic="" if mask is None else f"mask {mask}: NUMA nodes {', '.join(map(str, mask.numa_nodes))}",
    )


def _place(subject: Container | Pod, kind: str) -> str:
    """The place of a request, or of its limit if the request was defaulted from that."""
    places = (subject.origin.get(f"{field}.{kind}") for field in ("requests", "limits"))
    return next((place for place in places if place), "computed")
