"""Entry point of both managers: start a node, admit a pod, track its containers, release it.

Pod-level placement (1.36, gate PodLevelResourceManagers, scope pod): the pod's memory is taken once. Containers with
equal requests and limits of cpu and memory get their own share of it; the others share the rest.

Sources: kubelet `policy_static.go` (AllocatePod, validatePodScopeResources); KEP-5526; `cm/topologymanager`
(scope_container.go, scope_pod.go), `cm/admission` (GetPodAdmitResult).

The CPU Manager and the device manager are not modelled. By default they have no preference, as under the CPU Manager's
policy none and without devices; a caller may pass their hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from memqos.engine.numa.hints import (
    NOTHING_REUSABLE,
    Request,
    Reusable,
    calculate,
    container_request,
    is_reusable,
    managed_as_a_whole,
    pod_request,
    regenerate,
)
from memqos.engine.numa.policies import MemoryPolicy, PodLevel, Policies, TopologyPolicy, TopologyScope
from memqos.engine.numa.reservation import (
    NOT_WHOLE,
    Rejection,
    allocate,
    container_started,
    explain,
    first_table,
    remove_container,
    settle,
)
from memqos.engine.numa.table import Block, Blocks, NumaTable
from memqos.engine.numa.topology_manager import (
    EMPTY,
    Hint,
    Mask,
    Merger,
    ProviderHints,
    TopologyDecision,
    topology_decision,
)
from memqos.engine.plan import Input, Reason, Refusal
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import pod_level_set
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Container, Pod, QosClass

__all__ = [
    "EMPTY_POD_SHARED_POOL_ERROR",
    "TOPOLOGY_AFFINITY_ERROR",
    "UNEXPECTED_ADMISSION_ERROR",
    "Admitted",
    "EmptySharedPool",
    "OtherHints",
    "admit",
    "allocate_pod",
    "container_hints",
    "is_placed",
    "pod_fault",
    "pod_hints",
    "pod_started",
    "release",
    "start",
]

_Requests = dict[str, Request]


class EmptySharedPool(Rejection):
    """The kubelet's reason name if exclusive containers leave nothing for the shared ones."""


def allocate_pod(pod: Pod, *, table: NumaTable, hint: Hint, policies: Policies) -> tuple[NumaTable, Reason] | Rejection:
    """Memory for a whole Guaranteed pod with pod-level resources; hint is the Topology Manager's.

    A pod that holds memory already keeps it. If the pod-level amounts are not whole bytes, the pod is admitted and not
    placed; if a container's are not, it is rejected with the reason of an empty shared part.
    """
    if pod.uid in table.pod_blocks:
        return table, explain(policies, "A pod that holds memory keeps it.", {}, pod)
    total = pod_request(pod, policies)
    requests = _container_requests(pod, policies)
    if total is None:
        return table, explain(policies, "A pod that does not request whole bytes is not placed.", {}, pod)
    if requests is None:
        return EmptySharedPool(message=NOT_WHOLE, reason=explain(policies, "Requests are whole bytes.", {}, pod))
    fault = _fault(pod, total, requests, policies)
    if fault:
        rule = "Exclusive containers leave memory for those that share the pod's."
        return EmptySharedPool(message=fault, reason=explain(policies, rule, total, pod))
    settled = settle(pod, total, table=table, hint=hint, reusable=NOTHING_REUSABLE, policies=policies)
    if isinstance(settled, Rejection):
        return settled
    whole = _blocks(settled.mask, total)
    for block in whole:
        table = table.taken(block.numa_nodes, block.kind, block.size)
    table = replace(table, pod_blocks={**table.pod_blocks, pod.uid: whole})
    for name, share in _shares(pod, total, requests, policies).items():
        table = table.holding(pod.uid, name, _blocks(settled.mask, share))
    return table, settled.reason


def pod_fault(pod: Pod, policies: Policies) -> str:
    """The kubelet's message if the shared part of a pod would be empty, or a request is not whole bytes; else ""."""
    total = pod_request(pod, policies)
    requests = _container_requests(pod, policies)
    if total is None or requests is None:
        return NOT_WHOLE
    return _fault(pod, total, requests, policies)


