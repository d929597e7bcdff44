"""The kubelet's writes into a pod's cgroup, and its requests to the runtime: containers, the sandbox, the overhead.

Sources: kubelet `cm.ResourceConfigForPod`, `podContainerManagerImpl.EnsureExists` for the pod; kuberuntime
`generateLinuxContainerResources`, `calculateLinuxResources`, `calculateSandboxResources`,
`convertOverheadToLinuxResources` for the requests. Revisions of these: v1.22; v1.26 (an explicit zero CPU request no
longer falls back to the limit); v1.28 (memory.oom.group); v1.32 (pod-level limits, singleProcessOOMKill); v1.34
(pod-level huge pages).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from memqos.engine.cgroup.cpu import MIN_SHARES, milli_to_quota, milli_to_shares
from memqos.engine.cgroup.kubelet_writes import hugetlb_rulings, pids_rulings, quota_rulings, share_rulings
from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import ContainerCase, PodCase, memory_qos
from memqos.engine.plan import Input, Reason, Ruling, Rulings, unified_entries
from memqos.engine.pod.qos import OomScore, container_oom_score, pod_qos
from memqos.engine.pod.sums import (
    LimitsDeclared,
    PodSums,
    aggregate,
    amount,
    container_limits,
    limits_by_size,
    limits_declared,
    pod_level_set,
    pod_sums,
)
from memqos.engine.releases.table import Family, Novelty
from memqos.engine.swap import SwapCase, SwapSetting, swap_rule
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.pod import Container, Pod, QosClass, ResourceList
from memqos.model.quantity import Quantity

__all__ = [
    "ContainerRequest",
    "PodConfig",
    "has_exclusive_cpus",
    "overhead_resources",
    "pod_config",
    "pod_rulings",
    "request_container",
    "sandbox_resources",
]

_NOTHING_SENT = ContainerResources()


@dataclass(slots=True, kw_only=True)
class ContainerRequest:
    """The message for one container, and the rulings inside it.

    protection: the memory-qos rulings that became unified entries. memory_from_pod: whether the pod-level memory limit
    replaces the container's. mems: the Memory Manager's ruling on cpuset.mems, None without one.
    """

    container: Container
    resources: ContainerResources
    protection: Rulings
    swap: SwapSetting
    oom: OomScore
    memory_from_pod: bool
    mems: Ruling | None = None


class _Basic(TypedDict):
    """The fields of ContainerResources in every kind of message."""

    cpu_period: int
    cpu_quota: int
    cpu_shares: int
    memory_limit_in_bytes: int
    unified: dict[str, str]


def request_container(
    pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet, mems: Ruling | None = None
) -> ContainerRequest:
    """The message for one container of a pod; mems: the Memory Manager's ruling on its NUMA nodes, if it is on."""
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
    """Whether the static CPU Manager gives this container exclusive CPUs, so that 1.33 and later set no quota.

    It does for whole CPUs in a Guaranteed pod, but not with pod-level resources (explicit from 1.34 on).
    """
    if not kubelet.exclusive_cpus or qos is not QosClass.GUARANTEED:
        return False
    if kubelet.pod_level and pod_level_set(pod) and kubelet.release.has(Novelty.CPU_MANAGER_SKIPS_POD_LEVEL):
        return False
    cpu = amount(container.resources.requests, "cpu")
    return not cpu.is_zero and cpu.is_whole


def sandbox_resources(pod: Pod, kubelet: Kubelet, sums: PodSums | None = None) -> ContainerResources:
    """The sum over the containers, without overhead, in the sandbox's request (1.23 and later).

    As for containers, a pod with exclusive CPUs has no quota (1.33 and later). sums: the pod's, if already computed.
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
    """The overhead as both request and limit (1.23 and later); empty for a pod without overhead."""
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


_SOURCE = "kubelet cm.ResourceConfigForPod"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConfig:
    """The kubelet's ResourceConfig of a pod; None is a field that is not set.

    memory in bytes; cpu_quota and cpu_period in µs (quota -1: no limit); hugepages: bytes by page size in bytes;
    protection: the memory-qos rulings that became unified entries.
    request, limit: the pod's memory sums behind them; declared: which limits every container declares.
    """

    cpu_shares: int
    cpu_quota: int | None
    cpu_period: int | None
    memory: int | None
    hugepages: Mapping[int, int]
    protection: Rulings
    request: int
    limit: int
    declared: LimitsDeclared

    @property
    def unified(self) -> dict[str, str]:
        """The unified entries, as texts."""
        return unified_entries(self.protection)


def pod_config(pod: Pod, qos: QosClass, kubelet: Kubelet, sums: PodSums | None = None) -> PodConfig:
    """The kubelet's configuration of a pod's cgroup; sums: the pod's, if already computed."""
    sums = sums or pod_sums(pod, pod_level=kubelet.pod_level)
    requests, limits = sums.requests, sums.limits
    declared = limits_declared(pod, kubelet.release, pod_level=kubelet.pod_level)
    guaranteed, best_effort = qos is QosClass.GUARANTEED, qos is QosClass.BEST_EFFORT
    limit = amount(limits, "memory").value
    with_quota = guaranteed or (not best_effort and declared.cpu)
    with_memory = guaranteed or (not best_effort and declared.memory)
    exclusive = kubelet.exclusive_cpus and any(has_exclusive_cpus(pod, one, qos, kubelet) for one in pod.all_containers)
    unlimited = exclusive or not kubelet.cfs_quota
    quota = -1 if unlimited else milli_to_quota(amount(limits, "cpu").milli_value, kubelet.cfs_period)
    request = amount(requests, "memory").value
    case = PodCase(kubelet=kubelet, pod=pod, qos=qos, request=request, limit=limit)
    return PodConfig(
        cpu_shares=MIN_SHARES if best_effort else milli_to_shares(amount(requests, "cpu").milli_value),
        cpu_quota=quota if with_quota else None,
        cpu_period=kubelet.cfs_period if with_quota else None,
        memory=limit if with_memory else None,
        # Up to 1.26 the sum over containers, later the pod's requests with overhead and pod-level values.
        hugepages=limits_by_size(requests if kubelet.release.has(Novelty.REQUESTED_HUGE_PAGES) else aggregate(pod)),
        protection=memory_qos(kubelet).pod(case),
        request=request,
        limit=limit,
        declared=declared,
    )


