"""The KubeletConfiguration of a kubelet under test: a case's settings, and defaults that tests need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memqos.engine.kubelet import Kubelet
from memqos.model.node import KubeletSettings
from memqos.model.quantity import ResourceList

__all__ = ["configuration"]

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
