"""A target's cgroup mounts: one hierarchy on cgroup v2, several with the same paths on cgroup v1.

Callers ask this port for a cgroup's files and need not know the version. Parsing of the mount table is pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from memqos.clock import Deadline
from memqos.errors import CgroupFileError, EnvironmentNotAbleError, TargetError
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath
from memqos.target.base import Target

__all__ = [
    "MOUNTS",
    "RECURSIVE_PROTECTION",
    "SYSTEMD",
    "CgroupMount",
    "Hierarchy",
    "Legacy",
    "Unified",
    "find_hierarchy",
    "hierarchy_of",
    "parse_mounts",
    "require_hierarchy",
]

MOUNTS = "/proc/mounts"
"""The mount table."""

RECURSIVE_PROTECTION = "memory_recursiveprot"
"""The mount option of cgroup v2 that passes unclaimed protection on to children."""

_ELSEWHERE = "(not delegated)"
_FIELDS = 4
_OCTAL = re.compile(r"\\([0-7]{3})", re.ASCII)
_VERSIONS = {"cgroup": CgroupVersion.V1, "cgroup2": CgroupVersion.V2}


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMount:
    """One mounted hierarchy: its folder and its mount options.

    On cgroup v2 these are memory_recursiveprot and the like; on cgroup v1 they name the hierarchy's controllers, or the
    hierarchy itself ("name=systemd").
    """

    folder: str
    options: frozenset[str]
    version: CgroupVersion = CgroupVersion.V2

    def file(self, path: CgroupPath, name: str = "") -> str:
        """The absolute path of an interface file of a cgroup, or of the cgroup's own folder."""
        parts = (*path.parts, name) if name else path.parts
        return posixpath.join(self.folder, *parts)

    def holds(self, folder: str) -> bool:
        """Whether this absolute folder is the mount's or below it."""
        return folder == self.folder or folder.startswith(self.folder.rstrip("/") + "/")

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder below this mount; ValueError if it is elsewhere."""
        if not self.holds(folder):
            raise ValueError(f"'{folder}' is not below '{self.folder}'")
        return ROOT if folder == self.folder else CgroupPath.parse(folder.removeprefix(self.folder))


def parse_mounts(text: str, *, path: str = MOUNTS) -> tuple[CgroupMount, ...]:
    """Every cgroup mount of a mount table, of both versions, in its order.

    Raises CgroupFileError, naming the line, for a malformed line.
    """
    found: list[CgroupMount] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split(" ")
        if len(fields) < _FIELDS:
            raise CgroupFileError(
                f"'{line[:200]}' is not a mount.",
                where=f"{path}:{number}",
                data={"path": path, "line": number, "text": line},
            )
        if fields[2] in _VERSIONS:
            folder = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[1])
            options = frozenset(fields[3].split(","))
            found.append(CgroupMount(folder=folder, options=options, version=_VERSIONS[fields[2]]))
    return tuple(found)


MEMORY = "memory"
SYSTEMD = "systemd"
"""systemd's own hierarchy of cgroup v1, which has no controller; /proc/PID/cgroup calls it name=systemd."""

_CONTROLLERS = (
    "blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "io", MEMORY, "misc", "net_cls", "net_prio",
    "perf_event", "pids", "rdma",
)  # fmt: skip
_DELETED = " (deleted)"

