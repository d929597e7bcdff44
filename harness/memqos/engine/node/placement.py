"""Admission of pods by the node, and their NUMA nodes.

A Linux kubelet never runs pods for another operating system or pods that are not scheduled.

Source: kubelet lifecycle/predicate.go `rejectPodAdmissionBasedOnOSSelector`, `rejectPodAdmissionBasedOnOSField`,
scheduler nodeaffinity; scheduler SchedulingGates. `spec.os` came with 1.23 behind the gate IdentifyPodOS, which is on
from 1.24; schedulingGates with 1.26 behind PodSchedulingReadiness, which is on from 1.27. An API server with such a
gate off drops the field.

Placement: admits pods one after the other, each on the NUMA nodes that `engine.numa` gives it.

Fit: the kubelet's check at admission, after the resource managers', whether the node has room for a pod.

It compares requests with the node's offer to the scheduler: capacity less both reservations, the hard eviction
threshold and the memory of huge pages. Sources: kubelet lifecycle/predicate.go
`canAdmitPod`, scheduler noderesources `Fits`, kubelet nodestatus/setters.go `MachineInfo`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.admit import Admitted, admit, pod_started, release, start
from memqos.engine.numa.draft_2020 import DraftAdmitted, draft_admit, draft_table
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.reservation import hard_eviction, in_words
from memqos.engine.numa.table import NumaTable
from memqos.engine.plan import Input, Reason, Refusal, RefusedBy
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import PREFIX, amount, page_size_of, pod_requests
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.release import Variant
from memqos.engine.releases.table import Family, Gate
from memqos.errors import UsageError
from memqos.model.node import NodeFacts
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity

__all__ = ["Placement", "huge_page_capacity", "node_room", "place", "status_allocatable", "table_after"]

_SOURCE = "kubelet lifecycle predicateAdmitHandler; scheduler noderesources Fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The node's offer, and the requests of the admitted pods.

    Amounts by resource name: cpu in thousandths, memory and huge pages in bytes. critical: the part of `used` that
    critical pods request; no pod is evicted for it.
    """

    offered: Mapping[str, int]
    used: Mapping[str, int] = field(default_factory=dict)
    critical: Mapping[str, int] = field(default_factory=dict)

    def with_pod(self, pod: Pod, needs: Mapping[str, int]) -> Room:
        """The room after one more pod."""
        critical = _added(self.critical, needs) if pod.is_critical else self.critical
        return Room(offered=self.offered, used=_added(self.used, needs), critical=critical)

    def refusal(self, pod: Pod, needs: Mapping[str, int], kubelet: Kubelet) -> Refusal | None:
        """The kubelet's rejection for the first resource that is short; None if the pod fits.

        The kubelet evicts other pods for a critical pod, so only critical pods' requests can reject it; the choice of
        victims is not modelled. Not counted are the number of pods (`maxPods`), resources without facts about the node,
        and the overhead that 1.36 counts a second time for running pods with pod-level requests.
        """
        held = self.critical if pod.is_critical else self.used
        for name, need in needs.items():
            offered, used = self.offered.get(name), held.get(name, 0)
            if offered is None or need <= offered - used:
                continue
            message = f"Node didn't have enough resource: {name}, requested: {need}, used: {used}, capacity: {offered}"
            return Refusal(
                pod=pod.uid,
                name=f"{pod.namespace}/{pod.name}",
                reason_name=f"OutOf{name}",
                message=message,
                reason=Reason(
                    rule=f"a pod's request of {name} must fit into the node's unused part"
                    + ("; for a critical pod only critical pods count" if pod.is_critical else ""),
                    revision=kubelet.revisions[Family.NODE],
                    source=_SOURCE,
                    inputs=(
                        Input(f"requests.{name}", str(need), f"the pod's containers, {_unit(name)}"),
                        kubelet.fact(f"allocatable {name} of the node", offered),
                    ),
                    arithmetic=f"{need} > {offered} - {used} = {offered - used}",
                ),
            )
        return None


def node_room(kubelet: Kubelet) -> Room:
    """An empty node's room: Node.status.allocatable of cpu, memory and the huge pages of its NUMA nodes."""
    huge = huge_page_capacity(kubelet.node)
    offered = status_allocatable(kubelet)
    memory = amount(offered, "memory").value - sum(huge.values())
    return Room(offered={"cpu": amount(offered, "cpu").milli_value, "memory": max(memory, 0), **huge})


