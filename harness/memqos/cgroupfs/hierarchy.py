"""Where a target keeps its cgroups: one hierarchy on cgroup v2, several with the same paths in them on cgroup v1.

Whoever reads or writes a cgroup asks this port for the file, and need not know the version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memqos.cgroupfs.mount import MOUNTS, CgroupMount, parse_mounts
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, TargetError
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.target.base import Target

__all__ = ["SYSTEMD", "Hierarchy", "Legacy", "Unified", "find_hierarchy", "hierarchy_of", "require_hierarchy"]

MEMORY = "memory"
SYSTEMD = "systemd"
"""systemd's own hierarchy of cgroup v1, which has no controller; /proc/PID/cgroup calls it name=systemd."""

_CONTROLLERS = (
    "blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", MEMORY, "misc", "net_cls", "net_prio",
    "perf_event", "pids", "rdma",
)  # fmt: skip
_DELETED = " (deleted)"

_KILL_UNIFIED = 'for file; do [ ! -e "$file" ] || echo 1 > "$file" || [ ! -e "$file" ] || exit 1; done'
# A process may have started another one between the listing and the signal, so what is left is asked for again: for
# about a second, after which whoever removes the cgroup tells that it is still there. 0 is a process that this PID
# namespace does not see; for kill it would be the script itself.
_KILL_LEGACY = """\
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=$(find "$@" -name cgroup.procs -exec grep -hvx 0 {} + 2>/dev/null)
  [ -n "$found" ] || exit 0
  kill -KILL $found 2>/dev/null
  sleep 0.1
done
"""


