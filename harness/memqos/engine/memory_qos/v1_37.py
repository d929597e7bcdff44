"""memory-qos, revision v1.37 (beta, on by default), and its behaviour with the gate off.

Differences to v1.36: the throttling factor has no default, and without one no memory.high is written; a container
without request and limit gets memory.high like any other; kubepods gets memory.low, the Burstable sum; a pod with a
pod-level memory limit gets memory.high, by the container's formula over request and limit with overhead. With the gate
off, leftovers of an earlier configuration are reset: memory.high "max" for containers, zeros for memory.min and
memory.low of kubepods and memory.low of burstable.
Source: KEP-2570 of 2026-06; kubernetes pull requests 138139, 138903, 139377, 140007, 140262, 140267. Only the
assertions of `ApplyPodLevelMemoryHigh` were seen, not its body: the pod-level value is derived from them.
"""

from __future__ import annotations

from memqos.engine.memory_qos import v1_27, v1_36
from memqos.engine.memory_qos.base import (
    ContainerCase,
    NodeCase,
    PodCase,
    Revision,
    amount_ruling,
    nothing,
)
from memqos.engine.memory_qos.v1_22 import reserved
from memqos.engine.plan import Input, Ruling, Rulings
from memqos.engine.pod.sums import amount
from memqos.model.knob import MAX, Knob
from memqos.model.node import ReservationPolicy

__all__ = ["OFF", "REVISION"]

_OFF_SOURCE = ", disabling; kubernetes pull requests 138903 and 139377"


def container(case: ContainerCase) -> Rulings:
    """memory.min, memory.low and memory.high of one container."""
    return {**v1_36.container_protection(case), Knob.MEMORY_HIGH: v1_27.container_high(case, unlimited_too=True)}


def pod(case: PodCase) -> Rulings:
    """memory.min or memory.low as in v1.36; memory.high for a pod-level memory limit."""
    return {**v1_36.pod(case), **_pod_high(case)}


def _pod_high(case: PodCase) -> dict[Knob, Ruling]:
    kubelet, own = case.kubelet, case.pod.resources
    limited = kubelet.pod_level and own is not None and not amount(own.limits, "memory").is_zero
    if kubelet.factor is None or not limited or case.request == case.limit:
        return {}
    page = kubelet.node.page_size
    high = v1_27.memory_high(case.request, case.limit, kubelet.factor, page)
    if high == 0 or high <= case.request:
        return {}
    rule = "memory.high is the pod's request plus the throttling factor's share of the distance to its pod-level limit"
    inputs = (
        Input("pod memory request", str(case.request), "pod sums"),
        Input("pod memory limit", str(case.limit), "pod sums"),
        kubelet.setting("memoryThrottlingFactor", kubelet.factor_text),
    )
    arithmetic = (
        f"{case.request} + ({case.limit} - {case.request}) * {kubelet.factor_text}, floor / {page} * {page} = {high}"
    )
    source = ", pod level; kubelet 1.37 ApplyPodLevelMemoryHigh"
    return {Knob.MEMORY_HIGH: amount_ruling(kubelet, high, rule, source, *inputs, arithmetic=arithmetic)}


def kubepods(case: NodeCase) -> Rulings:
    """memory.min as in v1.36, and memory.low, so that burstable's takes effect."""
    tiered = case.kubelet.policy is ReservationPolicy.TIERED
    rule = (
        "memory.low is the sum of the memory requests of all Burstable pods, so that burstable's takes effect"
        if tiered
        else "memoryReservationPolicy None protects nothing: memory.low is written as 0"
    )
    inputs = (Input("requests of Burstable pods", str(case.burstable), "pod sums"),)
    source = ", QoS level; kubernetes pull request 140267"
    low = amount_ruling(case.kubelet, case.burstable if tiered else 0, rule, source, *inputs)
    return {**v1_36.kubepods(case), Knob.MEMORY_LOW: low}


def _off_container(case: ContainerCase) -> Rulings:
    rule = "with the gate MemoryQoS off memory.high is sent as max, which clears the earlier value"
    return {Knob.MEMORY_HIGH: amount_ruling(case.kubelet, MAX, rule, _OFF_SOURCE)}


def _off_burstable(case: NodeCase) -> Rulings:
    rule = "with the gate MemoryQoS off memory.low is reset when the QoS cgroups are started"
    return {Knob.MEMORY_LOW: amount_ruling(case.kubelet, 0, rule, _OFF_SOURCE)}


def _off_kubepods(case: NodeCase) -> Rulings:
    rule = "with the gate MemoryQoS off protection is reset when node allocatable is enforced"
    zero = amount_ruling(case.kubelet, 0, rule, _OFF_SOURCE)
    return {Knob.MEMORY_MIN: zero, Knob.MEMORY_LOW: zero}


REVISION = Revision(container=container, pod=pod, burstable=v1_36.burstable, kubepods=kubepods, reserved=reserved)
OFF = Revision(
    container=_off_container, pod=nothing, burstable=_off_burstable, kubepods=_off_kubepods, reserved=nothing
)