def _fault(pod: Pod, total: Request, requests: _Requests, policies: Policies) -> str:
    """requests: each container's own, empty for a shared container."""
    used: dict[str, int] = {}
    shares = False
    for one in pod.init_containers:
        request = requests[one.name]
        if is_reusable(pod, one.name, policies):
            fault = _init_fault(request, total, used)
            if fault:
                return fault
        else:
            shares = shares or not request
            _add(used, request)
    for one in pod.containers:
        shares = shares or not requests[one.name]
        _add(used, requests[one.name])
    for kind, size in total.items():
        if shares and used.get(kind, 0) >= size:
            return (
                f"pod rejected, sum of exclusive container {kind} requests equals pod budget, "
                "leaving no memory for shared containers"
            )
    return ""


def _init_fault(request: Request, total: Request, sidecars: Request) -> str:
    """The message for a regular init container that does not fit with the sidecars before it; "" if it fits."""
    for kind, size in total.items():
        rest = size - sidecars.get(kind, 0)
        if request and request.get(kind, 0) > rest:
            return (
                f"pod rejected, largest exclusive init container requests {request[kind]} of {kind}, "
                f"but only {rest} available"
            )
        if not request and rest <= 0:
            return f"pod rejected, pod has shared init containers but no {kind} available for them"
    return ""


def _shares(pod: Pod, total: Request, requests: _Requests, policies: Policies) -> _Requests:
    """The memory of the pod available to each container: its own request, or the shared part.

    A shared regular init container gets all that earlier sidecars leave; shared sidecars and app containers get all
    that exclusive ones leave.
    """
    shares: _Requests = {}
    rest = dict(total)
    for one in pod.init_containers:
        if not is_reusable(pod, one.name, policies):
            _add(rest, {kind: -size for kind, size in requests[one.name].items()})
        elif not requests[one.name]:
            shares[one.name] = dict(rest)
    for one in pod.containers:
        _add(rest, {kind: -size for kind, size in requests[one.name].items()})
    return {
        one.name: shares.get(one.name) or requests[one.name] or rest for one in pod.init_containers + pod.containers
    }


def _container_requests(pod: Pod, policies: Policies) -> _Requests | None:
    found: _Requests = {}
    for one in pod.init_containers + pod.containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        found[one.name] = request
    return found


def _blocks(mask: Mask, request: Request) -> Blocks:
    return tuple(Block(mask.numa_nodes, kind, size) for kind, size in request.items() if size > 0)


def _add(total: dict[str, int], more: Request) -> None:
    for kind, size in more.items():
        total[kind] = total.get(kind, 0) + size


TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL_ERROR = "EmptyPodSharedPoolError"

_NO_LOCALITY = "Resources cannot be allocated with Topology locality"
_NO_POD_LOCALITY = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
_NO_CONTAINER_LOCALITY = (
    "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
)
_SOURCE = "kubelet topologymanager policy.go, scope_container.go, scope_pod.go"

OtherHints = Mapping[str, Sequence[ProviderHints | None]]
"""Hints of the other providers (CPU Manager, device manager) by container name; under "" for the whole pod, for the
scope pod.
"""

_NO_OTHERS: OtherHints = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An admitted pod.

    table: the node's table with the pod in it. cpuset_mems: container name to CRI cpuset_mems ("0,1"); a missing
    container is not pinned. reasons: container name to reason, also for containers that are not pinned.
    """

    table: NumaTable
    cpuset_mems: Mapping[str, str]
    reasons: Mapping[str, Reason]


def start(facts: NodeFacts, settings: KubeletSettings, policies: Policies) -> NumaTable:
    """The node's table before any pod; errors as in `first_table`."""
    return first_table(facts, settings, policies)


def admit(pod: Pod, *, table: NumaTable, policies: Policies, others: OtherHints = _NO_OTHERS) -> Admitted | Refusal:
    """Place a pod as the kubelet does at admission, or refuse it with the kubelet's reason name.

    Containers are placed in order, init containers first; under the scope pod they share one affinity. A refused pod
    changes nothing. If the pod is in the table already, as after a restart of the kubelet, containers that hold memory
    keep it.
    """
    admission = _Admission(
        pod=pod,
        policies=policies,
        others=others,
        placed=is_placed(pod, policies),
        merger=Merger(
            # The policy none merges nothing, so it works on machines of any size.
            numa_nodes=EMPTY if policies.topology is TopologyPolicy.NONE else Mask.of(table.numa_nodes),
            closest=policies.options.prefer_closest and policies.topology is not TopologyPolicy.SINGLE_NUMA_NODE,
            distances=table.distances,
            up_to_need=policies.up_to_need,
        ),
    )
    if policies.scope is TopologyScope.CONTAINER or policies.topology is TopologyPolicy.NONE:
        return admission.by_container(table, None)
    return admission.by_pod(table)


