"""The cgroups above pods: kubepods, the QoS classes, kube-reserved and system-reserved.

Sources: kubelet `qosContainerManagerImpl.UpdateCgroups`, `setMemoryReserve`, `enforceNodeAllocatableCgroups`,
`enforceExistingCgroup`. QoS classes and kubepods are written at start-up, every 60 s, and before a pod's cgroup is
created, for all active pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.engine.cgroup.cpu import MIN_SHARES, milli_to_shares, quotient
from memqos.engine.cgroup.kubelet_writes import cpuset_rulings, hugetlb_rulings, pids_rulings, share_rulings
from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import NodeCase, ReservedCase, memory_qos
from memqos.engine.plan import Input, Reason, Ruling, Rulings
from memqos.engine.pod.sums import UNBOUNDED, amount, limits_by_size
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.pod import QosClass, ResourceList
from memqos.model.quantity import Quantity

__all__ = [
    "Demand",
    "kubepods_hugetlb_at_start",
    "kubepods_rulings",
    "qos_rulings",
    "reserved_cgroups",
    "reserved_rulings",
    "summed_knobs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The requests of all pods of the node. Memory in bytes, CPU in thousandths."""

    guaranteed_memory: int = 0
    burstable_memory: int = 0
    burstable_milli_cpu: int = 0


_NOBODY = Demand()
_SOMEBODY = Demand(guaranteed_memory=1 << 30, burstable_memory=1 << 30, burstable_milli_cpu=1000)


def summed_knobs(rulings: Callable[[Demand], Rulings]) -> frozenset[Knob]:
    """The knobs of a cgroup that depend on pods' requests."""
    without, with_pods = rulings(_NOBODY), rulings(_SOMEBODY)
    return frozenset(
        knob
        for knob in {*without, *with_pods}
        if knob not in without or knob not in with_pods or without[knob].written != with_pods[knob].written
    )


def kubepods_rulings(demand: Demand, kubelet: Kubelet) -> Rulings:
    """kubepods: the resources of all pods together."""
    enforced = "pods" in kubelet.enforced
    source = kubelet.allocatable if enforced else kubelet.capacity
    what = "allocatable" if enforced else "capacity"
    shares = milli_to_shares(source["cpu"].milli_value)
    rulings = share_rulings(kubelet, shares, f"1024 per CPU of the node's {what}") | cpuset_rulings(kubelet)
    if source["memory"].value:
        rulings[kubelet.files.memory_limit] = Ruling(
            Bytes(source["memory"].value), lambda: _kubepods_reason(kubelet, "memory", enforced=enforced)
        )
    if "pid" in source:
        rulings |= pids_rulings(source["pid"].value, lambda: _kubepods_reason(kubelet, "pid", enforced=enforced))
    rulings |= hugetlb_rulings(kubelet, {}, UNBOUNDED, "no limit here (2^62)")
    return rulings | dict(memory_qos(kubelet).kubepods(_case(demand, kubelet)))


def kubepods_hugetlb_at_start(kubelet: Kubelet) -> Mapping[Knob, int]:
    """Bytes by file: kubepods' huge page limits from a kubelet's start until it first updates the QoS cgroups.

    A node without NUMA facts counts as one without huge pages. enforceNodeAllocatableCgroups writes kubepods' limit for
    each page size; within a minute qosContainerManagerImpl.UpdateCgroups writes no limit (setHugePagesUnbounded).
    """
    left = dict.fromkeys(kubelet.node.hugepage_sizes, 0)
    for numa in kubelet.node.numa_nodes:
        for size, pages in numa.hugepages.items():
            left[size] = left.get(size, 0) + size * pages
    if "pods" in kubelet.enforced:
        for reserved in (kubelet.settings.system_reserved, kubelet.settings.kube_reserved):
            for size, taken in limits_by_size(reserved or {}).items():
                left[size] = max(0, left.get(size, 0) - taken)
    files = kubelet.files.huge_pages
    return {files[size]: amount for size, amount in left.items() if size in files}


def _kubepods_reason(kubelet: Kubelet, resource: str, *, enforced: bool) -> Reason:
    revision = kubelet.revisions[Family.NODE]
    file = kubelet.files.memory_limit if resource == "memory" else Knob.PIDS_MAX
    key = kubelet.setting("enforceNodeAllocatable", ", ".join(kubelet.enforced) or "none")
    capacity = kubelet.fact(f"{resource} capacity", kubelet.capacity[resource].value)
    if not enforced:
        rule = f"{file} is the node's capacity, since enforceNodeAllocatable does not contain pods"
        return Reason(rule=rule, revision=revision, source="kubelet getCgroupConfig", inputs=(key, capacity))
    reserved = [
        kubelet.setting(f"{name}.{resource}", amount(given or {}, resource).value)
        for name, given in (
            ("systemReserved", kubelet.settings.system_reserved),
            ("kubeReserved", kubelet.settings.kube_reserved),
        )
    ]
    left = kubelet.allocatable[resource].value
    return Reason(
        rule=f"{file} is the capacity less both reservations; eviction thresholds do not count",
        revision=revision,
        source="kubelet getNodeAllocatableInternalAbsolute",
        inputs=(key, capacity, *reserved),
        arithmetic=f"{capacity.value} - {reserved[0].value} - {reserved[1].value} = {left}",
    )


def _case(demand: Demand, kubelet: Kubelet) -> NodeCase:
    return NodeCase(kubelet=kubelet, guaranteed=demand.guaranteed_memory, burstable=demand.burstable_memory)


