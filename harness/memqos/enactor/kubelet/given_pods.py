"""The pods that a kubelet was given: those that it has not started yet, and those that go on under its next order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod, Order
from memqos.enactor.kubelet.pod_status import Json, container_statuses
from memqos.engine.plan import PlannedPod
from memqos.errors import EnactorNotAbleError
from memqos.model.pod import ContainerKind

__all__ = ["Starting", "goes_on", "note_updates", "require_room"]


@dataclass(slots=True)
class Starting:
    """A pod that the kubelet has and has not started yet. until: when it has failed. seen: whether its cgroup was."""

    admitted: AdmittedPod
    until: Deadline
    seen: bool = False


def require_room(pods: Sequence[AdmittedPod]) -> None:
    """Raise EnactorNotAbleError if the kubelet rejected the pod for lack of resources (reason OutOfcpu, …)."""
    for one in pods:
        if one.failure is not None and str(one.failure.data.get("reason", "")).startswith("OutOf"):
            raise EnactorNotAbleError(
                one.failure.what, where=one.failure.where, next_step="Give a topology with more CPUs or memory."
            )


def goes_on(admitted: AdmittedPod, order: Order, item: Json) -> bool:
    """Whether the order wants this pod as it runs: the same object, cgroup and requests, and no container has ended.

    item: the pod's API object.
    """
    uid = admitted.planned.uid
    planned = next((one for one in order.plan.pods if one.uid == uid), None)
    wanted = next((one for one in order.steering.pods(order.pods) if one.uid == uid), None)
    if planned is None or wanted is None or admitted.failure is not None:
        return False
    if (admitted.pod, dict(admitted.mounts)) != (wanted, dict(order.steering.mounts(wanted))):
        return False
    is_updated = any(len(one) > 1 for one in admitted.requested.values())
    return not is_updated and _asks(admitted.planned) == _asks(planned) and _all_run(admitted, item)


def _asks(planned: PlannedPod) -> object:
    """What the kubelet makes of the pod: where, and with which requests to the runtime."""
    return planned.cgroup.path, [(one.name, one.resources) for one in planned.containers]


def _all_run(admitted: AdmittedPod, item: Json) -> bool:
    running = {
        one["name"] for one in container_statuses(item.get("status") or {}) if "running" in (one.get("state") or {})
    }
    kinds = {ContainerKind.INIT, ContainerKind.EPHEMERAL}
    return {one.name for one in admitted.pod.all_containers if one.kind not in kinds} <= running


def note_updates(admitted: AdmittedPod, planned: PlannedPod) -> None:
    """Record the requests that a kubelet sends for running containers when it takes over."""
    for one in planned.containers:
        if one.name in admitted.requested and admitted.requested[one.name][-1] != one.resources:
            admitted.requested[one.name] = (*admitted.requested[one.name], one.resources)
