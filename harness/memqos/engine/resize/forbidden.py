"""What the API server refuses of a resize: changes that never reach the kubelet.

Source: kube-apiserver `validation.ValidatePodResize` (1.32 and later, subresource resize), `ValidatePodUpdate` before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import pod_level_set
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import STAGES, Gate, Novelty
from memqos.model.pod import Container, ContainerKind, Pod, ResizePolicy, ResourceList, Resources

__all__ = ["RESIZABLE", "is_resizable", "objection"]

RESIZABLE = ("cpu", "memory")
"""The resources that a resize may change."""


def objection(old: Pod, new: Pod, kubelet: Kubelet) -> str:
    """The API server's first objection to a change from `old` to `new`, in its words; "" if it has none."""
    if stage(Gate.RESIZE, kubelet.release) is None:
        first = Release(STAGES[Gate.RESIZE][0].since)
        return f"pod updates may not change resources in {kubelet.release}: in-place resize begins with {first}"
    return next(_objections(old, new, kubelet), "")


def is_resizable(container: Container, kubelet: Kubelet) -> bool:
    """Whether containers of this kind can be resized: app containers, sidecars from 1.33, init containers from 1.36."""
    match container.kind:
        case ContainerKind.APP:
            return True
        case ContainerKind.SIDECAR:
            return kubelet.release.has(Novelty.RESIZE_SIDECARS)
        case ContainerKind.INIT:
            return enabled(Gate.RESIZE_INIT_CONTAINERS, kubelet.release, kubelet.settings.feature_gates)
        case _:
            return False


def _objections(old: Pod, new: Pod, kubelet: Kubelet) -> Iterator[str]:
    release = kubelet.release
    on = enabled(Gate.RESIZE, release, kubelet.settings.feature_gates)
    if not on and not release.has(Novelty.RESIZE_PAST_GATE):
        yield f"pod updates may not change resources while the gate {Gate.RESIZE} is off"
    yield from _pod_level(old, new, kubelet)
    if release.has(Novelty.RESIZE_SUBRESOURCE) and old.static:
        yield "static pods cannot be resized"
    yield from _order(old, new)
    if pod_qos(old, pod_level=kubelet.pod_level) is not pod_qos(new, pod_level=kubelet.pod_level):
        yield "Pod QOS Class may not change as a result of resizing"
    for was, now in zip(old.all_containers, new.all_containers, strict=False):
        yield from _container(was, now, kubelet)
    if _bare_pod(old) != _bare_pod(new):
        yield "only cpu and memory resources are mutable"


def _pod_level(old: Pod, new: Pod, kubelet: Kubelet) -> Iterator[str]:
    if not (pod_level_set(old) or pod_level_set(new)) or not kubelet.release.has(Novelty.RESIZE_SUBRESOURCE):
        return
    if not enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates):
        if stage(Gate.RESIZE_POD_LEVEL, kubelet.release):
            yield f"resize of pods with pod-level resources is forbidden while the gate {Gate.RESIZE_POD_LEVEL} is off"
        yield "pods with pod-level resources cannot be resized"
    if new.resources is None:
        yield "pod-level resources cannot be removed"
    was, now = (one.resources or Resources() for one in (old, new))
    if _removed(was.requests, now.requests):
        yield "pod-level resource requests cannot be removed"
    if _removed(was.limits, now.limits):
        yield "pod-level resource limits cannot be removed"
    if _others(was) != _others(now):
        yield "only cpu and memory resources are mutable at pod-level"


def _order(old: Pod, new: Pod) -> Iterator[str]:
    for field, was, now in (
        ("containers", old.containers, new.containers),
        ("initContainers", old.init_containers, new.init_containers),
    ):
        if len(was) != len(now):
            yield f"{field} may not be added or removed on resize"
        elif [one.name for one in was] != [one.name for one in now]:
            yield f"{field} may not be renamed or reordered on resize"


def _container(old: Container, new: Container, kubelet: Kubelet) -> Iterator[str]:
    if not is_resizable(old, kubelet) and replace(old, resize_policy={}) != replace(new, resize_policy={}):
        yield "resources for non-sidecar init containers are immutable"
    was, now = old.resources, new.resources
    if kubelet.release.has(Novelty.RESIZE_SUBRESOURCE):
        if _removed(was.requests, now.requests):
            yield "resource requests cannot be removed"
        if _removed(was.limits, now.limits):
            yield "resource limits cannot be removed"
    if kubelet.release.has(Novelty.RESIZE_LIMITS_KEPT) and not kubelet.release.has(Novelty.RESIZE_DECREASES):
        yield from _lowered(old, new)
    if _others(was) != _others(now) or _bare(old) != _bare(new):
        yield "only cpu and memory resources are mutable"
    if old.kind is ContainerKind.INIT and was != now and ResizePolicy.RESTART_CONTAINER in new.resize_policy.values():
        yield "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"


def _lowered(old: Container, new: Container) -> Iterator[str]:
    """1.33 alone: memory limits are lowered, and added, only where that restarts the container."""
    if new.resize_policy.get("memory") is ResizePolicy.RESTART_CONTAINER or "memory" not in new.resources.limits:
        return
    if "memory" not in old.resources.limits:
        yield "memory limits cannot be added unless resizePolicy is RestartContainer"
    elif new.resources.limits["memory"] < old.resources.limits["memory"]:
        yield "memory limits cannot be decreased unless resizePolicy is RestartContainer"


def _bare_pod(pod: Pod) -> Pod:
    return replace(pod, containers=(), init_containers=(), resources=None, uid="")


def _bare(container: Container) -> Container:
    return replace(container, resources=Resources(), resize_policy={})


def _removed(old: ResourceList, new: ResourceList) -> bool:
    return any(name not in new for name in old)


def _others(resources: Resources) -> tuple[ResourceList, ResourceList]:
    """What a resize must leave alone."""
    requests, limits = (
        {name: value for name, value in amounts.items() if name not in RESIZABLE}
        for amounts in (resources.requests, resources.limits)
    )
    return requests, limits
