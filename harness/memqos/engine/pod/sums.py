"""The sums of a pod: requests and limits over its containers, pod-level values, overhead; its huge pages.

Sources: component-helpers `resource.PodRequests`, `resource.PodLimits`, `resource.AggregateContainerRequests`;
before 1.27 the kubelet's own `PodRequestsAndLimits`. For huge pages: kubelet `GetHugepageLimitsFromResources`,
`cm.HugePageLimits`, `cgroupManagerImpl.toResources`.

Revisions: v1.22 (an init container counts alone), v1.28 (sidecars add up, with the gate SidecarContainers), v1.32
(pod-level values override, with the gate PodLevelResources).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from memqos.engine.releases.release import Release
from memqos.engine.releases.table import Novelty
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList, Resources
from memqos.model.quantity import ZERO, Quantity, QuantityError

__all__ = [
    "PREFIX",
    "UNBOUNDED",
    "LimitsDeclared",
    "PodSums",
    "aggregate",
    "amount",
    "container_limits",
    "cri_name",
    "limits_by_size",
    "limits_declared",
    "page_size_of",
    "pod_level_limits_set",
    "pod_level_requests_set",
    "pod_level_set",
    "pod_limits",
    "pod_requests",
    "pod_sums",
    "supported_at_pod_level",
]

PREFIX = "hugepages-"

UNBOUNDED = 1 << 62
"""The kubelet's value for a level without a limit of huge pages."""


@lru_cache(maxsize=256)
def page_size_of(resource: str) -> int | None:
    """Bytes of one page of a resource like "hugepages-2Mi"; None for any other resource."""
    if not resource.startswith(PREFIX):
        return None
    try:
        size = Quantity.parse(resource.removeprefix(PREFIX)).value
    except QuantityError:
        return None
    return size if size > 0 else None


@cache
def cri_name(page_size: int) -> str:
    """A page size as CRI and the kernel's file names spell it: 2MB, 1GB (in steps of 1024)."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if page_size % size == 0:
            return f"{page_size // size}{unit}"
    return f"{page_size}B"


def limits_by_size(amounts: ResourceList) -> dict[int, int]:
    """Page size in bytes to bytes allowed, of the huge page resources in a list; spellings of one size add up."""
    found: dict[int, int] = {}
    for name, amount in amounts.items():
        size = page_size_of(name)
        if size is not None:
            found[size] = found.get(size, 0) + amount.value
    return found


def container_limits(
    node_sizes: Iterable[int], pod_limits: ResourceList | None, own: ResourceList
) -> tuple[tuple[str, int], ...]:
    """CRI hugepage_limits of one container: every page size of the node, 0 for a size without a limit.

    pod_limits: pod-level limits in releases that use them as the base, else None; the container's own
    limit for the same size wins. Sizes that the node does not have are left out.
    """
    given = limits_by_size(pod_limits) if pod_limits is not None else {}
    given |= limits_by_size(own)
    return tuple([(cri_name(size), given.get(size, 0)) for size in node_sizes])


_Pick = Callable[[Resources], ResourceList]
_Totals = dict[str, Quantity]


def _requests(resources: Resources) -> ResourceList:
    return resources.requests


def _limits(resources: Resources) -> ResourceList:
    return resources.limits


def amount(resources: ResourceList, name: str) -> Quantity:
    """The amount of one resource; zero if it was not given."""
    return resources.get(name, ZERO)


def supported_at_pod_level(name: str) -> bool:
    """Whether `spec.resources` may hold this resource: cpu, memory, huge pages."""
    return name in {"cpu", "memory"} or name.startswith(PREFIX)


def pod_level_requests_set(pod: Pod) -> bool:
    """Whether `spec.resources.requests` holds a supported resource."""
    return pod.resources is not None and any(supported_at_pod_level(name) for name in pod.resources.requests)


def pod_level_limits_set(pod: Pod) -> bool:
    """Whether `spec.resources.limits` holds a supported resource."""
    return pod.resources is not None and any(supported_at_pod_level(name) for name in pod.resources.limits)


def pod_level_set(pod: Pod) -> bool:
    """Whether there is any pod-level resource."""
    return pod.resources is not None and (pod_level_requests_set(pod) or pod_level_limits_set(pod))


def _added(total: ResourceList, more: ResourceList) -> _Totals:
    result = dict(total)
    _add(result, more)
    return result


def _add(total: _Totals, more: ResourceList) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _larger(one: ResourceList, other: ResourceList) -> _Totals:
    result = dict(one)
    for name, quantity in other.items():
        if name not in result or result[name] < quantity:
            result[name] = quantity
    return result


def _init_steps(pod: Pod, pick: _Pick) -> Iterator[tuple[Container, ResourceList]]:
    """Each init container and sidecar in order, with the list that counts for it.

    For a sidecar the sum of all sidecars so far, for an init container that sum plus its own.
    """
    sidecars: ResourceList = {}
    for one in pod.init_containers:
        own = pick(one.resources)
        if one.kind is ContainerKind.SIDECAR:
            sidecars = _added(sidecars, own)
            yield one, sidecars
        else:
            yield one, _added(own, sidecars)


def aggregate(pod: Pod, *, limits: bool = False) -> dict[str, Quantity]:
    """The sum over containers, without pod-level values and without overhead."""
    pick = _limits if limits else _requests
    total: _Totals = {}
    for one in pod.containers:
        _add(total, pick(one.resources))
    most: _Totals = {}
    for one, counted in _init_steps(pod, pick):
        if one.kind is ContainerKind.SIDECAR:
            _add(total, pick(one.resources))
        most = _larger(most, counted)
    return _larger(total, most) if most else total


def pod_requests(pod: Pod, *, pod_level: bool, overhead: bool = True) -> ResourceList:
    """The pod's requests. pod_level: whether `spec.resources` overrides the sum; overhead: whether it is added."""
    total = aggregate(pod)
    if pod_level and pod.resources is not None:
        total |= {name: value for name, value in pod.resources.requests.items() if supported_at_pod_level(name)}
    return _requests_with_overhead(pod, total) if overhead else total


