"""memory-qos, revision v1.36 (alpha 3): memoryReservationPolicy decides about protection; memory.high as in v1.27.

TieredReservation: Guaranteed pods and their containers get memory.min, Burstable ones memory.low, of their requests;
kubepods gets memory.min of both sums, burstable memory.low of its sum. None: zeros at the container, burstable and
kubepods levels, no write at the pod's. The pod's class decides, not whether a container's request equals its limit.
kubepods gets no memory.low, so burstable's has no effect under global reclaim (corrected in 1.37).
Source: KEP-2570 of 2026, kubelet 1.36 `generateLinuxContainerResources`, `ResourceConfigForPod`, `setMemoryQoS`.
"""

from __future__ import annotations

from memqos.engine.memory_qos.base import (
    ContainerCase,
    NodeCase,
    PodCase,
    Revision,
    amount_ruling,
    container_ruling,
)
from memqos.engine.memory_qos.v1_22 import reserved
from memqos.engine.memory_qos.v1_27 import container_high
from memqos.engine.plan import Input, Ruling, Rulings
from memqos.engine.releases.release import Variant
from memqos.model.knob import Bytes, Knob
from memqos.model.node import ReservationPolicy
from memqos.model.pod import QosClass

__all__ = ["REVISION", "burstable", "container_protection", "kubepods", "pod"]

_CONTAINER_SOURCE = " (2026), container level; kubelet 1.36 generateLinuxContainerResources"
_POD_SOURCE = " (2026), pod level; kubelet 1.36 cm.ResourceConfigForPod"
_QOS_SOURCE = " (2026), QoS level; kubelet 1.36 setMemoryQoS"
_FIELD = "memoryReservationPolicy"


def container(case: ContainerCase) -> Rulings:
    """memory.min, memory.low and memory.high of one container."""
    documented = case.kubelet.variant is Variant.DOCUMENTED
    return {**container_protection(case), Knob.MEMORY_HIGH: container_high(case, unlimited_too=documented)}


def container_protection(case: ContainerCase) -> dict[Knob, Ruling]:
    """memory.min and memory.low of one container: one is its request, or both are zero."""
    if case.kubelet.policy is not ReservationPolicy.TIERED:
        zero = container_ruling(case, Bytes(0), f"{_FIELD} None protects nothing: both are 0", _CONTAINER_SOURCE)
        return {Knob.MEMORY_MIN: zero, Knob.MEMORY_LOW: zero}
    if case.request == 0:
        rule = "a container without memory request is not protected: both are written as 0"
        zero = container_ruling(case, Bytes(0), rule, _CONTAINER_SOURCE)
        return {Knob.MEMORY_MIN: zero, Knob.MEMORY_LOW: zero}
    knob = _tier(case.qos)
    rule = f"TieredReservation protects a container of a {case.qos} pod with {knob}, up to its request"
    return {knob: container_ruling(case, Bytes(case.request), rule, _CONTAINER_SOURCE)}


def _tier(qos: QosClass) -> Knob:
    """The knob that protects a class: memory.min for Guaranteed, memory.low for the rest."""
    return Knob.MEMORY_MIN if qos is QosClass.GUARANTEED else Knob.MEMORY_LOW


def pod(case: PodCase) -> Rulings:
    """memory.min or memory.low of a pod that requests memory, with TieredReservation only."""
    if case.kubelet.policy is not ReservationPolicy.TIERED or case.request <= 0:
        return {}
    knob = _tier(case.qos)
    rule = f"TieredReservation protects a {case.qos} pod with {knob}, up to its memory request, overhead included"
    inputs = (_policy(case.kubelet.policy, case), Input("pod memory request", str(case.request), "pod sums"))
    return {knob: amount_ruling(case.kubelet, case.request, rule, _POD_SOURCE, *inputs)}


def _policy(policy: ReservationPolicy, case: PodCase | NodeCase) -> Input:
    return case.kubelet.setting(_FIELD, policy)


def burstable(case: NodeCase) -> Rulings:
    """memory.low of the burstable cgroup; zero is written too."""
    tiered = case.kubelet.policy is ReservationPolicy.TIERED
    count = case.burstable if tiered else 0
    rule = (
        "memory.low is the sum of the memory requests of all Burstable pods"
        if tiered
        else f"{_FIELD} None protects nothing: memory.low is written as 0"
    )
    inputs = (
        _policy(case.kubelet.policy, case),
        Input("requests of Burstable pods", str(case.burstable), "pod sums"),
    )
    return {Knob.MEMORY_LOW: amount_ruling(case.kubelet, count, rule, _QOS_SOURCE, *inputs)}


def kubepods(case: NodeCase) -> Rulings:
    """memory.min of kubepods; zero is written too."""
    tiered = case.kubelet.policy is ReservationPolicy.TIERED
    count = case.guaranteed + case.burstable if tiered else 0
    rule = (
        "memory.min is the sum of the memory requests of all Guaranteed and Burstable pods"
        if tiered
        else f"{_FIELD} None protects nothing: memory.min is written as 0"
    )
    inputs = (
        _policy(case.kubelet.policy, case),
        Input("requests of Guaranteed pods", str(case.guaranteed), "pod sums"),
        Input("requests of Burstable pods", str(case.burstable), "pod sums"),
    )
    arithmetic = f"{case.guaranteed} + {case.burstable} = {count}" if tiered else ""
    return {Knob.MEMORY_MIN: amount_ruling(case.kubelet, count, rule, _QOS_SOURCE, *inputs, arithmetic=arithmetic)}


REVISION = Revision(container=container, pod=pod, burstable=burstable, kubepods=kubepods, reserved=reserved)
