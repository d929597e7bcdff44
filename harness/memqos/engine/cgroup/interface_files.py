"""The interface files of both versions of cgroups, and their initial values.

cgroup v1 has a hierarchy for each controller, mounted below /sys/fs/cgroup/<controller>; a cgroup has the same path in
all of them. Sources: kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; opencontainers/cgroups fs, fs2.

The settings are those of cgroup v2, with their initial values. Other files are counters, or act when written. A kernel
may have settings that this module does not know.
Sources: kernel, Documentation/admin-guide/cgroup-v2.rst, and the cftype tables of mm/memcontrol.c,
mm/hugetlb_cgroup.c, kernel/cgroup/{cgroup,cpuset,pids,rdma,misc,dmem}.c, kernel/sched/core.c and block/ (6.1 to 7.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memqos.engine.plan import Ruling, Why
from memqos.model.knob import ABSENT, UNLIMITED, CpuMax, Knob, Number, knobs_of
from memqos.model.node import CgroupVersion

__all__ = [
    "CONTROL_FILES",
    "SUBTREE_CONTROL",
    "ControlFiles",
    "cpu_limit",
    "default_text",
    "is_unknown_file",
    "setting_names",
    "shows_default",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFiles:
    """The files of one version of cgroups, by purpose.

    planned: the files of every planned cgroup, with any writer. huge_pages: by the size of a huge page in bytes.
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
    """The texts of a CPU limit of `quota` µs per `period` µs.

    A quota of -1 is no limit. So is 0 on cgroup v2, where quota and period share a file; on v1 the quota's file is then
    not written. A period of 0 is not written on v1, and means the kernel's 100000 on v2.
    Source: opencontainers/cgroups fs/cpu.go, fs2/cpu.go.
    """
    if version is CgroupVersion.V2:
        return {Knob.CPU_MAX: Ruling(CpuMax(quota if quota > 0 else None, period or 100_000), why)}
    written = ABSENT if quota == 0 else Number(quota) if quota > 0 else UNLIMITED
    return {
        Knob.CPU_CFS_QUOTA_US: Ruling(written, why),
        Knob.CPU_CFS_PERIOD_US: Ruling(Number(period) if period else ABSENT, why),
    }


SUBTREE_CONTROL = "cgroup.subtree_control"
"""The controllers enabled for the child cgroups: empty in a cgroup that has processes."""

_DEFAULTS: Mapping[str, str] = {
    **{str(knob): str(knob.kernel_default) for knob in knobs_of(CgroupVersion.V2)},
    Knob.CPUSET_CPUS: "",
    Knob.CPUSET_MEMS: "",
    "memory.swap.high": "max",
    "memory.zswap.max": "max",
    "memory.zswap.writeback": "1",
    "cpu.idle": "0",
    "cpu.max.burst": "0",
    "cpu.uclamp.min": "0.00",
    "cpu.uclamp.max": "max",
    "cpuset.cpus.exclusive": "",
    "cpuset.cpus.partition": "member",
    "io.weight": "default 100",
    "io.bfq.weight": "default 100",
    "io.max": "",
    "io.low": "",
    "io.latency": "",
    "io.prio.class": "no-change",
    "cgroup.type": "domain",
    "cgroup.freeze": "0",
    "cgroup.pressure": "1",
    "cgroup.max.depth": "max",
    "cgroup.max.descendants": "max",
    SUBTREE_CONTROL: "",
}
_BY_DEVICE: Mapping[str, str] = {
    "rdma.max": "max",
    "misc.max": "max",
    "dmem.max": "max",
    "dmem.min": "0",
    "dmem.low": "0",
}
"""A line for each device or resource, with every amount; no line without an amount."""

_HUGE_PAGES = re.compile(r"hugetlb\.[0-9]+[KMG]B\.(rsvd\.)?max", re.ASCII)

_DERIVED = frozenset({"cpu.weight.nice"})
"""Settings that another file shows too."""

_COUNTS = re.compile(
    r".*\.(current|stat|events|local|peak|pressure|numa_stat|effective|isolated|capacity|controllers|procs|threads|kill"
    r"|reclaim)",
    re.ASCII,
)
"""Name suffixes of counters and of files that act when written."""

_FILE = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+)+", re.ASCII)
_UNITS = (".slice", ".scope", ".service", ".mount", ".socket", ".swap")


def default_text(name: str) -> str | None:
    """The initial value of a setting (of each amount, if it has a line for each device); None: unknown."""
    if _HUGE_PAGES.fullmatch(name):
        return "max"
    return _BY_DEVICE.get(name, _DEFAULTS.get(name))


def shows_default(name: str, text: str) -> bool:
    """Whether the text of a known setting is its initial value."""
    default = default_text(name)
    if name in _BY_DEVICE:
        amounts = (word.rpartition("=")[2] for line in text.splitlines() for word in line.split()[1:])
        return all(amount == default for amount in amounts)
    return text.strip() == default


def is_unknown_file(name: str) -> bool:
    """Whether an interface file of this name may be a setting that memqos does not know."""
    is_file = bool(_FILE.fullmatch(name)) and not name.endswith(_UNITS)
    return is_file and default_text(name) is None and name not in _DERIVED and not _COUNTS.fullmatch(name)


def setting_names(listed: Iterable[str]) -> list[str]:
    """The names in a cgroup's folder that are settings, known or unknown, without derived ones."""
    return [name for name in listed if default_text(name) is not None or is_unknown_file(name)]
