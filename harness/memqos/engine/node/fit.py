"""Whether a pod still fits the node: the check that the kubelet makes at admission, after the resource managers'.

What is asked for is compared with what the node offers the scheduler: capacity less both reservations, the hard
eviction threshold and the memory set aside for huge pages. Sources: kubelet lifecycle/predicate.go
`canAdmitPod`, scheduler noderesources `Fits`, kubelet nodestatus/setters.go `MachineInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.reservation import hard_eviction, in_words
from memqos.engine.plan import Input, Reason, Refusal
from memqos.engine.pod.sums import PREFIX, amount, page_size_of, pod_requests
from memqos.engine.releases.table import Family
from memqos.model.node import NodeFacts
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity

__all__ = ["Room", "huge_page_capacity", "node_room", "pod_needs", "status_allocatable"]

_SOURCE = "kubelet lifecycle predicateAdmitHandler; scheduler noderesources Fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the node offers, and what of it the pods that were admitted have asked for.

    Amounts by resource name: cpu in thousandths, memory and huge pages in bytes. critical: the part of `used` that
    critical pods asked for, for which no pod is evicted.
    """

    offered: Mapping[str, int]
    used: Mapping[str, int] = field(default_factory=dict)
    critical: Mapping[str, int] = field(default_factory=dict)

    def with_pod(self, pod: Pod, needs: Mapping[str, int]) -> Room:
        """The room with one more pod in it."""
        critical = _added(self.critical, needs) if pod.is_critical else self.critical
        return Room(offered=self.offered, used=_added(self.used, needs), critical=critical)

    def refusal(self, pod: Pod, needs: Mapping[str, int], kubelet: Kubelet) -> Refusal | None:
        """Why the kubelet rejects the pod, None if it fits: the first resource of which too little is left.

        A critical pod makes the kubelet evict others, so that it is rejected only for what critical pods hold; which
        pods go is not modelled. The number of pods (`maxPods`) is not counted, nor what the node has no facts about.
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
                    rule=f"a pod must fit into what the node has left of {name}"
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
    """An empty node's room: Node.status.allocatable of cpu, memory and the huge pages of its zones."""
    huge = huge_page_capacity(kubelet.node)
    offered = status_allocatable(kubelet)
    memory = amount(offered, "memory").value - sum(huge.values())
    return Room(offered={"cpu": amount(offered, "cpu").milli_value, "memory": max(memory, 0), **huge})


def huge_page_capacity(node: NodeFacts) -> dict[str, int]:
    """Bytes of huge pages by resource name ("hugepages-2Mi"), 0 for a size without pages; empty without zones.

    Only zones say how many pages there are, so without them nothing is known of any.
    """
    found = {f"{PREFIX}{in_words(size)}": 0 for size in node.hugepage_sizes if node.zones}
    for zone in node.zones:
        for size, pages in zone.hugepages.items():
            name = f"{PREFIX}{in_words(size)}"
            found[name] = found.get(name, 0) + size * pages
    return found


def status_allocatable(kubelet: Kubelet) -> dict[str, Quantity]:
    """What the rules call allocatable, less the hard eviction threshold; huge pages are not subtracted yet.

    Not below zero: with more kept than there is the kubelet does not start (`validation.check_configuration`).
    """
    left = kubelet.allocatable["memory"] - hard_eviction(kubelet.settings, kubelet.node.memory)
    return {**kubelet.allocatable, "memory": left}


def pod_needs(pod: Pod, kubelet: Kubelet) -> dict[str, int]:
    """What a pod asks the node for, overhead included, in `Room`'s units: cpu, memory, then huge pages; no zeros."""
    requests = pod_requests(pod, pod_level=kubelet.pod_level)
    needs = {"cpu": amount(requests, "cpu").milli_value, "memory": amount(requests, "memory").value}
    needs |= {name: one.value for name, one in sorted(requests.items()) if page_size_of(name) is not None}
    return {name: need for name, need in needs.items() if need}


def _added(total: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: total.get(name, 0) + more.get(name, 0) for name in {**total, **more}}


def _unit(name: str) -> str:
    return "in thousandths of a CPU" if name == "cpu" else "in bytes"