def huge_page_capacity(node: NodeFacts) -> dict[str, int]:
    """Bytes of huge pages by resource name ("hugepages-2Mi"), 0 for a size without pages; empty without NUMA facts.

    Only the facts of NUMA nodes have the number of pages.
    """
    found = {f"{PREFIX}{in_words(size)}": 0 for size in node.hugepage_sizes if node.numa_nodes}
    for numa in node.numa_nodes:
        for size, pages in numa.hugepages.items():
            name = f"{PREFIX}{in_words(size)}"
            found[name] = found.get(name, 0) + size * pages
    return found


def status_allocatable(kubelet: Kubelet) -> dict[str, Quantity]:
    """The rules' allocatable less the hard eviction threshold; huge pages are not subtracted yet.

    Not below zero: the kubelet does not start with reservations above the capacity (`validation.check_configuration`).
    """
    left = kubelet.allocatable["memory"] - hard_eviction(kubelet.settings, kubelet.node.memory)
    return {**kubelet.allocatable, "memory": left}


def pod_needs(pod: Pod, kubelet: Kubelet) -> dict[str, int]:
    """A pod's requests with overhead, in `Room`'s units: cpu, memory, then huge pages; no zeros."""
    requests = pod_requests(pod, pod_level=kubelet.pod_level)
    needs = {"cpu": amount(requests, "cpu").milli_value, "memory": amount(requests, "memory").value}
    needs |= {name: one.value for name, one in sorted(requests.items()) if page_size_of(name) is not None}
    return {name: need for name, need in needs.items() if need}


def _added(total: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: total.get(name, 0) + more.get(name, 0) for name in {**total, **more}}


def _unit(name: str) -> str:
    return "in thousandths of a CPU" if name == "cpu" else "in bytes"


_LINUX = "linux"
_PREDICATES = "kubelet lifecycle predicateAdmitHandler"


def predicate_refusal(pod: Pod, kubelet: Kubelet) -> Refusal | None:
    """The kubelet's rejection of a pod that is not for Linux; None for every other pod."""
    if pod.os_label not in {"", _LINUX} and stage(Gate.IDENTIFY_POD_OS, kubelet.release):
        return _rejected(
            pod,
            kubelet,
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            Input("metadata.labels[kubernetes.io/os]", pod.os_label, pod.file),
        )
    if pod.os not in {"", _LINUX} and _on(Gate.IDENTIFY_POD_OS, kubelet):
        return _rejected(
            pod,
            kubelet,
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
            Input("spec.os.name", pod.os, pod.origin.get("os", pod.file)),
        )
    if pod.not_on_linux:
        return _rejected(
            pod,
            kubelet,
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            Input("node selector", pod.not_on_linux, pod.file),
        )
    return None


def _on(gate: Gate, kubelet: Kubelet) -> bool:
    return enabled(gate, kubelet.release, kubelet.settings.feature_gates)


def _rejected(pod: Pod, kubelet: Kubelet, reason_name: str, message: str, given: Input) -> Refusal:
    return Refusal(
        pod=pod.uid,
        name=f"{pod.namespace}/{pod.name}",
        reason_name=reason_name,
        message=message,
        reason=Reason(
            rule="a Linux kubelet runs no pod that is for another operating system",
            revision=kubelet.revisions[Family.NODE],
            source=_PREDICATES,
            inputs=(given,),
        ),
    )


