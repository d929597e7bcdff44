"""The writes of the kubelet's cgroup manager on both versions of cgroups: shares, limits, huge pages.

Sources: kubelet `cgroupManagerImpl.toResources`, `maybeSetHugetlb`, `getCPUWeight`; opencontainers/cgroups fs, fs2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memqos.engine.cgroup.cpu import shares_to_weight, systemd_quota
from memqos.engine.cgroup.interface_files import cpu_limit
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Ruling, Why
from memqos.engine.releases.table import Family, Novelty
from memqos.model.knob import Bytes, Knob, Number, Text
from memqos.model.node import CgroupDriver

__all__ = ["cpuset_rulings", "hugetlb_rulings", "pids_rulings", "quota_rulings", "share_rulings"]

_CONFIG = "kubelet cm.ResourceConfigForPod"


def share_rulings(kubelet: Kubelet, shares: int, what: str) -> dict[Knob, Ruling]:
    """cpu.weight, or cpu.shares on cgroup v1; `what` describes the source of the shares."""
    if not kubelet.v2:
        return {Knob.CPU_SHARES: Ruling(Number(shares), lambda: _shares_reason(kubelet, what))}
    weight = shares_to_weight(shares)

    def why() -> Reason:
        return Reason(
            rule=f"cpu.weight is cpu.shares converted by the linear formula; cpu.shares are {what}",
            revision=kubelet.revisions[Family.CPU],
            source="kubelet cm.MilliCPUToShares, cm.getCPUWeight",
            inputs=(Input("cpu.shares", str(shares), "computed"),),
            arithmetic=f"1 + (({shares} - 2) * 9999) / 262142 = {weight}",
            rounding="integer division, toward zero",
        )

    return {Knob.CPU_WEIGHT: Ruling(Number(weight), why)}


def _shares_reason(kubelet: Kubelet, what: str) -> Reason:
    revision = kubelet.revisions[Family.CPU]
    return Reason(rule=f"cpu.shares are {what}", revision=revision, source="kubelet cm.MilliCPUToShares")


_ROUNDED_LATER = (
    "the kubelet writes the exact quota, and systemd writes its own, rounded up to whole percents of a CPU, when the "
    "first container's scope starts below the pod's slice"
)
"""systemd realizes a slice again when a unit below it needs additional controllers, and then writes all its properties.
Observed with systemd 257. Source: systemd core/cgroup.c, unit_realize_cgroup_now.
"""


def quota_rulings(kubelet: Kubelet, quota: int, period: int) -> dict[Knob, Ruling]:
    """A pod's CPU limit: cpu.max, or quota and period of cgroup v1; µs, a quota of -1 is no limit."""
    rounded = quota
    if kubelet.driver is CgroupDriver.SYSTEMD and kubelet.release.has(Novelty.SYSTEMD_ROUNDS_QUOTA):
        rounded = systemd_quota(quota, period)

    def why() -> Reason:
        file = "cpu.max" if kubelet.v2 else "cpu.cfs_quota_us"
        if quota == -1:
            return Reason(
                rule=f"{file} is {'max' if kubelet.v2 else '-1'}: CPU limits are not enforced "
                "(cpuCFSQuota false, or CPUs of its own)",
                revision=kubelet.revisions[Family.CPU],
                source=_CONFIG,
            )
        return Reason(
            rule=f"{file} is the pod's CPU limit as quota per period",
            revision=kubelet.revisions[Family.CPU],
            source=f"{_CONFIG}; cm.MilliCPUToQuota",
            inputs=(Input("quota", f"{quota} µs per {period} µs", "pod sums"),),
            arithmetic="" if rounded == quota else f"{quota} rounded up to whole percents of a CPU: {rounded}",
            rounding="" if rounded == quota else "up to whole percents, by the systemd driver (opencontainers/cgroups)",
        )

    found = cpu_limit(kubelet.node.cgroup_version, rounded, period, why)
    if kubelet.driver is not CgroupDriver.SYSTEMD or (held := systemd_quota(quota, period)) == rounded:
        return found
    others = cpu_limit(kubelet.node.cgroup_version, held, period, why)
    return {
        knob: one
        if one.written == others[knob].written
        else replace(one, otherwise=(others[knob].written,), unsettled=_ROUNDED_LATER)
        for knob, one in found.items()
    }


def hugetlb_rulings(kubelet: Kubelet, limits: Mapping[int, int], otherwise: int, what: str) -> dict[Knob, Ruling]:
    """The huge page limits for every page size of the node: the kubelet writes all of them or none."""

    def why() -> Reason:
        return Reason(
            rule=f"huge page limits are written for every page size of the node: {what}",
            revision=kubelet.revisions[Family.NODE],
            source="kubelet cgroupManagerImpl.toResources",
        )

    files = kubelet.files.huge_pages
    return {
        files[size]: Ruling(Bytes(limits.get(size, otherwise)), why)
        for size in kubelet.node.hugepage_sizes
        if size in files
    }


def pids_rulings(limit: int, why: Why) -> dict[Knob, Ruling]:
    """pids.max of a cgroup, a number of processes and threads (>= 0). 0 is written as 1, since systemd rejects 0."""
    return {Knob.PIDS_MAX: Ruling(Number(max(1, limit)), why)}


def cpuset_rulings(kubelet: Kubelet) -> dict[Knob, Ruling]:
    """cpuset.cpus of kubepods and the reserved cgroups: all CPUs from 1.32 on, unless the CPU Manager is static."""
    if not kubelet.release.has(Novelty.WHOLE_CPUSET) or kubelet.settings.cpu_manager_policy == "static":
        return {}
    everything = Text("0" if kubelet.node.cpus == 1 else f"0-{kubelet.node.cpus - 1}")

    def why() -> Reason:
        return Reason(
            rule="cpuset.cpus is all CPUs of the node, so that systemd knows the cpuset of the cgroup",
            revision=kubelet.revisions[Family.NODE],
            source="kubelet containerManagerImpl.getCgroupConfig",
            inputs=(
                kubelet.setting("cpuManagerPolicy", kubelet.settings.cpu_manager_policy or "none"),
                kubelet.fact("cpus", kubelet.node.cpus),
            ),
        )

    return {Knob.CPUSET_CPUS: Ruling(everything, why)}
