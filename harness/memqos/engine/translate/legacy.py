"""What runc and crun write on cgroup v1: linux.resources as they are, each field in the file of its controller.

Source: opencontainers/cgroups fs: `CpusetGroup.Set`, `MemoryGroup.Set`, `setMemoryAndSwap`, `CpuGroup.Set`,
`HugetlbGroup.Set`, in the order of `Manager.Set`; systemd/v1.go, where a scope's properties say the same; crun
`update_cgroup_v1_resources`.
"""

from __future__ import annotations

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, systemd_quota
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.versions import Feature, RuntimeName, Traits
from memqos.engine.translate.writes import RuntimeHost, RuntimeWrites
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver

__all__ = ["written_on_v1"]

_UNLIMITED = -1


def written_on_v1(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """One application of linux.resources to a new cgroup: 0 and "" are "not specified", -1 is "no limit".

    A limit that is taken off memory is taken off memory and swap together too, unless that has one of its own. Without
    swap accounting there is no file for both together: runc ends with the error, crun goes on without. What systemd is
    told is not in the answer: its properties are None.
    """
    if resources.unified:
        return RuntimeWrites(refusal="invalid configuration: cannot use unified on cgroup v1")
    limit, total = resources.memory_limit or 0, resources.memory_swap or 0
    if limit == _UNLIMITED:
        total = total or (_UNLIMITED if host.swap_file else 0)
    if total and not host.swap_file:
        if traits.runtime is RuntimeName.RUNC:
            return RuntimeWrites(refusal=f"open {Knob.MEMORY_MEMSW_LIMIT_IN_BYTES}: no such file or directory")
        total = 0
    quota = resources.cpu_quota or 0
    if host.driver is CgroupDriver.SYSTEMD and traits.has(Feature.ROUNDED_QUOTA_IN_FILE):
        quota = systemd_quota(quota, resources.cpu_period or DEFAULT_PERIOD)
    # Memory alone can never have more than memory and swap together.
    amounts = [(Knob.MEMORY_LIMIT_IN_BYTES, limit), (Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, total)]
    if total == _UNLIMITED:
        amounts.reverse()
    fields: list[tuple[str, str | int | None]] = [
        (Knob.CPUSET_CPUS, resources.cpus),
        (Knob.CPUSET_MEMS, resources.mems),
        *amounts,
        (Knob.MEMORY_SOFT_LIMIT_IN_BYTES, resources.memory_reservation),
        (Knob.CPU_SHARES, resources.cpu_shares),
        (Knob.CPU_CFS_PERIOD_US, resources.cpu_period),
        (Knob.CPU_CFS_QUOTA_US, quota),
    ]
    files = [(str(name), str(value)) for name, value in fields if value]
    # A limit of no huge pages is one.
    files += [(f"hugetlb.{size}.limit_in_bytes", str(amount)) for size, amount in resources.hugepage_limits]
    return RuntimeWrites(files=tuple(files))
