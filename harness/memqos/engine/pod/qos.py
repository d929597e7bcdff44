"""The QoS class of a pod.

Source: kubelet `v1qos.ComputePodQOS`. Revisions: v1.22 (containers and init containers), v1.32 (pod-level lists
alone, with the gate PodLevelResources and `spec.resources` present).
"""

from __future__ import annotations

from collections.abc import Iterable

from memqos.model.pod import Pod, QosClass, ResourceList

__all__ = ["pod_qos"]

_COUNTED = ("cpu", "memory")


def _positive(lists: Iterable[ResourceList]) -> tuple[dict[str, int], bool]:
    """The sums of the cpu and memory entries above zero, in nanos, and whether every list has both.

    Nothing else makes a class.
    """
    total: dict[str, int] = {}
    every = True
    for amounts in lists:
        for name in _COUNTED:
            given = amounts.get(name)
            if given is not None and given.nanos > 0:
                total[name] = total.get(name, 0) + given.nanos
            else:
                every = False
    return total, every


def pod_qos(pod: Pod, *, pod_level: bool) -> QosClass:
    """The class of a pod; pod_level: whether the release and gates look at `spec.resources` (and then only there).

    Ephemeral containers never count. A request of zero counts as none, so explicit zeros with limits are Burstable.
    """
    if pod_level and pod.resources is not None:
        lists = [pod.resources]
    else:
        lists = [one.resources for one in pod.containers + pod.init_containers]
    requests, _ = _positive(one.requests for one in lists)
    limits, limited = _positive(one.limits for one in lists)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if limited and requests == limits else QosClass.BURSTABLE