class Hierarchy(Protocol):
    """A target's cgroups as files."""

    @property
    def version(self) -> CgroupVersion:
        """Which version of cgroups has the memory controller."""
        ...

    @property
    def mounts(self) -> Mapping[str, str]:
        """The folder in which each controller's files are; the name "" stands for every controller."""
        ...

    @property
    def is_recursive(self) -> bool:
        """Whether what a cgroup is protected by and no child claims goes to its children (memory_recursiveprot)."""
        ...

    def file(self, path: CgroupPath, name: str) -> str:
        """The absolute path of a control file of a cgroup."""
        ...

    def folder(self, path: CgroupPath) -> str:
        """The folder by which a cgroup is known to exist."""
        ...

    def folders(self, path: CgroupPath) -> tuple[str, ...]:
        """Every folder that a cgroup has, that one first."""
        ...

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder; ValueError if it is in no hierarchy."""
        ...

    def membership(self, text: str) -> CgroupPath | None:
        """The cgroup that /proc/PID/cgroup names; None if it names none."""
        ...

    def kill_command(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """The command that kills every process in these cgroups and below; a cgroup that is gone has none."""
        ...

    def kill_files(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """The files of these cgroups into which a 1 does the same; none where the version has no such file."""
        ...


@dataclass(frozen=True, slots=True)
class Unified:
    """cgroup v2."""

    mount: CgroupMount

    @property
    def version(self) -> CgroupVersion:
        """Cgroup v2."""
        return CgroupVersion.V2

    @property
    def mounts(self) -> Mapping[str, str]:
        """The one folder, of every controller."""
        return {"": self.mount.folder}

    @property
    def is_recursive(self) -> bool:
        """By its mount option."""
        return "memory_recursiveprot" in self.mount.options

    def file(self, path: CgroupPath, name: str) -> str:
        """The absolute path of a control file of a cgroup."""
        return self.mount.file(path, name)

    def folder(self, path: CgroupPath) -> str:
        """The cgroup's folder."""
        return self.mount.file(path)

    def folders(self, path: CgroupPath) -> tuple[str, ...]:
        """The cgroup's one folder."""
        return (self.mount.file(path),)

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder; ValueError if it is elsewhere."""
        return self.mount.cgroup_of(folder)

    def membership(self, text: str) -> CgroupPath | None:
        """The cgroup of the line "0::PATH"."""
        return _membership(text, lambda number, names: number == "0" and not names)

    def kill_command(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """A write to each cgroup.kill."""
        return ("sh", "-c", _KILL_UNIFIED, "sh", *self.kill_files(paths))

    def kill_files(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """Each cgroup.kill."""
        return tuple(self.file(path, "cgroup.kill") for path in paths)


@dataclass(frozen=True, slots=True)
class Legacy:
    """cgroup v1: a mount for each controller, or for some that are mounted together, and for systemd's own names.

    by_controller: at least that of the memory controller, whose folders say which cgroups exist.
    """

    by_controller: Mapping[str, CgroupMount]

    @property
    def version(self) -> CgroupVersion:
        """Cgroup v1."""
        return CgroupVersion.V1

    @property
    def mounts(self) -> Mapping[str, str]:
        """The folder of each controller that is mounted, and of systemd's own hierarchy."""
        return {name: mount.folder for name, mount in self.by_controller.items()}

    @property
    def is_recursive(self) -> bool:
        """Never: there is no protection."""
        return False

    def file(self, path: CgroupPath, name: str) -> str:
        """The file in the hierarchy of the controller that its name begins with; of no controller's, in memory's."""
        return self.by_controller.get(name.partition(".")[0], self._memory).file(path, name)

    def folder(self, path: CgroupPath) -> str:
        """The cgroup's folder in the hierarchy of the memory controller."""
        return self._memory.file(path)

    def folders(self, path: CgroupPath) -> tuple[str, ...]:
        """The cgroup's folder in every hierarchy, the memory controller's first."""
        return tuple(dict.fromkeys([self.folder(path), *(one.file(path) for one in self.by_controller.values())]))

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder in any hierarchy; ValueError if it is in none."""
        for mount in self.by_controller.values():
            if mount.holds(folder):
                return mount.cgroup_of(folder)
        raise ValueError(f"'{folder}' is in no hierarchy of cgroup v1")

    def membership(self, text: str) -> CgroupPath | None:
        """The cgroup of the line that names the memory controller."""
        return _membership(text, lambda _, names: MEMORY in names.split(","))

    def kill_command(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """A signal to every process, as there is no cgroup.kill."""
        return ("sh", "-c", _KILL_LEGACY, "sh", *map(self.folder, paths))

    def kill_files(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:  # noqa: ARG002 - it has none
        """None: there is no cgroup.kill."""
        return ()

    @property
    def _memory(self) -> CgroupMount:
        return self.by_controller[MEMORY]


def hierarchy_of(mounts: Iterable[CgroupMount]) -> Hierarchy | None:
    """The hierarchy that has the memory controller: cgroup v1 if it is mounted there; None if nothing has it.

    systemd's hybrid layout, with cgroup v2 mounted beside and without controllers, counts as cgroup v1.
    """
    by_controller: dict[str, CgroupMount] = {}
    unified: CgroupMount | None = None
    for mount in mounts:
        if mount.version is CgroupVersion.V2:
            unified = unified or mount
            continue
        names = [name for name in _CONTROLLERS if name in mount.options]
        names += [SYSTEMD] if f"name={SYSTEMD}" in mount.options else []
        for name in names:
            by_controller.setdefault(name, mount)
    if MEMORY in by_controller:
        return Legacy(by_controller)
    return None if unified is None else Unified(unified)


def find_hierarchy(target: Target, *, deadline: Deadline) -> Hierarchy:
    """The hierarchy that has the target's memory controller.

    Raises EnvironmentNotAbleError if neither version of cgroups is mounted with it.
    """
    text = target.read(MOUNTS, deadline=deadline)
    if text is None:
        raise TargetError("/proc is not mounted.", where=target.address)
    return require_hierarchy(text.decode("utf-8", "surrogateescape"), where=target.address)


def require_hierarchy(mount_table: str, *, where: str) -> Hierarchy:
    """The hierarchy of a mount table; EnvironmentNotAbleError, telling of `where`, if there is none."""
    found = hierarchy_of(parse_mounts(mount_table))
    if found is None:
        raise EnvironmentNotAbleError(
            "no cgroup v2 hierarchy is mounted, nor the memory controller of cgroup v1.",
            where=where,
            next_step="Boot it with systemd.unified_cgroup_hierarchy=1.",
        )
    return found


def _membership(text: str, wanted: Callable[[str, str], bool]) -> CgroupPath | None:
    """The path of the first line whose hierarchy, told by its number and its controllers, is wanted."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if path.startswith("/") and wanted(number, names):
            return CgroupPath.parse(path.removesuffix(_DELETED))
    return None
