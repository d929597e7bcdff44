"""The documents that a kubelet under test gets: its KubeletConfiguration, and the API objects of pods.

The configuration has a case's settings, and defaults that tests need.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memqos.enactor.base import MemoryVolume
from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.qos import pod_qos
from memqos.engine.releases.defaulting import seen_by
from memqos.model.node import KubeletSettings
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import ResourceList
from memqos.runtime.base import Mount

__all__ = ["RUNTIME_CLASS", "configuration", "pod_manifest", "resized_manifest"]


_FOR_TESTS: Mapping[str, Any] = {
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "contentType": "application/json",
    "kubeAPIQPS": 200,
    "kubeAPIBurst": 400,
    "eventRecordQPS": 0,
    "registryPullQPS": 0,
    "maxPods": 500,
    "resolvConf": "",
    # Keep the machine's images, and evict no pod because of the disk.
    "imageGCHighThresholdPercent": 100,
    "imageMinimumGCAge": "24h",
}
"""Settings for a kubelet without a cluster. None of them affects a cgroup."""

_NO_DISK_THRESHOLDS = {
    "nodefs.available": "0%",
    "nodefs.inodesFree": "0%",
    "imagefs.available": "0%",
    "imagefs.inodesFree": "0%",
}
_DEFAULT_MEMORY_THRESHOLD = {"memory.available": "100Mi"}
"""Source: kubelet `eviction.DefaultEvictionHard`; a configuration with its own thresholds replaces all of them."""


def configuration(kubelet: Kubelet) -> dict[str, Any]:
    """The document of kind KubeletConfiguration (v1beta1) for this kubelet.

    Thresholds of disks are off, so that a full machine evicts no pod; that of memory is the case's, else the default.
    failSwapOn is false unless the case sets it.
    """
    settings = kubelet.settings
    thresholds = _DEFAULT_MEMORY_THRESHOLD if settings.eviction_hard is None else settings.eviction_hard
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **_FOR_TESTS,
        "failSwapOn": False,
        **_given(settings),
        "cgroupDriver": str(kubelet.driver),
        "evictionHard": {**_NO_DISK_THRESHOLDS, **thresholds},
    }


def _given(settings: KubeletSettings) -> dict[str, Any]:
    """The fields that the case sets."""
    plain: dict[str, Any] = {
        "featureGates": dict(settings.feature_gates),
        "cgroupRoot": settings.cgroup_root,
        "cgroupsPerQOS": settings.cgroups_per_qos,
        "cpuCFSQuota": settings.cpu_cfs_quota,
        "cpuManagerPolicy": settings.cpu_manager_policy,
        "failCgroupV1": settings.fail_cgroup_v1,
        "failSwapOn": settings.fail_swap_on,
        "kubeReserved": _amounts(settings.kube_reserved),
        "kubeReservedCgroup": settings.kube_reserved_cgroup,
        "systemReserved": _amounts(settings.system_reserved),
        "systemReservedCgroup": settings.system_reserved_cgroup,
        "memoryManagerPolicy": settings.memory_manager_policy,
        "memoryReservationPolicy": settings.memory_reservation_policy,
        "podPidsLimit": settings.pod_pids_limit,
        "singleProcessOOMKill": settings.single_process_oom_kill,
        "topologyManagerPolicy": settings.topology_manager_policy,
        "topologyManagerScope": settings.topology_manager_scope,
        "topologyManagerPolicyOptions": settings.topology_manager_policy_options,
    }
    found: dict[str, Any] = {name: value for name, value in plain.items() if value not in (None, "", {})}
    if settings.cpu_cfs_quota_period_us is not None:
        found["cpuCFSQuotaPeriod"] = f"{settings.cpu_cfs_quota_period_us}us"
    if settings.enforce_node_allocatable is not None:
        found["enforceNodeAllocatable"] = list(settings.enforce_node_allocatable)
    if settings.qos_reserved:
        found["qosReserved"] = {name: f"{percent}%" for name, percent in settings.qos_reserved.items()}
    if settings.reserved_memory is not None:
        found["reservedMemory"] = [
            {"numaNode": node, "limits": _amounts(limits)} for node, limits in settings.reserved_memory
        ]
    if settings.swap_behavior is not None:
        found["memorySwap"] = {"swapBehavior": settings.swap_behavior}
    if settings.throttling_factor is not None:
        found["memoryThrottlingFactor"] = float(settings.throttling_factor)
    return found


def _amounts(amounts: ResourceList | None) -> dict[str, str] | None:
    return None if amounts is None else {name: str(amount) for name, amount in amounts.items()}


_INIT_SECONDS = "5"
"""As long as the init containers of the catalogue's pods take: they are read meanwhile."""

