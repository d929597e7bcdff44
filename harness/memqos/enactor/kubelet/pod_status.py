"""A kubelet's pods: their status as it reports it, those not started yet, and those that go on under the next order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod, Order
from memqos.engine.plan import PlannedPod
from memqos.errors import EnactorNotAbleError, MachineryError
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from memqos.runtime.base import SandboxHandle, SandboxSpec

__all__ = [
    "Json",
    "Starting",
    "container_ids",
    "container_statuses",
    "goes_on",
    "is_resized",
    "is_settled",
    "never_ran",
    "note_updates",
    "rejection",
    "require_room",
    "resize_pending",
    "sandbox_of",
    "start_failure",
]


Json = dict[str, Any]

_LOGS = "/var/log/pods"
"""Where a kubelet has the runtime log (KubeletConfiguration podLogsDir)."""

_NEVER_RAN = frozenset({"ContainerCannotRun", "StartError"})
"""Reasons of containers that ended without having run: ContainerCannotRun of the kubelet, StartError of containerd."""


def container_statuses(status: Json) -> list[Json]:
    """The statuses of init and app containers, in this order."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def container_ids(status: Json) -> dict[str, str]:
    """The id of each existing container by name, without the runtime's scheme."""
    return {
        one["name"]: one["containerID"].rpartition("://")[2]
        for one in container_statuses(status)
        if one.get("containerID")
    }


def is_settled(admitted: AdmittedPod, item: Json) -> bool:
    """Whether every container has started or the pod has failed."""
    status = item.get("status") or {}
    if status.get("phase") == "Failed" and not container_ids(status):
        return True
    wanted = {one.name for one in admitted.pod.all_containers if one.kind is not ContainerKind.EPHEMERAL}
    started = {
        one["name"]
        for one in container_statuses(status)
        if one.get("containerID") and not (one.get("state") or {}).get("waiting")
    }
    return wanted <= started


def rejection(admitted: AdmittedPod, status: Json) -> MachineryError:
    """The error of a pod that the kubelet does not admit, with its reason."""
    return MachineryError(
        f"the kubelet does not admit the pod: {status.get('reason', '')}: {status.get('message', '')}",
        where=f"pod {admitted.planned.namespace}/{admitted.planned.name}",
        data={"reason": status.get("reason", "")},
    )


def sandbox_of(planned: PlannedPod, sandbox_id: str, *, handler: str) -> SandboxHandle:
    """The sandbox that the kubelet has requested for this pod from the runtime's handler."""
    spec = SandboxSpec(
        name=planned.name,
        namespace=planned.namespace,
        uid=planned.uid,
        cgroup_parent=str(planned.cgroup.path),
        log_directory=f"{_LOGS}/{planned.namespace}_{planned.name}_{planned.uid}",
        handler=handler,
        resources=planned.sandbox_resources,
        overhead=planned.sandbox_overhead,
    )
    return SandboxHandle(id=sandbox_id, spec=spec)


def never_ran(admitted: AdmittedPod, status: Json) -> MachineryError | None:
    """The error of the first container that the runtime could not start; None if all were started."""
    for one in container_statuses(status):
        ended = (one.get("state") or {}).get("terminated") or {}
        if ended.get("reason") in _NEVER_RAN:
            return MachineryError(
                f"the container '{one['name']}' could not be started: {ended.get('message') or ended['reason']}",
                where=f"pod {admitted.planned.namespace}/{admitted.planned.name}",
                data={"reason": ended["reason"]},
            )
    return None


def start_failure(admitted: AdmittedPod, item: Json, error: MachineryError) -> MachineryError:
    """Why a pod does not start, from its containers' waiting reasons."""
    reasons = [
        f"{one['name']}: {waiting.get('reason', '')} {waiting.get('message', '')}".strip()
        for one in container_statuses(item.get("status") or {})
        if (waiting := (one.get("state") or {}).get("waiting"))
    ]
    what = f"{error.what} {'; '.join(reasons)}" if reasons else error.what
    return MachineryError(what, where=f"pod {admitted.planned.namespace}/{admitted.planned.name}", data=error.data)


def _conditions(status: Json) -> dict[str, Json]:
    return {one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"}


def resize_pending(item: Json, status: Json) -> str | None:
    """Reason and message of the condition PodResizePending; None without it, and for one about an earlier spec.

    Its observedGeneration exists since 1.34.
    """
    pending = _conditions(status).get("PodResizePending")
    generation = item["metadata"].get("generation", 1)
    if pending is None or int(pending.get("observedGeneration", generation)) < int(generation):
        return None
    return f"{pending.get('reason', '')}: {pending.get('message', '')}"


def is_resized(item: Json, status: Json) -> bool:
    """Whether the status reports the spec's memory in all running containers, and no resize in progress.

    observedGeneration exists since 1.34; before, only the amounts show it. CPU is ignored: the kubelet computes the
    reported amount from cpu.shares, which round.
    """
    observed = status.get("observedGeneration")
    if observed is not None and int(observed) < int(item["metadata"].get("generation", 1)):
        return False
    told = {one["name"]: one.get("resources") or {} for one in container_statuses(status)}
    sidecars = [one for one in item["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return "PodResizeInProgress" not in _conditions(status) and all(
        _memory(one["resources"], part) == _memory(told.get(one["name"], {}), part)
        for one in [*item["spec"]["containers"], *sidecars]
        for part in ("requests", "limits")
    )


def _memory(resources: Json, part: str) -> Quantity | None:
    """The memory among a container's requests or limits; None if there is none."""
    text = (resources.get(part) or {}).get("memory")
    return None if text is None else Quantity.parse(text)


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