def release(pod_uid: str, table: NumaTable) -> NumaTable:
    """The table without a pod; the same table if the pod holds nothing."""
    for container in tuple(table.assignments.get(pod_uid, ())):
        table = remove_container(table, pod_uid, container)
    return table


def pod_started(pod: Pod, table: NumaTable, policies: Policies) -> NumaTable:
    """The table after all containers of an admitted pod were created: regular init containers hold nothing."""
    for container in pod.init_containers + pod.containers:
        table = container_started(table, pod, container.name, policies)
    return table


def is_placed(pod: Pod, policies: Policies) -> bool:
    """Whether the Memory Manager places a pod: policy Static, class Guaranteed, not exempt for pod-level resources."""
    return (
        policies.memory is MemoryPolicy.STATIC
        and pod_qos(pod, pod_level=policies.pod_level_qos) is QosClass.GUARANTEED
        and not (policies.pod_level is PodLevel.LEFT_ALONE and pod_level_set(pod))
    )


def container_hints(
    pod: Pod, container: Container, table: NumaTable, reusable: Reusable, policies: Policies
) -> ProviderHints | None:
    """The Memory Manager's hints for one container of a pod that it places; None or empty for no preference."""
    request = container_request(container, pod, policies)
    held = table.blocks(pod.uid, container.name)
    if request is None:
        return None
    if held is not None:
        return regenerate(held, request)
    return dict.fromkeys(request, calculate(table, request, reusable) or None)


