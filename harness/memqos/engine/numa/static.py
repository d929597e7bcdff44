"""The Static policy: memory for one container, and giving it back.

Source: kubelet `cm/memorymanager/policy_static.go` (Allocate, RemoveContainer) and `memory_manager.go` (AddContainer);
KEP-1769.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memqos.engine.numa.hints import (
    Request,
    Reusable,
    best,
    calculate,
    container_request,
    has_room,
    is_reusable,
    shrink_init_containers,
)
from memqos.engine.numa.policies import Policies
from memqos.engine.numa.topology_manager import EMPTY, Hint, Mask
from memqos.engine.numa.zone_table import Block, Blocks, ZoneTable
from memqos.engine.plan import Input, Reason
from memqos.model.pod import Container, Pod

__all__ = [
    "NOT_WHOLE",
    "NO_DEFAULT",
    "Allocation",
    "Rejection",
    "Settled",
    "allocate",
    "container_started",
    "explain",
    "mixes_groups",
    "remove_container",
    "settle",
]

SOURCE = "kubelet memorymanager policy_static.go"
NOT_WHOLE = "[memorymanager] failed to represent quantity as int64"
NO_DEFAULT = "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
_NO_PREFERRED_DEFAULT = "[memorymanager] failed to find the default preferred hint"
_NO_EXTENSION = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
_NO_PREFERRED_EXTENSION = "[memorymanager] failed to find the extended preferred hint"
_MIXES_GROUPS = "[memorymanager] preferred hint violates NUMA node allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A container that has its memory. reusable: what is left for the next container of the same pod."""

    table: ZoneTable
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
    """The NUMA nodes that a request is taken from."""

    mask: Mask
    reason: Reason


def allocate(
    pod: Pod, container: Container, *, table: ZoneTable, hint: Hint, reusable: Reusable, policies: Policies
) -> Allocation | Rejection:
    """Memory for one container of a Guaranteed pod; hint is the Topology Manager's.

    A container that holds memory already keeps it as it is. Each memory type counts as one assignment in each NUMA
    node, and takes from the NUMA nodes in ascending order what init containers have not left on exactly these NUMA
    nodes.
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
    zones = settled.mask.zones
    blocks = tuple(Block(zones, kind, size) for kind, size in request.items())
    for block in blocks:
        table = table.taken(zones, block.kind, max(block.size - reusable.of(zones, block.kind), 0))
    table = table.holding(pod.uid, container.name, blocks)
    return Allocation(
        table=shrink_init_containers(table, pod, container.name, blocks, policies),
        reusable=reusable.after(blocks, left_over=leaves),
        blocks=blocks,
        reason=settled.reason,
    )


def settle(
    subject: Container | Pod, request: Request, *, table: ZoneTable, hint: Hint, reusable: Reusable, policies: Policies
) -> Settled | Rejection:
    """The NUMA nodes to take a request of a container, or of a pod as a whole, from.

    The Topology Manager's affinity as it is; without one the Memory Manager's own best hint; either extended to the
    best own hint that includes it if it has no room (what init containers leave does not count here). A hint that was
    preferred may only become a preferred one. Since 1.32 the result must mix no groups.
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


def mixes_groups(table: ZoneTable, mask: Mask) -> bool:
    """Whether a set of several nodes touches one in use that stands alone or in another set. Never for one node."""
    if mask.count == 1:
        return False
    zones = mask.zones
    used = [table.zones[one] for one in zones if table.zones[one].assignments > 0]
    return any(len(zone.cells) == 1 or tuple(sorted(zone.cells)) != zones for zone in used)


def remove_container(table: ZoneTable, pod_uid: str, container: str) -> ZoneTable:
    """The table without one container's memory; the same table for a container that holds none.

    The memory of a pod that was placed as a whole goes with its last container.
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


def container_started(table: ZoneTable, pod: Pod, container: str, policies: Policies) -> ZoneTable:
    """The table when a container has been created: regular init containers before it have ended and hold nothing."""
    for earlier in pod.init_containers:
        if earlier.name == container:
            break
        if is_reusable(pod, earlier.name, policies):
            table = remove_container(table, pod.uid, earlier.name)
    return table


def explain(
    policies: Policies, rule: str, request: Request, subject: Container | Pod, mask: Mask | None = None
) -> Reason:
    """A reason of this policy about the request of a container or pod; mask: the NUMA nodes that came of it."""
    inputs = (
        Input(f"{subject.name}: requests.{kind}", str(size), _place(subject, kind)) for kind, size in request.items()
    )
    return Reason(
        rule=rule,
        revision=policies.memory_revision,
        source=SOURCE,
        inputs=tuple(inputs),
        arithmetic="" if mask is None else f"mask {mask}: NUMA nodes {', '.join(map(str, mask.zones))}",
    )


def _place(subject: Container | Pod, kind: str) -> str:
    """Where a request was written; where its limit was, if the request was defaulted from that."""
    places = (subject.origin.get(f"{field}.{kind}") for field in ("requests", "limits"))
    return next((place for place in places if place), "computed")
