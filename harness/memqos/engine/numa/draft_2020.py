"""The Memory Manager's first draft (2020, before KEP-1769): safety zone, reserved zone, one NUMA node only.

Source: "Memory Manager" draft of 2020, sections "The Concept of Safety Zone", "The Concept of Reserved
Zone", "NUMA node affinity for memory and hugepages". No release ships it; 1.21 came with `reservedMemory` and groups
of NUMA nodes.

Where the draft is silent, this module chooses: every container of a Guaranteed pod is placed, in spec order, init
containers too; among the NUMA nodes with room the Topology Manager's policy single-numa-node picks the lowest. The
draft names no field for the safety zone: here it is `reservedMemory`, the same for every NUMA node, and zero without
that field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.numa.policies import TopologyPolicy, configuration_error
from memqos.engine.numa.reservation import check_fields, in_words, kubelet_numa_nodes, node_reservation
from memqos.engine.numa.table import MEMORY
from memqos.engine.numa.topology_manager import Hint, Mask, Merger, topology_decision
from memqos.engine.plan import Input, Reason, Refusal
from memqos.engine.pod.sums import PREFIX
from memqos.engine.releases.table import DRAFTS, Family
from memqos.errors import UsageError
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Container, Pod, QosClass
from memqos.model.quantity import ZERO

__all__ = [
    "DraftAdmitted",
    "DraftNode",
    "DraftTable",
    "affinity",
    "draft_admit",
    "draft_start",
    "draft_table",
]

_REVISION = DRAFTS[Family.MEMORY_MANAGER]
_SOURCE = "Memory Manager draft of 2020, NUMA node affinity for memory and hugepages"
_FIELD = "reservedMemory"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftNode:
    """One NUMA node, in bytes by memory type: the allocatable memory, and the part reserved by containers.

    allocatable of memory: total less preallocated huge pages less the safety zone; of huge pages: all preallocated.
    """

    id: int
    allocatable: Mapping[str, int]
    reserved: Mapping[str, int] = field(default_factory=dict)

    def free(self, kind: str) -> int:
        """Allocatable less reserved; 0 for a type that the NUMA node does not have."""
        return self.allocatable.get(kind, 0) - self.reserved.get(kind, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTable:
    """All NUMA nodes by id, and the containers' places: pod uid to container name to node and bytes by memory type."""

    numa_nodes: Mapping[int, DraftNode]
    assignments: Mapping[str, Mapping[str, tuple[int, Mapping[str, int]]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftAdmitted:
    """An admitted pod.

    cpuset_mems: container name to its NUMA node as text; empty for a pod that is not Guaranteed. reasons: container
    name to reason, also for such a pod.
    """

    table: DraftTable
    cpuset_mems: Mapping[str, str]
    reasons: Mapping[str, Reason]


def draft_start(facts: NodeFacts, *, safety_zone: int, node_reservation: int) -> DraftTable:
    """The table before any pod.

    safety_zone: bytes set aside in each NUMA node. node_reservation: bytes of kube-reserved, system-reserved and the
    eviction threshold together. UsageError if the safety zones together are more than that, or do not fit.
    """
    total = safety_zone * len(facts.numa_nodes)
    if safety_zone < 0 or total > node_reservation:
        raise UsageError(
            f"the safety zone of {in_words(safety_zone)} in {len(facts.numa_nodes)} NUMA nodes makes {in_words(total)}"
            f", and must be from 0 to the {in_words(node_reservation)} that the node reserves.",
            next_step="Give less in reservedMemory, or reserve more of the node.",
            data={
                "safety_zone": safety_zone,
                "numa_nodes": len(facts.numa_nodes),
                "node_reservation": node_reservation,
            },
        )
    numa_nodes = {}
    for numa in facts.numa_nodes:
        pages = {f"{PREFIX}{in_words(size)}": size * count for size, count in numa.hugepages.items()}
        memory = numa.memory - sum(pages.values()) - safety_zone
        if memory < 0:
            raise UsageError(
                f"NUMA node {numa.id} has {in_words(numa.memory)}, which its huge pages and the safety zone exceed.",
                next_step="Give less in reservedMemory.",
                data={"numa_node": numa.id, "memory": numa.memory, "safety_zone": safety_zone},
            )
        numa_nodes[numa.id] = DraftNode(id=numa.id, allocatable={MEMORY: memory} | pages)
    return DraftTable(numa_nodes=numa_nodes)


def draft_table(facts: NodeFacts, settings: KubeletSettings) -> DraftTable:
    """The table before any pod of a node with this configuration.

    ManifestError for a safety zone that is not the same in every NUMA node or has huge pages, and for a policy or scope
    of the Topology Manager that the draft does not support; UsageError as `draft_start`.
    """
    facts = replace(facts, numa_nodes=kubelet_numa_nodes(facts))
    check_fields(settings)
    if settings.topology_manager_policy not in {None, "", "none", TopologyPolicy.SINGLE_NUMA_NODE}:
        what = f"the draft requires single-numa-node, not '{settings.topology_manager_policy}'."
        raise configuration_error(settings, "topologyManagerPolicy", what, "Set single-numa-node, or leave it out.")
    if settings.topology_manager_scope not in {None, "", "container"}:
        what = f"the draft places container by container, and has no scope '{settings.topology_manager_scope}'."
        raise configuration_error(settings, "topologyManagerScope", what, "Set container, or leave it out.")
    safety: dict[int, int] = {numa.id: 0 for numa in facts.numa_nodes}
    for numa, limits in settings.reserved_memory or ():
        if numa not in safety or set(limits) - {MEMORY}:
            what = (
                f"there is no NUMA node {numa}." if numa not in safety else "the draft's safety zone has no huge pages."
            )
            raise configuration_error(settings, _FIELD, what, "Give memory of the machine's NUMA nodes only.")
        safety[numa] += limits[MEMORY].value if limits else 0
    if len(set(safety.values())) > 1:
        shares = ", ".join(f"{in_words(size)} in NUMA node {numa}" for numa, size in safety.items())
        what = f"the draft's safety zone is the same in every NUMA node, not {shares}."
        raise configuration_error(settings, _FIELD, what, "Give every NUMA node the same memory.")
    reserved = node_reservation(settings, facts.memory).get(MEMORY, ZERO)
    return draft_start(facts, safety_zone=next(iter(safety.values())), node_reservation=reserved.value)


def affinity(table: DraftTable, request: Mapping[str, int]) -> tuple[int, ...]:
    """The NUMA nodes with room for a request: strictly more free than requested of every type."""
    return tuple(
        numa_id
        for numa_id, numa in sorted(table.numa_nodes.items())
        if all(numa.free(kind) > size for kind, size in request.items())
    )


def draft_admit(pod: Pod, *, qos: QosClass, table: DraftTable) -> DraftAdmitted | Refusal:
    """Place every container of a Guaranteed pod on one NUMA node, or refuse the pod; other pods are not placed."""
    if qos is not QosClass.GUARANTEED:
        unplaced = _unplaced(qos)
        every = pod.init_containers + pod.containers
        return DraftAdmitted(table=table, cpuset_mems={}, reasons={one.name: unplaced for one in every})
    mems: dict[str, str] = {}
    reasons: dict[str, Reason] = {}
    merger = Merger(numa_nodes=Mask.of(table.numa_nodes))
    for container in pod.init_containers + pod.containers:
        request = _request(container)
        hints = [Hint(Mask.of([numa]), preferred=True) for numa in affinity(table, request)]
        decision = topology_decision(TopologyPolicy.SINGLE_NUMA_NODE, [dict.fromkeys(request, hints)], merger)
        reason = _reason(container, request, table)
        if not decision.admitted:
            message = "Resources cannot be allocated with Topology locality"
            return Refusal(pod=pod.uid, reason_name="TopologyAffinityError", message=message, reason=reason)
        # With a single NUMA node the policy answers "any", which means that node.
        [numa_id] = (decision.hint.affinity or merger.numa_nodes).numa_nodes
        table = _placed(table, pod.uid, container.name, numa_id, request)
        mems[container.name] = str(numa_id)
        reasons[container.name] = reason
    return DraftAdmitted(table=table, cpuset_mems=mems, reasons=reasons)


def _request(container: Container) -> dict[str, int]:
    """Bytes of memory and huge pages that a container requests; memory is always present, perhaps 0."""
    requests = container.resources.requests
    counted = {kind: quantity.value for kind, quantity in requests.items() if kind.startswith(PREFIX)}
    return {MEMORY: requests[MEMORY].value if MEMORY in requests else 0} | counted


def _placed(table: DraftTable, pod_uid: str, container: str, numa_id: int, request: Mapping[str, int]) -> DraftTable:
    pod = {**table.assignments.get(pod_uid, {}), container: (numa_id, request)}
    numa_nodes = {**table.numa_nodes, numa_id: _reserving(table.numa_nodes[numa_id], request)}
    return DraftTable(numa_nodes=numa_nodes, assignments={**table.assignments, pod_uid: pod})


def _reserving(numa: DraftNode, request: Mapping[str, int]) -> DraftNode:
    added = {kind: numa.reserved.get(kind, 0) + size for kind, size in request.items()}
    return replace(numa, reserved={kind: size for kind, size in {**numa.reserved, **added}.items() if size})


def _unplaced(qos: QosClass) -> Reason:
    return Reason(
        rule="cpuset.mems is not written: only containers of Guaranteed pods are placed on a NUMA node.",
        revision=_REVISION,
        source=_SOURCE,
        inputs=(Input("QoS class", str(qos), "computed"),),
    )


def _reason(container: Container, request: Mapping[str, int], table: DraftTable) -> Reason:
    sums = (
        f"NUMA node {numa_id}: {numa.allocatable.get(kind, 0)} - {numa.reserved.get(kind, 0)} > {size} of {kind}"
        f" {'holds' if numa.free(kind) > size else 'does not hold'}"
        for numa_id, numa in sorted(table.numa_nodes.items())
        for kind, size in request.items()
    )
    given = container.resources.requests
    unnamed = {kind: "given" if kind in given else "not given" for kind in request}
    places = {kind: container.origin.get(f"requests.{kind}", text) for kind, text in unnamed.items()}
    return Reason(
        rule="A container goes to one NUMA node whose allocatable memory less the reserved is more than it requests.",
        revision=_REVISION,
        source=_SOURCE,
        inputs=tuple(
            Input(f"{container.name}: requests.{kind}", str(size), places[kind]) for kind, size in request.items()
        ),
        arithmetic="; ".join(sums),
    )
