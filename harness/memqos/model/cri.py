"""The CRI message with a container's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

__all__ = ["ContainerResources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """CRI LinuxContainerResources as the kubelet sends them; 0, "" and empty mean "not specified", as in proto3.

    cpu_period and cpu_quota in µs (quota -1: no limit), memory amounts in bytes, hugepage_limits in bytes by CRI
    page size name ("2MB"), unified: interface file name to text, cgroup v2 only.
    """

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: int = 0
    memory_swap_limit_in_bytes: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    unified: Mapping[str, str] = field(default_factory=dict)

    def over(self, before: ContainerResources) -> ContainerResources:
        """What both requests specify, one after the other; a container keeps its first oom_score_adj."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        changes = {name: value for name, value in given.items() if value and name not in {"unified", "oom_score_adj"}}
        return replace(before, **changes, unified={**before.unified, **self.unified})