def qos_rulings(qos: QosClass, demand: Demand, kubelet: Kubelet) -> Rulings:
    """The cgroup of a QoS class: burstable or besteffort."""
    burstable = qos is QosClass.BURSTABLE
    shares = milli_to_shares(demand.burstable_milli_cpu) if burstable else MIN_SHARES
    what = "1024 per CPU that Burstable pods request together" if burstable else "2 for the BestEffort class"
    rulings = share_rulings(kubelet, shares, what)
    rulings |= hugetlb_rulings(kubelet, {}, UNBOUNDED, "no limit here (2^62)")
    reserve = _memory_reserve(demand, kubelet)
    if reserve is not None:
        rulings[kubelet.files.memory_limit] = _reserve_ruling(qos, demand, kubelet, reserve)
    if burstable:
        rulings |= memory_qos(kubelet).burstable(_case(demand, kubelet))
    return rulings


def _memory_reserve(demand: Demand, kubelet: Kubelet) -> tuple[int, int] | None:
    """memory.max of burstable and of besteffort under `qosReserved`; None without a limit."""
    percent = (kubelet.settings.qos_reserved or {}).get("memory")
    on = enabled(Gate.QOS_RESERVED, kubelet.release, kubelet.settings.feature_gates)
    left = kubelet.allocatable["memory"].value
    if percent is None or not on or left == 0:
        return None
    burstable = left - quotient(demand.guaranteed_memory * percent, 100)
    return burstable, burstable - quotient(demand.burstable_memory * percent, 100)


def _reserve_ruling(qos: QosClass, demand: Demand, kubelet: Kubelet, reserve: tuple[int, int]) -> Ruling:
    burstable, best_effort = reserve
    percent = (kubelet.settings.qos_reserved or {})["memory"]
    limit = burstable if qos is QosClass.BURSTABLE else best_effort

    def why() -> Reason:
        left = kubelet.allocatable["memory"].value
        text = f"{left} - {demand.guaranteed_memory} * {percent} / 100 = {burstable}"
        if qos is QosClass.BEST_EFFORT:
            text = f"{text}; {burstable} - {demand.burstable_memory} * {percent} / 100 = {best_effort}"
        rule = f"{kubelet.files.memory_limit} keeps a part of the requests of the classes above free from this one"
        if limit == 0:
            rule = f"{rule}; a limit of 0 is not written"
        elif limit < 0:
            rule = f"{rule}; the kernel refuses a limit below 0, and the kubelet then writes current usage"
        return Reason(
            rule=rule,
            revision=kubelet.revisions[Family.NODE],
            source="kubelet setMemoryReserve (gate QOSReserved)",
            inputs=(
                kubelet.setting("qosReserved", f"memory {percent}%"),
                Input("requests of Guaranteed pods", str(demand.guaranteed_memory), "pod sums"),
                Input("requests of Burstable pods", str(demand.burstable_memory), "pod sums"),
            ),
            arithmetic=text,
            rounding="integers, multiplied before divided",
        )

    return Ruling(Bytes(limit) if limit > 0 else ABSENT, why)


def reserved_cgroups(kubelet: Kubelet) -> Mapping[str, tuple[str, ResourceList, bool]]:
    """The reserved cgroups that this configuration enforces.

    Field name of the reservation to the configured cgroup, the reserved amounts, and whether all are enforced (False:
    only CPU, by the "-compressible" keys of 1.32).
    """
    settings = kubelet.settings
    found: dict[str, tuple[str, ResourceList, bool]] = {}
    for key, field, cgroup, reserved in (
        ("system-reserved", "systemReserved", settings.system_reserved_cgroup, settings.system_reserved),
        ("kube-reserved", "kubeReserved", settings.kube_reserved_cgroup, settings.kube_reserved),
    ):
        if not cgroup or reserved is None:
            continue
        if key in kubelet.enforced:
            found[field] = (cgroup, reserved, True)
        elif f"{key}-compressible" in kubelet.enforced and kubelet.release.has(Novelty.COMPRESSIBLE_KEYS):
            found[field] = (cgroup, reserved, False)
    return found


def reserved_rulings(field: str, reserved: ResourceList, *, whole: bool, kubelet: Kubelet) -> Rulings:
    """kube-reserved or system-reserved; `whole` is False for the "-compressible" keys."""
    rulings: dict[Knob, Ruling] = cpuset_rulings(kubelet)
    cpu: Quantity | None = reserved.get("cpu")
    if cpu is not None:
        rulings |= share_rulings(kubelet, milli_to_shares(cpu.milli_value), f"1024 per CPU of {field}")
    hugepages = limits_by_size(reserved) if whole else {}
    rulings |= hugetlb_rulings(kubelet, hugepages, 0, f"those of {field}; 0 for a size that it does not name")
    if not whole:
        return rulings
    memory = reserved["memory"].value if "memory" in reserved else None
    if memory:
        file = kubelet.files.memory_limit
        rulings[file] = Ruling(Bytes(memory), lambda: _reserved_reason(file, f"{field}.memory", memory, kubelet))
    if "pid" in reserved:
        limit = reserved["pid"].value
        rulings |= pids_rulings(limit, lambda: _reserved_reason(Knob.PIDS_MAX, f"{field}.pid", limit, kubelet))
    return rulings | dict(memory_qos(kubelet).reserved(ReservedCase(kubelet=kubelet, field=field, memory=memory)))


def _reserved_reason(file: Knob, field: str, given: int, kubelet: Kubelet) -> Reason:
    return Reason(
        rule=f"{file} of a reserved cgroup is its reservation",
        revision=kubelet.revisions[Family.NODE],
        source="kubelet enforceExistingCgroup",
        inputs=(kubelet.setting(field, given),),
    )
