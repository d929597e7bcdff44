"""Where a target mounts its cgroup v2 hierarchy, found in its /proc/mounts. The parsing is PURE."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.errors import CgroupFileError, EnvironmentNotAbleError, TargetError
from memqos.model.path import ROOT, CgroupPath
from memqos.target.base import Target

__all__ = ["CgroupMount", "find_mount", "parse_mounts"]

_MOUNTS = "/proc/mounts"
_FIELDS = 4
_OCTAL = re.compile(r"\\([0-7]{3})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMount:
    """A mounted cgroup v2 hierarchy: its folder and the options it is mounted with (memory_recursiveprot …)."""

    folder: str
    options: frozenset[str]

    def file(self, path: CgroupPath, name: str = "") -> str:
        """The absolute path of a control file of a cgroup, or of the cgroup's own folder."""
        parts = (*path.parts, name) if name else path.parts
        return posixpath.join(self.folder, *parts)

    def cgroup_of(self, folder: str) -> CgroupPath:
        """The cgroup of an absolute folder below this mount; ValueError if it is elsewhere."""
        if folder == self.folder:
            return ROOT
        prefix = self.folder.rstrip("/") + "/"
        if not folder.startswith(prefix):
            raise ValueError(f"'{folder}' is not below '{self.folder}'")
        return CgroupPath(tuple(folder.removeprefix(prefix).split("/")))


def parse_mounts(text: str, *, path: str = _MOUNTS) -> tuple[tuple[CgroupMount, ...], bool]:
    """Every cgroup v2 mount of a mount table, in its order, and whether cgroup v1 holds the memory controller.

    Raises CgroupFileError, naming the line, for a line that is no mount.
    """
    found: list[CgroupMount] = []
    memory_on_v1 = False
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split(" ")
        if len(fields) < _FIELDS:
            raise CgroupFileError(
                f"'{line[:200]}' is not a mount.",
                where=f"{path}:{number}",
                data={"path": path, "line": number, "text": line},
            )
        options = frozenset(fields[3].split(","))
        if fields[2] == "cgroup2":
            folder = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[1])
            found.append(CgroupMount(folder=folder, options=options))
        memory_on_v1 |= fields[2] == "cgroup" and "memory" in options
    return tuple(found), memory_on_v1


def find_mount(target: Target, *, deadline: Deadline) -> CgroupMount:
    """The target's cgroup v2 mount.

    Raises EnvironmentNotAbleError if there is none, or if the memory controller belongs to cgroup v1.
    """
    text = target.read(_MOUNTS, deadline=deadline)
    if text is None:
        raise TargetError("/proc is not mounted.", where=target.address)
    mounts, memory_on_v1 = parse_mounts(text.decode("utf-8", "surrogateescape"))
    if memory_on_v1 or not mounts:
        why = "its memory controller is on cgroup v1" if memory_on_v1 else "no cgroup v2 hierarchy is mounted"
        raise EnvironmentNotAbleError(
            f"memory QoS needs cgroup v2, and {why}.",
            where=target.address,
            next_step="Boot it with systemd.unified_cgroup_hierarchy=1.",
        )
    return mounts[0]