def pod_hints(pod: Pod, table: NumaTable, policies: Policies) -> ProviderHints | None:
    """The Memory Manager's hints for a pod as a whole; None or empty for no preference.

    If a container holds memory already, the pod's hint is the first such container's NUMA nodes, provided that it holds
    exactly the pod's request.
    """
    request = pod_request(pod, policies)
    if request is None:
        return None
    if managed_as_a_whole(pod, policies) and pod_fault(pod, policies):
        return dict.fromkeys(request, ())
    for container in pod.init_containers + pod.containers:
        held = table.blocks(pod.uid, container.name)
        if held is not None:
            return regenerate(held, request)
    return dict.fromkeys(request, calculate(table, request, NOTHING_REUSABLE) or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Affinity:
    """The Topology Manager's decision about a container or pod."""

    hint: Hint
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admission:
    """The admission of one pod."""

    pod: Pod
    policies: Policies
    others: OtherHints
    placed: bool
    merger: Merger

    def by_pod(self, table: NumaTable) -> Admitted | Refusal:
        """With one affinity for all containers."""
        managed = managed_as_a_whole(self.pod, self.policies)
        hints = pod_hints(self.pod, table, self.policies) if self.placed else None
        affinity = self._affinity("", hints, _NO_POD_LOCALITY if managed else _NO_LOCALITY)
        if isinstance(affinity, Refusal):
            return affinity
        if not (managed and self.placed):
            return self.by_container(table, affinity)
        outcome = allocate_pod(self.pod, table=table, hint=affinity.hint, policies=self.policies)
        if isinstance(outcome, Rejection):
            return self._rejected(outcome, affinity)
        table, reason = outcome
        return self._admitted(table, {one.name: (reason, affinity.reason) for one in self._containers})

    def by_container(self, table: NumaTable, shared: _Affinity | None) -> Admitted | Refusal:
        """Container by container; shared: the pod's affinity, None if each container has its own."""
        reusable = NOTHING_REUSABLE
        message = _NO_CONTAINER_LOCALITY if managed_as_a_whole(self.pod, self.policies) else _NO_LOCALITY
        chains: dict[str, tuple[Reason, ...]] = {}
        for one in self._containers:
            affinity: _Affinity | Refusal | None = shared
            if affinity is None:
                hints = container_hints(self.pod, one, table, reusable, self.policies) if self.placed else None
                affinity = self._affinity(one.name, hints, message)
            if isinstance(affinity, Refusal):
                return affinity
            chains[one.name] = (affinity.reason,)
            if not self.placed:
                continue
            outcome = allocate(
                self.pod, one, table=table, hint=affinity.hint, reusable=reusable, policies=self.policies
            )
            if isinstance(outcome, Rejection):
                return self._rejected(outcome, affinity)
            table, reusable = outcome.table, outcome.reusable
            chains[one.name] = (outcome.reason, affinity.reason)
        return self._admitted(table, chains)

    @property
    def _containers(self) -> tuple[Container, ...]:
        return self.pod.init_containers + self.pod.containers

    def _affinity(self, name: str, hints: ProviderHints | None, message: str) -> _Affinity | Refusal:
        """Ask the Topology Manager about a container, or about the pod (name "")."""
        decision = topology_decision(self.policies.topology, (*self.others.get(name, ()), hints), self.merger)
        reason = self._decision_reason(name, hints, decision)
        if decision.admitted:
            return _Affinity(hint=decision.hint, reason=reason)
        return Refusal(pod=self.pod.uid, reason_name=TOPOLOGY_AFFINITY_ERROR, message=message, reason=reason)

    def _decision_reason(self, name: str, hints: ProviderHints | None, decision: TopologyDecision) -> Reason:
        policy = self.policies.topology
        if policy is TopologyPolicy.NONE:
            return Reason(
                rule="The Topology Manager's policy none queries no provider and gives no affinity.",
                revision=self.policies.topology_revision,
                source=_SOURCE,
                inputs=(self.policies.setting("topologyManagerPolicy", policy.value),),
            )
        inputs = [
            Input(f"{name or self.pod.name}: {kind} hints", _summary(of_kind), "memory manager")
            for kind, of_kind in (hints or {}).items()
        ] or [Input(f"{name or self.pod.name}: hints", "no preference", "memory manager")]
        verdict = "admits" if decision.admitted else "refuses"
        return Reason(
            rule=f"The Topology Manager's policy {policy} {verdict} the best merged hint.",
            revision=self.policies.topology_revision,
            source=_SOURCE,
            inputs=(
                self.policies.setting("topologyManagerPolicy", policy.value),
                self.policies.setting("topologyManagerScope", self.policies.scope.value),
                *inputs,
            ),
            arithmetic=f"best: {decision.hint}",
        )

    def _rejected(self, outcome: Rejection, affinity: _Affinity) -> Refusal:
        """The refusal of a pod that the Topology Manager admitted and whose allocation failed."""
        reason = replace(outcome.reason, because=(affinity.reason,))
        if isinstance(outcome, EmptySharedPool):
            name, message = EMPTY_POD_SHARED_POOL_ERROR, outcome.message
        else:
            name, message = UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {outcome.message}, which is unexpected"
        return Refusal(pod=self.pod.uid, reason_name=name, message=message, reason=reason)

    def _admitted(self, table: NumaTable, chains: Mapping[str, tuple[Reason, ...]]) -> Admitted:
        numa_nodes = {one.name: table.numa_nodes_of(self.pod.uid, one.name) for one in self._containers}
        mems = {name: ",".join(map(str, ids)) for name, ids in numa_nodes.items() if ids}
        reasons = {name: self._mems_reason(mems.get(name), chain) for name, chain in chains.items()}
        return Admitted(table=table, cpuset_mems=mems, reasons=reasons)

    def _mems_reason(self, mems: str | None, chain: tuple[Reason, ...]) -> Reason:
        if mems is None:
            rule = (
                "cpuset.mems is not written: only containers of Guaranteed pods hold memory, under the policy Static."
            )
            inputs = (self.policies.setting("memoryManagerPolicy", self.policies.memory.value),)
        else:
            rule = "cpuset.mems lists the NUMA nodes of the container's memory blocks, ascending."
            inputs = (Input("NUMA nodes", mems, "memory manager"),)
        return Reason(
            rule=rule,
            revision=self.policies.memory_revision,
            source="kubelet internal_container_lifecycle_linux.go",
            inputs=inputs,
            because=chain,
        )


def _summary(hints: Sequence[Hint] | None) -> str:
    """A summary of hints: their number and the first one."""
    if hints is None:
        return "no preference"
    if not hints:
        return "impossible"
    return f"{len(hints)} sets of NUMA nodes, {sum(hint.preferred for hint in hints)} preferred, first: {hints[0]}"
