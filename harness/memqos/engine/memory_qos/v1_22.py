"""memory-qos, revision v1.22 (alpha, 1.22 to 1.26).

Container: memory.min is the request. memory.high is int64(float64(limit) * factor), with the node's allocatable memory
for a missing limit, and is written only if it is above the request. The kubelet truncates to whole bytes; the kernel
rounds to pages. Pod, burstable and kubepods: memory.min is the sum of requests, if there is one. Source: KEP-2570 of
2021, kubelet 1.22 to 1.26 `generateLinuxContainerConfig`, `ResourceConfigForPod`, `setMemoryQoS`.
"""

from __future__ import annotations

from memqos.engine.memory_qos.base import (
    ContainerCase,
    NodeCase,
    PodCase,
    ReservedCase,
    Revision,
    amount_ruling,
    container_reason,
    container_ruling,
    factor_input,
    reserved_minimum,
    top_input,
)
from memqos.engine.plan import Input, Reason, Ruling, Rulings
from memqos.model.knob import ABSENT, Bytes, Knob

__all__ = ["REVISION", "burstable", "container_minimum", "kubepods", "memory_high", "pod", "reserved"]

_CONTAINER_SOURCE = " (2021), container level; kubelet 1.22 generateLinuxContainerConfig"


def memory_high(top: int, factor: float) -> int:
    """memory.high before the comparison with the request: int64(float64(top) * factor), in bytes."""
    return int(float(top) * factor)


def container(case: ContainerCase) -> Rulings:
    """memory.min and memory.high of one container."""
    return {**container_minimum(case), Knob.MEMORY_HIGH: container_high(case)}


def container_high(case: ContainerCase) -> Ruling:
    """memory.high of one container; ABSENT with the reason if it is not written."""
    factor = case.kubelet.factor
    top, named = _top(case)
    if factor is None or top <= 0:
        rule = "memory.high is not written: no throttling factor, or no amount to apply it to"
        return container_ruling(case, ABSENT, rule, _CONTAINER_SOURCE)
    high = memory_high(top, factor)
    above = high > case.request

    def why() -> Reason:
        share = f"memory.high is the throttling factor's share of the {named}"
        return container_reason(
            case,
            f"{share}, written because it is above the request"
            if above
            else f"{share}; it is not written, since it is not above the request",
            _CONTAINER_SOURCE,
            factor_input(case.kubelet),
            *top_input(case),
            arithmetic=f"{top} * {case.kubelet.factor_text} = {high} {'>' if above else '<='} {case.request}",
            rounding="IEEE double, truncated to whole bytes; the kernel rounds down to a page",
        )

    return Ruling(Bytes(high) if above else ABSENT, why)


def _top(case: ContainerCase) -> tuple[int, str]:
    """The amount to which the factor applies, and its name."""
    if case.limit:
        return case.limit, "memory limit"
    return case.kubelet.allocatable["memory"].value, "node's allocatable memory"


def container_minimum(case: ContainerCase) -> dict[Knob, Ruling]:
    """memory.min of a container that requests memory, whatever the pod's class."""
    if not case.request:
        return {}

    def why() -> Reason:
        return container_reason(case, "memory.min is the container's memory request", _CONTAINER_SOURCE)

    return {Knob.MEMORY_MIN: Ruling(Bytes(case.request), why)}


def pod(case: PodCase) -> Rulings:
    """memory.min of a pod that requests memory."""
    if case.request <= 0:
        return {}
    inputs = (Input("pod memory request", str(case.request), "pod sums"),)
    rule = "memory.min is the pod's memory request, overhead included"
    source = ", pod level; kubelet cm.ResourceConfigForPod"
    return {Knob.MEMORY_MIN: amount_ruling(case.kubelet, case.request, rule, source, *inputs)}


def burstable(case: NodeCase) -> Rulings:
    """memory.min of the burstable cgroup; a sum of zero is not written."""
    if case.burstable <= 0:
        return {}
    rule = "memory.min is the sum of the memory requests of all Burstable pods"
    source = ", QoS level; kubelet setMemoryQoS"
    inputs = (Input("requests of Burstable pods", str(case.burstable), "pod sums"),)
    return {Knob.MEMORY_MIN: amount_ruling(case.kubelet, case.burstable, rule, source, *inputs)}


def kubepods(case: NodeCase) -> Rulings:
    """memory.min of kubepods; a sum of zero is not written."""
    total = case.guaranteed + case.burstable
    if total <= 0:
        return {}
    rule = "memory.min is the sum of the memory requests of all Guaranteed and Burstable pods"
    inputs = (
        Input("requests of Guaranteed pods", str(case.guaranteed), "pod sums"),
        Input("requests of Burstable pods", str(case.burstable), "pod sums"),
    )
    arithmetic = f"{case.guaranteed} + {case.burstable} = {total}"
    source = ", QoS level; kubelet setMemoryQoS"
    return {Knob.MEMORY_MIN: amount_ruling(case.kubelet, total, rule, source, *inputs, arithmetic=arithmetic)}


def reserved(case: ReservedCase) -> Rulings:
    """memory.min of a reserved cgroup."""
    minimum = reserved_minimum(case, ", node level; kubelet enforceExistingCgroup")
    return {Knob.MEMORY_MIN: minimum} if minimum else {}


REVISION = Revision(container=container, pod=pod, burstable=burstable, kubepods=kubepods, reserved=reserved)
