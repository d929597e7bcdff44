"""The QoS class of a pod.

Source: kubelet `v1qos.ComputePodQOS`. Revisions: v1.22 (containers and init containers), v1.32 (pod-level lists
alone, with the gate PodLevelResources and `spec.resources` present).
"""

from __future__ import annotations

from collections.abc import Iterable

from memqos.model.pod import Pod, QosClass, ResourceList
from memqos.model.quantity import Quantity

__all__ = ["pod_qos"]

_COUNTED = ("cpu", "memory")


def _positive(amounts: ResourceList) -> dict[str, Quantity]:
    """The cpu and memory entries above zero; nothing else makes a class."""
    return {name: amounts[name] for name in _COUNTED if name in amounts and amounts[name].nanos > 0}


def _total(lists: Iterable[dict[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for one in lists:
        for name, value in one.items():
            total[name] = total[name] + value if name in total else value
    return total


def pod_qos(pod: Pod, *, pod_level: bool) -> QosClass:
    """The class of a pod; pod_level: whether the release and gates look at `spec.resources` (and then only there).

    Ephemeral containers never count. A request of zero counts as none, so explicit zeros with limits are Burstable.
    """
    if pod_level and pod.resources is not None:
        requests = _positive(pod.resources.requests)
        limits = _positive(pod.resources.limits)
        # A limits list that is missing leaves the pod a candidate; it then fails the comparison below.
        candidate = not pod.resources.limits or len(limits) == len(_COUNTED)
    else:
        counted = pod.containers + pod.init_containers
        all_limits = [_positive(one.resources.limits) for one in counted]
        requests = _total(_positive(one.resources.requests) for one in counted)
        limits = _total(all_limits)
        candidate = all(len(one) == len(_COUNTED) for one in all_limits)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if candidate and requests == limits else QosClass.BURSTABLE
