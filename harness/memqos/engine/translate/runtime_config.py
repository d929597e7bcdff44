"""Settings of a CRI runtime's configuration: crio.conf, and allowed annotations.

Annotations: crio.conf allows them by handler and by workload.

Source: CRI-O pkg/config/config.go (`RuntimeHandler.AllowedAnnotations`) and pkg/config/workloads.go, 1.24 to 1.36.

For all containers of a node: the cgroup manager, and a limit of processes.

Source: CRI-O pkg/config/config.go `CgroupManagerName`, `PidsLimit`; server/container_create.go, which writes the limit
as linux.resources.pids.limit; internal/config/cgmgr, which refuses a parent cgroup of the other driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from memqos.model.node import CgroupDriver

__all__ = ["NOTHING_ALLOWED", "Allowance", "CrioSettings", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload of crio.conf: settings for the pods that have its activation annotation.

    prefix: of the annotation `PREFIX/CONTAINER`, whose JSON overrides resources for one container. allowed: further
    annotations for its pods. shares, quota and period (µs), limit (milli-CPUs): 0 means not set; cpus: "" means not
    set.
    """

    name: str
    activation: str
    prefix: str = ""
    allowed: tuple[str, ...] = ()
    shares: int = 0
    quota: int = 0
    period: int = 0
    limit: int = 0
    cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The annotations that a runtime handler allows.

    allowed: prefixes of annotations; for containerd, patterns with *. known: whether the configuration is known; if
    not, an annotation that is not listed may be allowed.
    """

    allowed: tuple[str, ...] = ()
    workloads: tuple[Workload, ...] = ()
    known: bool = True

    def workload(self, annotations: Mapping[str, str]) -> Workload | None:
        """The workload that a pod with these annotations activates; None if it activates none."""
        return next((one for one in self.workloads if one.activation in annotations), None)

    def names(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """All names allowed for a pod with these annotations."""
        workload = self.workload(annotations)
        return self.allowed if workload is None else (*self.allowed, *workload.allowed)


NOTHING_ALLOWED = Allowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioSettings:
    """cgroup_manager: None if no file sets it; CRI-O's default is systemd. pids_limit: 0 or less is no limit.

    origin: the name of a setting to its file, with the line if known.
    """

    cgroup_manager: CgroupDriver | None = None
    pids_limit: int = 0
    origin: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def driver(self) -> CgroupDriver:
        """The driver that CRI-O reports to the kubelet."""
        return self.cgroup_manager or CgroupDriver.SYSTEMD

    @property
    def place(self) -> str:
        """The place of cgroup_manager, to end a phrase: " (crio.conf:3)"."""
        where = self.origin.get("cgroup_manager", "")
        return f" ({where})" if where else ""

    def notes(self) -> Iterator[tuple[str, str, str]]:
        """Notes on a plan: a setting, its place, and one clause about it."""
        if self.pids_limit > 0:
            what = (
                f"CRI-O writes {self.pids_limit} into pids.max of every container, which is not planned: a plan has "
                "pids.max of pods and of the levels above, and the lowest limit counts"
            )
            yield "pids_limit", self.origin.get("pids_limit", ""), what
