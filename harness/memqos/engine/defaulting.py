"""A pod as the kubelet of a release sees it: after API defaulting, without what that release does not know.

Everything here is idempotent: a pod that went through an API server stays as it is.
Source: apis/core/v1 `SetDefaults_Pod`, `SetDefaults_ResourceList`, `defaultHugePagePodLimits`, `defaultPodRequests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.sums import aggregate, supported_at_pod_level
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList, Resources
from memqos.model.quantity import Quantity

__all__ = ["container_defaults", "seen_by"]

_POD_LEVEL_SINCE = 32
_POD_LEVEL_HUGEPAGES_SINCE = 34
_OVERCOMMITTABLE = ("cpu", "memory")


def seen_by(pod: Pod, kubelet: Kubelet) -> Pod:
    """The pod after defaulting.

    Where the release does not know them, a sidecar is a plain init container and pod-level resources are gone.
    """
    init = tuple(container_defaults(_known_kind(one, kubelet)) for one in pod.init_containers)
    apps = tuple(container_defaults(one) for one in pod.containers)
    own = pod.resources if kubelet.release.since(_POD_LEVEL_SINCE) else None
    overhead = _whole_millis(pod.overhead)
    unchanged = own is pod.resources and overhead is pod.overhead and init == pod.init_containers
    if not (unchanged and apps == pod.containers):
        pod = replace(pod, init_containers=init, containers=apps, resources=own, overhead=overhead)
    if kubelet.pod_level and pod.resources is not None:
        pod = replace(pod, resources=_pod_level(pod, pod.resources, kubelet))
    return pod


def _known_kind(container: Container, kubelet: Kubelet) -> Container:
    if container.kind is ContainerKind.SIDECAR and not kubelet.sidecars:
        return replace(container, kind=ContainerKind.INIT)
    return container


def container_defaults(container: Container) -> Container:
    """Quantities in whole millis, and a request for every limit that has none; an explicit zero request is kept."""
    requests = _whole_millis(container.resources.requests)
    limits = _whole_millis(container.resources.limits)
    absent = {name: value for name, value in limits.items() if name not in requests}
    if not absent and requests is container.resources.requests and limits is container.resources.limits:
        return container
    origin = dict(container.origin)
    for name in absent:
        if f"limits.{name}" in origin:
            origin[f"requests.{name}"] = f"{origin[f'limits.{name}']}, from the limit"
    return replace(container, resources=Resources(requests={**requests, **absent}, limits=limits), origin=origin)


def _whole_millis(amounts: ResourceList) -> ResourceList:
    if all(value.is_whole_millis for value in amounts.values()):
        return amounts
    return {name: value.defaulted() for name, value in amounts.items()}


def _pod_level(pod: Pod, own: Resources, kubelet: Kubelet) -> Resources:
    """Pod-level requests and limits, filled up from the containers and from each other."""
    requests: Mapping[str, Quantity] = _whole_millis(own.requests)
    limits: Mapping[str, Quantity] = _whole_millis(own.limits)
    if kubelet.release.since(_POD_LEVEL_HUGEPAGES_SINCE) and (requests or limits):
        filled = {
            name: value
            for name, value in aggregate(pod, limits=True).items()
            if name.startswith("hugepages-") and name not in limits and name not in requests
        }
        limits = {**limits, **filled}
    if limits:
        asked = aggregate(pod)
        filled = {name: asked[name] for name in _OVERCOMMITTABLE if name in asked and name not in requests}
        requests = {**requests, **filled}
        rest = {name: limits[name] for name in limits if name not in requests and supported_at_pod_level(name)}
        requests = {**requests, **rest}
    return Resources(requests=requests, limits=limits)
