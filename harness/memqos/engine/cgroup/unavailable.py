"""Why a control file is in no cgroup of a plan: it is the other version's of cgroups, or nothing rules it here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.engine.ruling import kernel_revision
from memqos.model.knob import Knob, knobs_of

__all__ = ["unavailable"]

_KERNEL = "kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1"
_PROTECTION = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})

_COUNTERPARTS: Mapping[Knob, str] = {
    Knob.MEMORY_MIN: "nothing on cgroup v1 protects memory: memory QoS writes nothing there",
    Knob.MEMORY_LOW: "nothing on cgroup v1 protects memory: memory QoS writes nothing there",
    Knob.MEMORY_HIGH: "nothing on cgroup v1 throttles a cgroup by its memory: memory QoS writes nothing there",
    Knob.MEMORY_MAX: "memory.limit_in_bytes limits memory there",
    Knob.MEMORY_SWAP_MAX: "memory.memsw.limit_in_bytes limits memory and swap together there",
    Knob.MEMORY_OOM_GROUP: "an OOM kill takes one process there",
    Knob.CPU_WEIGHT: "cpu.shares is there, as the kubelet computes them",
    Knob.CPU_MAX: "cpu.cfs_quota_us and cpu.cfs_period_us are there",
    Knob.HUGETLB_2MB_MAX: "hugetlb.2MB.limit_in_bytes is there",
    Knob.HUGETLB_1GB_MAX: "hugetlb.1GB.limit_in_bytes is there",
    Knob.MEMORY_LIMIT_IN_BYTES: "memory.max limits memory there",
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: "memory.swap.max limits swap alone there",
    Knob.MEMORY_SOFT_LIMIT_IN_BYTES: "memory.low and memory.high do what it was meant for",
    Knob.MEMORY_SWAPPINESS: "vm.swappiness holds for the whole machine there",
    Knob.MEMORY_OOM_CONTROL: "the OOM killer cannot be turned off there; memory.oom.group says what it takes",
    Knob.CPU_SHARES: "cpu.weight is there, converted from shares",
    Knob.CPU_CFS_QUOTA_US: "cpu.max holds quota and period there",
    Knob.CPU_CFS_PERIOD_US: "cpu.max holds quota and period there",
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES: "hugetlb.2MB.max is there",
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES: "hugetlb.1GB.max is there",
}
_NOT_RULED: Mapping[Knob, str] = {
    Knob.PIDS_MAX: "podPidsLimit limits no pod, no reservation names pid, and the node's process capacity is not known",
    Knob.CPUSET_CPUS: "CPUs are the CPU Manager's matter; kubepods gets all of them from 1.32 on under its policy none",
    Knob.CPUSET_MEMS: "zones are the Memory Manager's matter, and its policy is not Static",
}


def unavailable(kubelet: Kubelet, planned: Collection[Knob]) -> dict[Knob, Reason]:
    """A reason for every knob that is not among the `planned` ones."""
    here = knobs_of(kubelet.node.cgroup_version)
    return {knob: _reason(knob, kubelet, exists=knob in here) for knob in Knob if knob not in planned}


def _reason(knob: Knob, kubelet: Kubelet, *, exists: bool) -> Reason:
    if exists:
        text = _NOT_RULED.get(knob, "the node does not have it")
        family = Family.MEMORY_MANAGER if knob is Knob.CPUSET_MEMS else Family.NODE
        return Reason(rule=f"{knob} is not planned: {text}", revision=kubelet.revisions[family], source="kubelet cm")
    version = kubelet.node.cgroup_version
    rule = f"{knob} does not exist on cgroup {version}: {_COUNTERPARTS[knob]}"
    fact = kubelet.fact("cgroup version", version)
    if knob not in _PROTECTION:
        return Reason(rule=rule, revision=kernel_revision(version), source=_KERNEL, inputs=(fact,))
    gate = f"featureGates.{Gate.MEMORY_QOS}"
    on = enabled(Gate.MEMORY_QOS, kubelet.release, kubelet.settings.feature_gates)
    if on and kubelet.release.has(Novelty.WARNS_ON_CGROUP_V1):
        rule = f"{rule}, and the kubelet warns of it when it starts"
    given = Input(gate, str(on).lower(), kubelet.settings.origin.get(gate, f"default of {kubelet.release}"))
    source = f"{_KERNEL}; kubelet generateLinuxContainerConfig, EnsureExists (IsCgroup2UnifiedMode)"
    return Reason(rule=rule, revision=kubelet.revisions[Family.MEMORY_QOS], source=source, inputs=(fact, given))
