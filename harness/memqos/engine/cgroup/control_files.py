"""Which control files say a thing, on each version of cgroups.

cgroup v1 has a hierarchy for each controller, mounted below /sys/fs/cgroup/<controller>; a cgroup has the same path in
all of them. Sources: kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; opencontainers/cgroups fs, fs2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.ruling import Ruling, Why
from memqos.model.knob import ABSENT, UNLIMITED, CpuMax, Knob, Number
from memqos.model.node import CgroupVersion

__all__ = ["CONTROL_FILES", "ControlFiles", "cpu_limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFiles:
    """The files of one version of cgroups by what they say.

    planned: those of every planned cgroup, whoever writes them. huge_pages: by the size of a huge page in bytes.
    """

    memory_limit: Knob
    cpu_share: Knob
    cpu_limit: tuple[Knob, ...]
    planned: tuple[Knob, ...]
    huge_pages: Mapping[int, Knob]


CONTROL_FILES: Mapping[CgroupVersion, ControlFiles] = {
    CgroupVersion.V2: ControlFiles(
        memory_limit=Knob.MEMORY_MAX,
        cpu_share=Knob.CPU_WEIGHT,
        cpu_limit=(Knob.CPU_MAX,),
        planned=(
            Knob.MEMORY_MIN,
            Knob.MEMORY_LOW,
            Knob.MEMORY_HIGH,
            Knob.MEMORY_MAX,
            Knob.MEMORY_SWAP_MAX,
            Knob.MEMORY_OOM_GROUP,
            Knob.CPU_WEIGHT,
            Knob.CPU_MAX,
        ),
        huge_pages={2 << 20: Knob.HUGETLB_2MB_MAX, 1 << 30: Knob.HUGETLB_1GB_MAX},
    ),
    CgroupVersion.V1: ControlFiles(
        memory_limit=Knob.MEMORY_LIMIT_IN_BYTES,
        cpu_share=Knob.CPU_SHARES,
        cpu_limit=(Knob.CPU_CFS_QUOTA_US, Knob.CPU_CFS_PERIOD_US),
        planned=(
            Knob.MEMORY_LIMIT_IN_BYTES,
            Knob.MEMORY_MEMSW_LIMIT_IN_BYTES,
            Knob.MEMORY_SOFT_LIMIT_IN_BYTES,
            Knob.MEMORY_SWAPPINESS,
            Knob.MEMORY_OOM_CONTROL,
            Knob.CPU_SHARES,
            Knob.CPU_CFS_QUOTA_US,
            Knob.CPU_CFS_PERIOD_US,
        ),
        huge_pages={2 << 20: Knob.HUGETLB_2MB_LIMIT_IN_BYTES, 1 << 30: Knob.HUGETLB_1GB_LIMIT_IN_BYTES},
    ),
}


def cpu_limit(version: CgroupVersion, quota: int, period: int, why: Why) -> dict[Knob, Ruling]:
    """A CPU limit of `quota` µs per `period` µs as it is written.

    A quota of -1 is no limit. So is 0 on cgroup v2, where quota and period share a file; on v1 it leaves the quota's
    file alone. A period of 0 is not written on v1, and stands for the kernel's 100000 on v2.
    Source: opencontainers/cgroups fs/cpu.go, fs2/cpu.go.
    """
    if version is CgroupVersion.V2:
        return {Knob.CPU_MAX: Ruling(CpuMax(quota if quota > 0 else None, period or 100_000), why)}
    written = ABSENT if quota == 0 else Number(quota) if quota > 0 else UNLIMITED
    return {
        Knob.CPU_CFS_QUOTA_US: Ruling(written, why),
        Knob.CPU_CFS_PERIOD_US: Ruling(Number(period) if period else ABSENT, why),
    }
