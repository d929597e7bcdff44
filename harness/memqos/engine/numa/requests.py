"""What the Memory Manager counts of a container's and of a pod's requests.

Source: kubelet `policy_static.go` (getContainerRequestedResources, getPodRequestedResources).
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.numa.policies import PodLevel, Policies
from memqos.engine.numa.zone_table import MEMORY
from memqos.engine.pod.hugepages import PREFIX
from memqos.engine.pod.sums import pod_level_set
from memqos.engine.releases.table import Novelty
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList
from memqos.model.quantity import ZERO

__all__ = ["Request", "container_request", "is_counted", "is_reusable", "managed_as_a_whole", "pod_request"]

Request = Mapping[str, int]
"""Memory type to bytes, in the order memory, then huge pages by name."""


def is_counted(resource: str) -> bool:
    """Whether a resource is a type of memory: memory or hugepages-<size>."""
    return resource == MEMORY or resource.startswith(PREFIX)


def managed_as_a_whole(pod: Pod, policies: Policies) -> bool:
    """Whether the pod has pod-level resources and the kubelet's managers go by them."""
    return policies.pod_level is PodLevel.MANAGED and pod_level_set(pod)


def is_reusable(pod: Pod, container: str, policies: Policies) -> bool:
    """Whether later containers may use this one's memory again: a regular init container, not a sidecar from 1.29 on.

    A kubelet that does not know sidecars takes one for a regular init container.
    """
    keeps = policies.sidecars and policies.release.has(Novelty.SIDECARS_KEEP_MEMORY)
    return any(
        one.name == container and not (keeps and one.kind is ContainerKind.SIDECAR) for one in pod.init_containers
    )


def container_request(container: Container, pod: Pod, policies: Policies) -> dict[str, int] | None:
    """Bytes of each memory type that a container requests; None if an amount is not whole, which the kubelet refuses.

    In a pod that is managed as a whole only a container with equal, non-zero requests and limits of cpu and memory
    counts; any other gets an empty request, which stands for the pod's shared part.
    """
    if managed_as_a_whole(pod, policies) and not _guaranteed(container):
        return {}
    return _whole(container.resources.requests)


def pod_request(pod: Pod, policies: Policies) -> dict[str, int] | None:
    """Bytes of each memory type that a pod needs at once; None if an amount is not whole.

    The larger of app containers plus sidecars, and of each init container plus the sidecars started before it; only
    the types that an app container requests. A pod that is managed as a whole states it in `spec.resources`.
    """
    if pod.resources is not None and managed_as_a_whole(pod, policies):
        stated = _whole(pod.resources.requests)
        return None if stated is None else {kind: size for kind, size in stated.items() if size > 0}
    init: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for one in pod.init_containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        for kind, size in request.items():
            if policies.sidecars and one.kind is ContainerKind.SIDECAR:
                sidecars[kind] = sidecars.get(kind, 0) + size
            else:
                init[kind] = max(init.get(kind, 0), sidecars.get(kind, 0) + size)
    total: dict[str, int] = {}
    for one in pod.containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        for kind, size in request.items():
            total[kind] = total.get(kind, 0) + size
    return _ordered({kind: max(size + sidecars.get(kind, 0), init.get(kind, 0)) for kind, size in total.items()})


def _guaranteed(container: Container) -> bool:
    requests, limits = container.resources.requests, container.resources.limits
    return all(not requests.get(name, ZERO).is_zero and requests[name] == limits.get(name) for name in ("cpu", MEMORY))


def _whole(requests: ResourceList) -> dict[str, int] | None:
    counted = {name: quantity for name, quantity in requests.items() if is_counted(name)}
    if not all(quantity.is_whole for quantity in counted.values()):
        return None
    return _ordered({name: quantity.value for name, quantity in counted.items()})


def _ordered(request: dict[str, int]) -> dict[str, int]:
    return dict(sorted(request.items(), key=lambda item: (item[0] != MEMORY, item[0])))
