"""What an ordinary user has of a machine's cgroups: the part that systemd delegates to it, and what it may do there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memqos.cgroupfs.hierarchy import Unified
from memqos.model.path import CgroupPath
from memqos.target.base import Target

__all__ = ["Delegated", "Delegation", "UserFolders"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFolders:
    """Folders of the user's own. home: on a disk. run: XDG_RUNTIME_DIR, a tmpfs."""

    home: str
    run: str

    @property
    def state(self) -> str:
        """Each OCI runtime's `--root`, below this one."""
        return f"{self.run}/memqos/oci"

    @property
    def sockets(self) -> str:
        """Where conmon links bundles."""
        return f"{self.run}/memqos/conmon"

    @property
    def bundles(self) -> str:
        """The bundles."""
        return f"{self.home}/bundles"

    def log(self, folder: str) -> str:
        """Where the output is that root would have in this folder."""
        return f"{self.home}/logs{folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """An ordinary user and its part of the cgroups.

    target: runs commands as the user. hierarchy: the delegated part. controllers: those that are delegated; systemd
    delegates memory, pids and cpu unless it is told otherwise, and hugetlb and io to no user by default.
    uid, gid: on the machine; the only ones that the user can give a container. own_namespace: whether each container
    has a user namespace of its own, or shares that of the process that starts the runtime. score: the user's lowest
    oom_score_adj, -1000 to 1000: without CAP_SYS_RESOURCE none can be set below what systemd set.
    Source: kernel proc_pid_oom_score_adj(5), cgroup-v2.rst "Delegation"; systemd user@.service.
    """

    target: Target
    hierarchy: Unified
    controllers: frozenset[str]
    uid: int
    gid: int
    folders: UserFolders
    score: int
    own_namespace: bool = True

    @property
    def above(self) -> CgroupPath:
        """The cgroup that is delegated, as the machine's root has it."""
        return self.hierarchy.above

    def namespaces(self) -> dict[str, object]:
        """What `linux` of config.json says of user namespaces: one of the container's own, or nothing."""
        if not self.own_namespace:
            return {}
        return {
            "uidMappings": [{"containerID": 0, "hostID": self.uid, "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": self.gid, "size": 1}],
        }


@runtime_checkable
class Delegated(Protocol):
    """A runtime that an ordinary user may run."""

    @property
    def delegation(self) -> Delegation | None:
        """The user that runs it; None for root."""
        ...
