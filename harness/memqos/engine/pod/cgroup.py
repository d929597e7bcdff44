"""The pod's cgroup, which the kubelet writes itself when it makes it.

Source: kubelet `cm.ResourceConfigForPod`, `podContainerManagerImpl.EnsureExists`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.cgroup.cpu import MIN_SHARES, milli_to_quota, milli_to_shares
from memqos.engine.cgroup.kubelet_writes import hugetlb_rulings, pids_rulings, quota_rulings, share_rulings
from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import PodCase, memory_qos
from memqos.engine.plan import Input, Reason, Ruling, Rulings, unified_entries
from memqos.engine.pod.container import has_exclusive_cpus
from memqos.engine.pod.hugepages import limits_by_size
from memqos.engine.pod.sums import LimitsDeclared, PodSums, aggregate, amount, limits_declared, pod_sums
from memqos.engine.releases.table import Family, Novelty
from memqos.model.knob import ABSENT, Bytes
from memqos.model.pod import Pod, QosClass

__all__ = ["PodConfig", "pod_config", "pod_rulings"]

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
    """What the kubelet configures for a pod's cgroup; sums: those of the pod, if they are known already."""
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
        # Up to 1.26 the sum over containers, later the pod's requests, in which overhead and pod-level values count.
        hugepages=limits_by_size(requests if kubelet.release.has(Novelty.REQUESTED_HUGE_PAGES) else aggregate(pod)),
        protection=memory_qos(kubelet).pod(case),
        request=request,
        limit=limit,
        declared=declared,
    )


def pod_rulings(config: PodConfig, pod: Pod, qos: QosClass, kubelet: Kubelet) -> Rulings:
    """What is written into the pod's cgroup."""
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
    """A limit that the pod's cgroup does not get."""

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
    """Every memory limit that counts, with the place it was written at."""
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