NODE_NAME = "memqos"
RUNTIME_CLASS = "memqos"
"""The RuntimeClass whose handler is the runtime under test."""


def pod_manifest(
    pod: Pod, kubelet: Kubelet, mounts: Mapping[str, Sequence[Mount]], memory: Sequence[MemoryVolume] = ()
) -> dict[str, Any]:
    """The object as the API server of the kubelet's release stores it, with all defaults of requests and limits.

    mounts: by container name. memory: for all containers.

    Pods use the host's network, since the machine has no working network plugin, and restartPolicy Never. Priority and
    overhead are those of the admitted pod.
    """
    stored = seen_by(pod, kubelet)
    sidecars = {one.name for one in pod.init_containers if one.kind is ContainerKind.SIDECAR}
    pod = stored if kubelet.sidecars else replace(stored, init_containers=tuple(_ending(stored, sidecars)))
    spec: dict[str, Any] = {
        "nodeName": NODE_NAME,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {},
        "runtimeClassName": RUNTIME_CLASS,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(one, mounts.get(one.name, ()), memory) for one in pod.containers],
        "volumes": [*_volumes(mounts), *map(_memory_volume, memory)],
    }
    if pod.init_containers:
        spec["initContainers"] = [_container(one, mounts.get(one.name, ()), memory) for one in pod.init_containers]
    if pod.resources is not None:
        spec["resources"] = _resources(pod.resources)
    if pod.overhead:
        spec["overhead"] = {name: str(amount) for name, amount in pod.overhead.items()}
    if pod.priority is not None:
        spec["priority"] = pod.priority
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": dict(pod.annotations)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": str(pod_qos(pod, pod_level=kubelet.pod_level))},
    }


def _ending(pod: Pod, sidecars: Collection[str]) -> Iterator[Container]:
    """The init containers of a release without sidecars: those that were sidecars end, else the pod would not start."""
    for one in pod.init_containers:
        ends = one.name in sidecars and one.args[-1:] == ("hold",)
        yield replace(one, args=(*one.args, _INIT_SECONDS)) if ends else one


def resized_manifest(
    item: dict[str, Any], desired: Pod, kubelet: Kubelet, mounts: Mapping[str, Sequence[Mount]]
) -> dict[str, Any]:
    """The stored object of a pod with its desired resources and an unchanged status."""
    item, wanted = copy.deepcopy(item), pod_manifest(desired, kubelet, mounts)["spec"]
    for kind in ("containers", "initContainers"):
        sizes = {one["name"]: one["resources"] for one in wanted.get(kind, ())}
        for one in item["spec"].get(kind, ()):
            one["resources"] = sizes[one["name"]]
    if "resources" in wanted:
        item["spec"]["resources"] = wanted["resources"]
    return item


def _container(container: Container, mounts: Sequence[Mount], memory: Sequence[MemoryVolume]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "Never",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": _resources(container.resources),
        "volumeMounts": [
            *({"name": _volume_name(one), "mountPath": one.container_path, "readOnly": one.readonly} for one in mounts),
            *({"name": one.name, "mountPath": one.container_path} for one in memory),
        ],
    }
    if container.command:
        found["command"] = list(container.command)
    if container.args:
        found["args"] = list(container.args)
    if container.resize_policy:
        found["resizePolicy"] = [
            {"resourceName": name, "restartPolicy": str(policy)} for name, policy in container.resize_policy.items()
        ]
    if container.kind is ContainerKind.SIDECAR:
        found["restartPolicy"] = "Always"
    return found


def _resources(resources: Resources) -> dict[str, dict[str, str]]:
    lists = {"requests": resources.requests, "limits": resources.limits}
    return {name: {key: str(amount) for key, amount in found.items()} for name, found in lists.items() if found}


def _volumes(mounts: Mapping[str, Sequence[Mount]]) -> Iterator[dict[str, Any]]:
    unique = {_volume_name(one): one for several in mounts.values() for one in several}
    for name, mount in unique.items():
        yield {"name": name, "hostPath": {"path": mount.host_path, "type": ""}}


def _memory_volume(volume: MemoryVolume) -> dict[str, Any]:
    size = {"sizeLimit": volume.size_limit} if volume.size_limit else {}
    return {"name": volume.name, "emptyDir": {"medium": "Memory", **size}}


def _volume_name(mount: Mount) -> str:
    """A DNS label made from a path."""
    return "host" + "".join(one if one.isalnum() else "-" for one in mount.host_path.lower()).rstrip("-")