_KILL_UNIFIED = 'for file; do [ ! -e "$file" ] || echo 1 > "$file" || [ ! -e "$file" ] || exit 1; done'
# A process may have forked between the listing and the signal, so the list is read again: for about a second; after
# that, removing the cgroup fails and reports it. 0 is a process that this PID namespace does not see; for kill it
# would be the script itself.
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
        """The mount point of each controller; the name "" stands for every controller."""
        ...

    @property
    def is_recursive(self) -> bool:
        """Whether unclaimed protection of a cgroup is passed on to its children (memory_recursiveprot)."""
        ...

    def file(self, path: CgroupPath, name: str) -> str:
        """The absolute path of an interface file of a cgroup."""
        ...

    def lacks(self, name: str) -> bool:
        """Whether no cgroup can have this interface file, since its controller is not delegated."""
        ...

    def folder(self, path: CgroupPath) -> str:
        """The folder whose existence means that the cgroup exists."""
        ...

    def folders(self, path: CgroupPath) -> tuple[str, ...]:
        """Every folder of a cgroup, that one first."""
        ...

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder; ValueError if it is in no hierarchy."""
        ...

    def membership(self, text: str) -> CgroupPath | None:
        """The cgroup in the text of /proc/PID/cgroup; None if it has none."""
        ...

    def kill_command(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """The command that kills every process in these cgroups and below; a missing cgroup has none."""
        ...

    def kill_files(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """The files of these cgroups for which writing 1 does the same; none if the version has no such file."""
        ...


@dataclass(frozen=True, slots=True)
class Unified:
    """cgroup v2. above: the cgroup below which paths are, and that `mount.folder` is; the root if nothing is above.

    controllers: those that its cgroups can have; None for all of the kernel's.
    """

    mount: CgroupMount
    above: CgroupPath = ROOT
    controllers: frozenset[str] | None = None

    def within(self, path: CgroupPath, controllers: frozenset[str] | None = None) -> Unified:
        """The part of it below one of its cgroups, which has these controllers; paths lead to files of that part."""
        above = CgroupPath((*self.above.parts, *path.parts))
        return Unified(replace(self.mount, folder=self.mount.file(path)), above=above, controllers=controllers)

    def lacks(self, name: str) -> bool:
        """Whether no cgroup can have this interface file, since its controller is not delegated."""
        controller = name.partition(".")[0]
        return self.controllers is not None and controller in _CONTROLLERS and controller not in self.controllers

    @property
    def version(self) -> CgroupVersion:
        """Cgroup v2."""
        return CgroupVersion.V2

    @property
    def mounts(self) -> Mapping[str, str]:
        """The mount point, for every controller."""
        return {"": self.mount.folder}

    @property
    def is_recursive(self) -> bool:
        """From its mount option."""
        return RECURSIVE_PROTECTION in self.mount.options

    def file(self, path: CgroupPath, name: str) -> str:
        """The absolute path of an interface file of a cgroup."""
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
        """The cgroup of the line "0::PATH"; one that is not below `above` is no path of this part, and is told so."""
        found = _membership(text, lambda number, names: number == "0" and not names)
        if found is None or not self.above.parts:
            return found
        if not found.below(self.above):
            return CgroupPath((_ELSEWHERE, *found.parts))
        return CgroupPath(found.parts[len(self.above.parts) :])

    def kill_command(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """A write to each cgroup.kill."""
        return ("sh", "-c", _KILL_UNIFIED, "sh", *self.kill_files(paths))

    def kill_files(self, paths: Sequence[CgroupPath]) -> tuple[str, ...]:
        """Each cgroup.kill."""
        return tuple(self.file(path, "cgroup.kill") for path in paths)


@dataclass(frozen=True, slots=True)
class Legacy:
    """cgroup v1: a mount for each controller, or for several that are mounted together, and for systemd's own names.

    by_controller: includes the memory controller's, whose folders decide which cgroups exist.
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
        """False: there is no protection."""
        return False

    def lacks(self, name: str) -> bool:  # noqa: ARG002 - all that is mounted is there
        """Never: nothing of cgroup v1 is delegated."""
        return False

    def file(self, path: CgroupPath, name: str) -> str:
        """The file in the hierarchy of the controller that prefixes its name; others are in memory's hierarchy."""
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
    """The hierarchy with the memory controller: cgroup v1 if it is mounted there; None without one.

    systemd's hybrid layout, which also mounts cgroup v2 without controllers, counts as cgroup v1.
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
    """The hierarchy of a mount table; EnvironmentNotAbleError, naming `where`, if there is none."""
    found = hierarchy_of(parse_mounts(mount_table))
    if found is None:
        raise EnvironmentNotAbleError(
            "neither cgroup v2 nor the memory controller of cgroup v1 is mounted.",
            where=where,
            next_step="Boot it with systemd.unified_cgroup_hierarchy=1.",
        )
    return found


def _membership(text: str, wanted: Callable[[str, str], bool]) -> CgroupPath | None:
    """The path in the first line with this hierarchy number or controllers."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if path.startswith("/") and wanted(number, names):
            return CgroupPath.parse(path.removesuffix(_DELETED))
    return None