def pod_rulings(config: PodConfig, pod: Pod, qos: QosClass, kubelet: Kubelet) -> Rulings:
    """The rulings for the pod's cgroup."""
    rulings = share_rulings(kubelet, config.cpu_shares, _shares_text(pod, qos))
    rulings[kubelet.files.memory_limit] = (
        _memory_ruling(config, pod, qos, kubelet) if config.memory else _undeclared(config, qos, kubelet, "memory")
    )
    if config.cpu_quota is not None and config.cpu_period is not None:
        rulings |= quota_rulings(kubelet, config.cpu_quota, config.cpu_period)
    else:
        rulings |= dict.fromkeys(kubelet.files.cpu_limit, _undeclared(config, qos, kubelet, "cpu"))
    rulings |= hugetlb_rulings(
        kubelet, config.hugepages, 0, "the pod's huge page requests; 0 for a size without a request"
    )
    limit = kubelet.settings.pod_pids_limit or -1
    if limit > 0:
        rulings |= pids_rulings(limit, lambda: _pids_reason(kubelet, limit))
    return rulings | dict(config.protection)


def _pids_reason(kubelet: Kubelet, limit: int) -> Reason:
    return Reason(
        rule="pids.max of a pod is podPidsLimit",
        revision=kubelet.revisions[Family.NODE],
        source="kubelet podContainerManagerImpl.EnsureExists",
        inputs=(kubelet.setting("podPidsLimit", limit),),
    )


def _memory_ruling(config: PodConfig, pod: Pod, qos: QosClass, kubelet: Kubelet) -> Ruling:
    def why() -> Reason:
        file = kubelet.files.memory_limit
        rule = (
            f"{file} of a Guaranteed pod is the pod's memory limit, overhead included"
            if qos is QosClass.GUARANTEED
            else f"{file} is the pod's memory limit, overhead included, since the whole pod counts as limited"
        )
        from_pod = kubelet.pod_level and pod.resources is not None and "memory" in pod.resources.limits
        because = Reason(
            rule="the pod-level limit stands for the whole pod" if from_pod else "limits add up over the containers",
            revision=kubelet.revisions[Family.SUMS],
            source="component-helpers resource.PodLimits",
            inputs=_limit_inputs(pod),
        )
        inputs = (Input("pod memory limit", str(config.limit), "pod sums"),)
        revision = kubelet.revisions[Family.LIMITS_DECLARED]
        return Reason(rule=rule, revision=revision, source=_SOURCE, inputs=inputs, because=(because,))

    return Ruling(Bytes(config.memory or 0), why)


def _undeclared(config: PodConfig, qos: QosClass, kubelet: Kubelet, resource: str) -> Ruling:
    """The ruling for a limit that is not written."""

    def why() -> Reason:
        unlimited = config.declared.missing.get(resource)
        return Reason(
            rule="a BestEffort pod has no limits"
            if qos is QosClass.BEST_EFFORT
            else f"the pod as a whole is not limited, since its container '{unlimited}' has no {resource} limit",
            revision=kubelet.revisions[Family.LIMITS_DECLARED],
            source=_SOURCE,
        )

    return Ruling(ABSENT, why)


def _limit_inputs(pod: Pod) -> tuple[Input, ...]:
    """Every memory limit that counts, with its place in the file."""
    found = [
        Input(
            f"{one.name} limits.memory", str(one.resources.limits["memory"]), one.origin.get("limits.memory", "given")
        )
        for one in pod.init_containers + pod.containers
        if "memory" in one.resources.limits
    ]
    if pod.resources is not None and "memory" in pod.resources.limits:
        origin = pod.origin.get("resources.limits.memory", "given")
        found.append(Input("resources.limits.memory", str(pod.resources.limits["memory"]), origin))
    if "memory" in pod.overhead:
        origin = pod.origin.get("overhead.memory", "given")
        found.append(Input("overhead.memory", str(pod.overhead["memory"]), origin))
    return tuple(found)


def _shares_text(pod: Pod, qos: QosClass) -> str:
    if qos is QosClass.BEST_EFFORT:
        return "2 for a BestEffort pod"
    return f"1024 per CPU that pod '{pod.name}' requests, at least 2"
