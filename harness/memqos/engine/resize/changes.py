"""What a resize changes of a pod's containers: which are updated, in which order, and which are made again.

Amounts are what the kubelet compares: memory in bytes, cpu in thousandths, 0 for what is not given. Source: kubelet
`computePodResizeAction`. The last applied amounts are the allocated ones: an earlier resize is done before the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.sums import amount
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Gate, Novelty
from memqos.engine.resize.allocation import RESIZABLE
from memqos.engine.resize.outcome import Activity
from memqos.model.pod import Container, ContainerKind, Pod, ResizePolicy, Resources
from memqos.model.quantity import Quantity

__all__ = ["Amounts", "Changes", "ContainerResize", "changes_of", "changes_pod_level", "comes_back", "resources_of"]

_ALL_RUN: Mapping[str, Activity] = {}
_LEAST_CPU_REQUEST, _LEAST_CPU_LIMIT = 2, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What a container requests and is limited to: memory in bytes, cpu in thousandths; 0 is nothing given."""

    memory_request: int = 0
    memory_limit: int = 0
    cpu_request: int = 0
    cpu_limit: int = 0

    def of(self, resource: str) -> tuple[int, int]:
        """(request, limit) of "memory" or "cpu"."""
        memory = resource == "memory"
        return (self.memory_request, self.memory_limit) if memory else (self.cpu_request, self.cpu_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResize:
    """A running container whose resources change. current, desired: before and after the whole resize."""

    container: Container
    current: Amounts
    desired: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """restarted: containers that are stopped first and started last; updated: resource to containers, in their order.

    started: containers that did not run and are made again after the resize. The kubelet passes over those that do not
    run: they bring about no write at the pod (kubernetes#138760). Those that stay ended are in none of these.

    The order of updates: what is lowered before what is raised, the one named last first among what is lowered.
    """

    restarted: tuple[ContainerResize, ...] = ()
    updated: Mapping[str, tuple[ContainerResize, ...]]
    started: tuple[ContainerResize, ...] = ()

    def touches(self, resource: str) -> bool:
        """Whether the pod's share of this resource is looked at again: a restart makes the kubelet look at both."""
        return bool(self.updated.get(resource) or self.restarted)


def changes_of(old: Pod, new: Pod, kubelet: Kubelet, activities: Mapping[str, Activity] = _ALL_RUN) -> Changes:
    """What changes from `old`, which runs, to `new`; init containers that are no sidecars have ended long ago.

    activities: by name, of the containers that do not run.
    """
    restarted: list[ContainerResize] = []
    started: list[ContainerResize] = []
    updated: dict[str, list[ContainerResize]] = {"memory": [], "cpu": []}
    for was, now in zip(old.init_containers + old.containers, new.init_containers + new.containers, strict=True):
        change = _change(was, now, old, new, kubelet)
        if change is None:
            continue
        activity = activities.get(now.name, Activity.RUNNING)
        if activity is not Activity.RUNNING:
            started += [change] if comes_back(activity, now, new) else []
            continue
        kinds = {resource: _kind(change, resource, kubelet) for resource in RESIZABLE}
        if any(kinds[one] and now.resize_policy.get(one) is ResizePolicy.RESTART_CONTAINER for one in RESIZABLE):
            restarted.append(change)
            continue
        for resource, direction in kinds.items():
            if direction > 0:
                updated[resource].append(change)
            elif direction < 0:
                updated[resource].insert(0, change)
    return Changes(
        restarted=tuple(restarted),
        updated={name: tuple(found) for name, found in updated.items()},
        started=tuple(started),
    )


def comes_back(activity: Activity, container: Container, pod: Pod) -> bool:
    """Whether a container that does not run is started again; a sidecar always is."""
    if container.kind is ContainerKind.SIDECAR or pod.restart_policy == "Always":
        return True
    return activity is Activity.CRASH_LOOPING and pod.restart_policy != "Never"


def changes_pod_level(old: Pod, new: Pod, kubelet: Kubelet) -> bool:
    """Whether pod-level resources change, and are resized in place (1.35 and later, behind a gate)."""
    on = enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates)
    return on and old.resources != new.resources


def resources_of(amounts: Amounts) -> Resources:
    """The resources that the kubelet makes an update's message from: every key is there, also the zeros."""
    return Resources(
        requests={
            "cpu": Quantity.parse(f"{amounts.cpu_request}m"),
            "memory": Quantity.of_bytes(amounts.memory_request),
        },
        limits={"cpu": Quantity.parse(f"{amounts.cpu_limit}m"), "memory": Quantity.of_bytes(amounts.memory_limit)},
    )


def _change(was: Container, now: Container, old: Pod, new: Pod, kubelet: Kubelet) -> ContainerResize | None:
    release = kubelet.release
    not_resized = {ContainerKind.INIT, *(() if release.has(Novelty.RESIZE_SIDECARS) else {ContainerKind.SIDECAR})}
    if was.kind in not_resized:
        return None
    if not release.has(Novelty.RESIZE_WITHOUT_LIMITS) and not now.resources.limits:
        return None
    current, desired = _amounts(was, old, kubelet), _amounts(now, new, kubelet)
    if release.has(Novelty.RESIZE_READS_BACK) and not release.has(Novelty.RESIZE_EXACT_AMOUNTS):
        desired = _as_effective(current, desired)
    return None if current == desired else ContainerResize(container=now, current=current, desired=desired)


def _amounts(container: Container, pod: Pod, kubelet: Kubelet) -> Amounts:
    requests, limits = container.resources.requests, dict(container.resources.limits)
    if enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates) and pod.resources is not None:
        for name in RESIZABLE:
            if amount(limits, name).is_zero and name in pod.resources.limits:
                limits[name] = pod.resources.limits[name]
    return Amounts(
        memory_request=amount(requests, "memory").value,
        memory_limit=amount(limits, "memory").value,
        cpu_request=amount(requests, "cpu").milli_value,
        cpu_limit=amount(limits, "cpu").milli_value,
    )


def _as_effective(current: Amounts, desired: Amounts) -> Amounts:
    """1.32 reads the amounts back from the runtime, and takes two that the kernel cannot tell apart for one."""
    if max(current.cpu_request, desired.cpu_request) <= _LEAST_CPU_REQUEST:
        desired = replace(desired, cpu_request=current.cpu_request)
    if max(current.cpu_limit, desired.cpu_limit) <= _LEAST_CPU_LIMIT:
        desired = replace(desired, cpu_limit=current.cpu_limit)
    return desired


def _kind(change: ContainerResize, resource: str, kubelet: Kubelet) -> int:
    """1 for a resource that is raised, -1 for one that is lowered, 0 for none; the limit decides before the request."""
    (old_request, old_limit), (new_request, new_limit) = change.current.of(resource), change.desired.of(resource)
    if old_limit != new_limit:
        return 1 if new_limit > old_limit else -1
    if resource == "memory" and not kubelet.release.has(Novelty.RESIZE_MEMORY_REQUESTS):
        return 0
    return (new_request > old_request) - (new_request < old_request)