def scheduling_refusal(pod: Pod, kubelet: Kubelet) -> Refusal | None:
    """The refusal of a pod with scheduling gates, which is not bound; None without them, and for a static pod."""
    if not pod.scheduling_gates or pod.static or not _on(Gate.SCHEDULING_READINESS, kubelet):
        return None
    return Refusal(
        pod=pod.uid,
        name=f"{pod.namespace}/{pod.name}",
        reason_name="SchedulingGated",
        message="Scheduling is blocked due to non-empty scheduling gates",
        reason=Reason(
            rule="a pod is bound to no node before all of its scheduling gates are removed",
            revision="",
            source="scheduler plugin SchedulingGates",
            inputs=(Input("spec.schedulingGates", ", ".join(pod.scheduling_gates), pod.file),),
        ),
        by=RefusedBy.SCHEDULER,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The admitted pods, the placement of each (by uid), and the refused pods.

    manages: whether the Memory Manager places pods. If not, every pod is admitted without NUMA nodes.
    """

    pods: tuple[Pod, ...]
    manages: bool = False
    admitted: Mapping[str, Admitted | DraftAdmitted] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


def place(
    pods: Iterable[Pod], kubelet: Kubelet, table: NumaTable | None = None, *, room: Room | None = None
) -> Placement:
    """Admit pods in the order given; all containers of a pod start before the next pod is admitted.

    table: the Memory Manager's current table; None for a node without pods. A pod that holds memory in it keeps it.
    room: the node's room for pods; None skips the check whether they fit.

    Raises ManifestError for a `reservedMemory` or policy with which the kubelet does not start, UsageError for NUMA
    nodes with less memory than their reservation.
    """
    policies = Policies.of(kubelet.settings, kubelet.release)
    manages = policies.memory is not MemoryPolicy.NONE
    manager = (
        _Draft(kubelet, table) if manages and kubelet.variant is Variant.DRAFT else _Static(kubelet, policies, table)
    )
    running, refusals = [], []
    admitted: dict[str, Admitted | DraftAdmitted] = {}
    for pod in pods:
        unscheduled = scheduling_refusal(pod, kubelet)
        if unscheduled is not None:
            refusals.append(unscheduled)
            continue
        outcome = manager.admit(pod) if manages else None
        if isinstance(outcome, Refusal):
            refusals.append(replace(outcome, name=f"{pod.namespace}/{pod.name}"))
            continue
        rejected = predicate_refusal(pod, kubelet)
        if rejected is not None:
            refusals.append(rejected)
            continue
        if room is not None:
            needs = pod_needs(pod, kubelet)
            refusal = room.refusal(pod, needs, kubelet)
            if refusal is not None:
                refusals.append(refusal)
                continue
            room = room.with_pod(pod, needs)
        if outcome is not None:
            manager.keep()
            admitted[pod.uid] = outcome
        running.append(pod)
    return Placement(pods=tuple(running), manages=manages, admitted=admitted, refusals=tuple(refusals))


def table_after(pods: Iterable[Pod], kubelet: Kubelet, *, ended: Collection[str]) -> NumaTable:
    """The Memory Manager's table after these pods were admitted in this order and some, by uid, ended.

    A refused pod holds nothing, and an unknown pod cannot end. Errors as of `place`.
    """
    manager = _Static(kubelet, Policies.of(kubelet.settings, kubelet.release), None)
    for pod in pods:
        if isinstance(manager.admit(pod), Admitted):
            manager.keep()
    table = manager.table
    for uid in ended:
        table = release(uid, table)
    return table


class _Static:
    """The Memory Manager's policy Static with its table: `admit` tries a pod, `keep` records it."""

    def __init__(self, kubelet: Kubelet, policies: Policies, table: NumaTable | None) -> None:
        first = start(kubelet.node, kubelet.settings, policies)
        self._policies = policies
        self._table = self._tried = table or first

    def admit(self, pod: Pod) -> Admitted | Refusal:
        """Place a pod next to the kept ones; once it is kept, all its containers have started."""
        outcome = admit(pod, table=self._table, policies=self._policies)
        if isinstance(outcome, Admitted):
            self._tried = pod_started(pod, outcome.table, self._policies)
        return outcome

    def keep(self) -> None:
        """Record the memory just given to the pod."""
        self._table = self._tried

    @property
    def table(self) -> NumaTable:
        """The table with the kept pods."""
        return self._table


class _Draft:
    """The Memory Manager of the draft, with the same interface."""

    def __init__(self, kubelet: Kubelet, table: NumaTable | None) -> None:
        if table is not None:
            raise UsageError(
                "the draft cannot start from a kubelet's table of NUMA nodes.",
                next_step="Use the shipped Memory Manager, or leave the table out.",
            )
        self._pod_level = kubelet.pod_level
        self._table = self._tried = draft_table(kubelet.node, kubelet.settings)

    def admit(self, pod: Pod) -> DraftAdmitted | Refusal:
        """Place a pod next to the kept ones."""
        outcome = draft_admit(pod, qos=pod_qos(pod, pod_level=self._pod_level), table=self._table)
        if isinstance(outcome, DraftAdmitted):
            self._tried = outcome.table
        return outcome

    def keep(self) -> None:
        """Record the memory just given to the pod."""
        self._table = self._tried
