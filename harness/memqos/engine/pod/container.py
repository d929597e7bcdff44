"""What the kubelet asks the runtime for: CRI LinuxContainerResources of containers, of the sandbox, of the overhead.

Sources: kubelet kuberuntime `generateLinuxContainerResources`, `calculateLinuxResources`,
`calculateSandboxResources`, `convertOverheadToLinuxResources`. Revisions: v1.22; v1.26 (an explicit zero CPU request
no longer falls back to the limit); v1.28 (memory.oom.group); v1.32 (pod-level limits, singleProcessOOMKill); v1.34
(pod-level huge pages).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from memqos.engine.cgroup.cpu import milli_to_quota, milli_to_shares
from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import ContainerCase, memory_qos
from memqos.engine.plan import Ruling, Rulings, unified_entries
from memqos.engine.pod.hugepages import container_limits
from memqos.engine.pod.qos import OomScore, container_oom_score, pod_qos
from memqos.engine.pod.sums import PodSums, amount, pod_level_set, pod_sums
from memqos.engine.releases.table import Novelty
from memqos.engine.swap import SwapCase, SwapSetting, swap_rule
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob
from memqos.model.pod import Container, Pod, QosClass, ResourceList
from memqos.model.quantity import Quantity

__all__ = [
    "ContainerRequest",
    "has_exclusive_cpus",
    "overhead_resources",
    "request_container",
    "sandbox_resources",
]

_NOTHING_SENT = ContainerResources()


@dataclass(slots=True, kw_only=True)
class ContainerRequest:
    """The message for one container, and the rulings inside it.

    protection: the memory-qos rulings that became unified entries. memory_from_pod: whether the pod-level memory limit
    stands in for the container's. mems: the Memory Manager's ruling on cpuset.mems, None without one.
    """

    container: Container
    resources: ContainerResources
    protection: Rulings
    swap: SwapSetting
    oom: OomScore
    memory_from_pod: bool
    mems: Ruling | None = None


class _Basic(TypedDict):
    """The fields of ContainerResources that every kind of message has."""

    cpu_period: int
    cpu_quota: int
    cpu_shares: int
    memory_limit_in_bytes: int
    unified: dict[str, str]


def request_container(
    pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet, mems: Ruling | None = None
) -> ContainerRequest:
    """The message for one container of a pod; mems: what the Memory Manager rules on its zones, if it is on."""
    limits = container.resources.limits
    cpu, memory = amount(limits, "cpu"), amount(limits, "memory")
    own = pod.resources if kubelet.pod_level and pod_level_set(pod) else None
    memory_from_pod = False
    if own is not None:
        if cpu.is_zero and not amount(own.limits, "cpu").is_zero:
            cpu = own.limits["cpu"]
        if memory.is_zero and not amount(own.limits, "memory").is_zero:
            memory = own.limits["memory"]
            memory_from_pod = True
    basic = _basic(kubelet, container.resources.requests.get("cpu"), cpu, memory)
    if kubelet.cfs_quota and has_exclusive_cpus(pod, container, qos, kubelet):
        basic["cpu_quota"] = -1
    sent = basic["memory_limit_in_bytes"]
    case = SwapCase(pod=pod, qos=qos, container=container, kubelet=kubelet, memory_limit=sent)
    swap = swap_rule(kubelet.release)(case)
    protection = memory_qos(kubelet).container(ContainerCase.of(container, qos, kubelet))
    if swap.swap_max:
        basic["unified"][str(Knob.MEMORY_SWAP_MAX)] = swap.swap_max
    basic["unified"].update(unified_entries(protection))
    oom = container_oom_score(pod, container, qos, kubelet)
    base = own.limits if own is not None and kubelet.release.has(Novelty.CONTAINER_HUGE_PAGES) else None
    return ContainerRequest(
        container=container,
        resources=ContainerResources(
            memory_swap_limit_in_bytes=swap.swap_limit,
            oom_score_adj=oom.value,
            cpuset_mems=str(mems.written) if mems is not None and mems.written is not ABSENT else "",
            hugepage_limits=container_limits(kubelet.node.hugepage_sizes, base, limits),
            **basic,
        ),
        protection=protection,
        swap=swap,
        oom=oom,
        memory_from_pod=memory_from_pod,
        mems=mems,
    )


def has_exclusive_cpus(pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet) -> bool:
    """Whether the static CPU Manager gives this container CPUs of its own, so that 1.33 and later set no quota.

    It does for whole CPUs in a Guaranteed pod, not for pods with pod-level resources (1.34 and later say so).
    """
    if not kubelet.exclusive_cpus or qos is not QosClass.GUARANTEED:
        return False
    if kubelet.pod_level and pod_level_set(pod) and kubelet.release.has(Novelty.CPU_MANAGER_SKIPS_POD_LEVEL):
        return False
    cpu = amount(container.resources.requests, "cpu")
    return not cpu.is_zero and cpu.is_whole


def sandbox_resources(pod: Pod, kubelet: Kubelet, sums: PodSums | None = None) -> ContainerResources:
    """The sum over the containers, without overhead, that is sent along with the sandbox (1.23 and later).

    As for containers, a pod with CPUs of its own has no quota (1.33 and later).
    sums: those of the pod, if they are known already.
    """
    if not kubelet.release.has(Novelty.SANDBOX_RESOURCES):
        return _NOTHING_SENT
    requests: ResourceList
    limits: ResourceList
    if len(pod.containers) == 1 and not pod.init_containers and pod.resources is None:
        requests, limits = pod.containers[0].resources.requests, pod.containers[0].resources.limits
    else:
        sums = sums or pod_sums(pod, pod_level=kubelet.pod_level)
        requests, limits = sums.containers_requests, sums.containers_limits
    basic = _basic(kubelet, requests.get("cpu"), amount(limits, "cpu"), amount(limits, "memory"))
    if kubelet.cfs_quota and kubelet.exclusive_cpus:
        qos = pod_qos(pod, pod_level=kubelet.pod_level)
        if any(has_exclusive_cpus(pod, one, qos, kubelet) for one in pod.all_containers):
            basic["cpu_quota"] = -1
    return ContainerResources(**basic)


def overhead_resources(pod: Pod, kubelet: Kubelet) -> ContainerResources:
    """The overhead as request and limit at once (1.23 and later); empty for a pod without overhead."""
    if not pod.overhead or not kubelet.release.has(Novelty.SANDBOX_RESOURCES):
        return _NOTHING_SENT
    cpu = amount(pod.overhead, "cpu")
    return ContainerResources(**_basic(kubelet, cpu, cpu, amount(pod.overhead, "memory")))


def _basic(kubelet: Kubelet, cpu_request: Quantity | None, cpu_limit: Quantity, memory_limit: Quantity) -> _Basic:
    if kubelet.release.has(Novelty.REQUEST_KEY_DECIDES):
        from_limit = cpu_request is None
    else:
        from_limit = (cpu_request is None or cpu_request.is_zero) and not cpu_limit.is_zero
    counted = cpu_limit if from_limit or cpu_request is None else cpu_request
    period = kubelet.cfs_period if kubelet.cfs_quota else 0
    return _Basic(
        cpu_period=period,
        cpu_quota=milli_to_quota(cpu_limit.milli_value, period) if kubelet.cfs_quota else 0,
        cpu_shares=milli_to_shares(counted.milli_value),
        memory_limit_in_bytes=memory_limit.value,
        unified={str(Knob.MEMORY_OOM_GROUP): "1"} if kubelet.kills_whole_group else {},
    )
