"""What crio.conf sets for all containers of a node: the cgroup manager, and a limit of processes.

Source: CRI-O pkg/config/config.go `CgroupManagerName`, `PidsLimit`; server/container_create.go, which writes the limit
as linux.resources.pids.limit; internal/config/cgmgr, which refuses a parent cgroup of the other driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from memqos.model.node import CgroupDriver

__all__ = ["CrioSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioSettings:
    """cgroup_manager: None where no file sets it: CRI-O's default is systemd. pids_limit: 0 or less is no limit.

    origin: the name of a setting to the file, with the line where it is known.
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
        """Where cgroup_manager was written, for the end of a phrase: " (crio.conf:3)"."""
        where = self.origin.get("cgroup_manager", "")
        return f" ({where})" if where else ""

    def notes(self) -> Iterator[tuple[str, str, str]]:
        """What a reader has to know beside the plan: a setting, where it was written, and one clause about it."""
        if self.pids_limit > 0:
            what = (
                f"CRI-O writes {self.pids_limit} into pids.max of every container, which is not planned: a plan has "
                "pids.max of pods and of what is above them, and the lowest limit counts"
            )
            yield "pids_limit", self.origin.get("pids_limit", ""), what