def pod_limits(pod: Pod, *, pod_level: bool, overhead: bool = True) -> ResourceList:
    """The pod's limits; overhead is added only to a limit that exists and is not zero."""
    total = aggregate(pod, limits=True)
    if pod_level and pod.resources is not None:
        total |= {name: value for name, value in pod.resources.limits.items() if supported_at_pod_level(name)}
    return _limits_with_overhead(pod, total) if overhead else total


def _requests_with_overhead(pod: Pod, total: ResourceList) -> ResourceList:
    return _added(total, pod.overhead) if pod.overhead else total


def _limits_with_overhead(pod: Pod, total: ResourceList) -> ResourceList:
    extra = {name: more for name, more in pod.overhead.items() if name in total and not total[name].is_zero}
    return _added(total, extra) if extra else total


@dataclass(frozen=True, slots=True)
class PodSums:
    """A pod's requests and limits: with overhead, and as the sum over its containers."""

    requests: ResourceList
    limits: ResourceList
    containers_requests: ResourceList
    containers_limits: ResourceList


def pod_sums(pod: Pod, *, pod_level: bool) -> PodSums:
    """All four sums of a pod; pod_level: whether `spec.resources` overrides those of the containers."""
    requests = pod_requests(pod, pod_level=pod_level, overhead=False)
    limits = pod_limits(pod, pod_level=pod_level, overhead=False)
    return PodSums(_requests_with_overhead(pod, requests), _limits_with_overhead(pod, limits), requests, limits)


@dataclass(frozen=True, slots=True)
class LimitsDeclared:
    """Whether the whole pod counts as limited, per resource; `missing` names the unlimited container."""

    cpu: bool
    memory: bool
    missing: Mapping[str, str]


def limits_declared(pod: Pod, release: Release, *, pod_level: bool) -> LimitsDeclared:
    """Whether every container declares a non-zero limit, by the rule of this release.

    1.22 checks app containers only. 1.23 to 1.26 check each init container too. From 1.27 on an init container counts
    together with the sidecars before it (1.28), so that a container without a limit after a limited sidecar counts as
    limited. With pod-level resources (1.32) a non-zero pod-level limit is enough. Source: kubelet
    `cm.ResourceConfigForPod`.
    """
    counted = [(one, one.resources.limits) for one in pod.containers]
    if release.has(Novelty.LIMITS_ADD_UP):
        counted += _init_steps(pod, _limits)
    elif release.has(Novelty.INIT_LIMITS_COUNT):
        counted += [(one, one.resources.limits) for one in pod.init_containers]
    missing: dict[str, str] = {}
    for one, limits in counted:
        for name in ("cpu", "memory"):
            if amount(limits, name).is_zero:
                missing.setdefault(name, one.name)
    if pod_level and pod.resources is not None:
        for name in ("cpu", "memory"):
            if not amount(pod.resources.limits, name).is_zero:
                missing.pop(name, None)
    return LimitsDeclared(cpu="cpu" not in missing, memory="memory" not in missing, missing=missing)
