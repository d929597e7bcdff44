"""A pod as the kubelet of a release sees it: after API defaulting, without fields unknown to the release.

Defaulting is idempotent: a pod from an API server does not change.
Source: apis/core/v1 `SetDefaults_Pod`, `SetDefaults_ResourceList`, `defaultHugePagePodLimits`, `defaultPodRequests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.sums import PREFIX, aggregate, supported_at_pod_level
from memqos.engine.releases.table import Novelty
from memqos.engine.swap import SWAP, check_swap
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList, Resources
from memqos.model.quantity import Quantity

__all__ = ["in_whole_millis", "seen_by", "with_requests"]

_OVERCOMMITTABLE = ("cpu", "memory")


def seen_by(pod: Pod, kubelet: Kubelet) -> Pod:
    """The pod after defaulting.

    In a release without them, a sidecar becomes a plain init container and pod-level resources are dropped.
    """
    check_swap(pod, kubelet)
    init = tuple(with_requests(_known_kind(one, kubelet)) for one in pod.init_containers)
    apps = tuple(with_requests(one) for one in pod.containers)
    own = pod.resources if kubelet.release.has(Novelty.POD_RESOURCES_KNOWN) else None
    if kubelet.pod_level and own is not None:
        # Containers' amounts are summed as written: quantities are rounded to whole millis after defaulting.
        own = _pod_level(replace(pod, init_containers=init, containers=apps), own, kubelet)
    if own is not pod.resources or init != pod.init_containers or apps != pod.containers:
        pod = replace(pod, init_containers=init, containers=apps, resources=own)
    return in_whole_millis(pod)


def _known_kind(container: Container, kubelet: Kubelet) -> Container:
    if container.kind is ContainerKind.SIDECAR and not kubelet.sidecars:
        return replace(container, kind=ContainerKind.INIT)
    return container


def with_requests(container: Container) -> Container:
    """A request for every limit that has none; an explicit zero request is kept."""
    requests, limits = container.resources.requests, container.resources.limits
    if requests.keys() >= limits.keys():
        return container
    absent = {name: value for name, value in limits.items() if name not in requests and name != SWAP}
    origin = dict(container.origin)
    for name in absent:
        if f"limits.{name}" in origin:
            origin[f"requests.{name}"] = f"{origin[f'limits.{name}']}, from the limit"
    return replace(container, resources=Resources(requests={**requests, **absent}, limits=limits), origin=origin)


def in_whole_millis(pod: Pod) -> Pod:
    """Every quantity of the pod rounded up to whole milli units, which is what the API server validates and stores."""
    init = tuple(_rounded(one) for one in pod.init_containers)
    apps = tuple(_rounded(one) for one in pod.containers)
    own = pod.resources and _rounded_lists(pod.resources)
    overhead = _whole_millis(pod.overhead)
    unchanged = own is pod.resources and overhead is pod.overhead and init == pod.init_containers
    if unchanged and apps == pod.containers:
        return pod
    return replace(pod, init_containers=init, containers=apps, resources=own, overhead=overhead)


def _rounded(container: Container) -> Container:
    resources = _rounded_lists(container.resources)
    return container if resources is container.resources else replace(container, resources=resources)


def _rounded_lists(given: Resources) -> Resources:
    requests, limits = _whole_millis(given.requests), _whole_millis(given.limits)
    if requests is given.requests and limits is given.limits:
        return given
    return Resources(requests=requests, limits=limits)


def _whole_millis(amounts: ResourceList) -> ResourceList:
    for value in amounts.values():
        if not value.is_whole_millis:
            return {name: value.defaulted() for name, value in amounts.items()}
    return amounts


def _pod_level(pod: Pod, own: Resources, kubelet: Kubelet) -> Resources:
    """Pod-level requests and limits, defaulted from the containers and from each other."""
    requests: Mapping[str, Quantity] = own.requests
    limits: Mapping[str, Quantity] = own.limits
    if kubelet.release.has(Novelty.POD_LEVEL_HUGE_PAGES) and (requests or limits):
        # 1.33 sets the limit next to a given request; later releases do not change such a size.
        given = {*limits, *requests} if kubelet.release.has(Novelty.HUGE_PAGE_REQUEST_SUFFICES) else {*limits}
        filled = {
            name: value
            for name, value in aggregate(pod, limits=True).items()
            if name.startswith(PREFIX) and name not in given
        }
        limits = {**limits, **filled}
    if limits:
        asked = aggregate(pod)
        filled = {name: asked[name] for name in _OVERCOMMITTABLE if name in asked and name not in requests}
        requests = {**requests, **filled}
        rest = {name: limits[name] for name in limits if name not in requests and supported_at_pod_level(name)}
        requests = {**requests, **rest}
    if not kubelet.release.has(Novelty.POD_LEVEL_HUGE_PAGES):
        # 1.32 has only cpu and memory there; it ignores huge pages like any other unknown name.
        requests, limits = (
            {name: value for name, value in amounts.items() if not name.startswith(PREFIX)}
            for amounts in (requests, limits)
        )
    return Resources(requests=requests, limits=limits)
