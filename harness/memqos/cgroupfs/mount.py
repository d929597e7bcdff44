"""The cgroup mounts of a target's mount table. PURE."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from memqos.errors import CgroupFileError
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath

__all__ = ["MOUNTS", "CgroupMount", "parse_mounts"]

MOUNTS = "/proc/mounts"
"""The mount table."""

_FIELDS = 4
_OCTAL = re.compile(r"\\([0-7]{3})", re.ASCII)
_VERSIONS = {"cgroup": CgroupVersion.V1, "cgroup2": CgroupVersion.V2}


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMount:
    """One mounted hierarchy: its folder, and the options it is mounted with.

    On cgroup v2 these are memory_recursiveprot and the like, on cgroup v1 they name the hierarchy's controllers, or the
    hierarchy itself ("name=systemd").
    """

    folder: str
    options: frozenset[str]
    version: CgroupVersion = CgroupVersion.V2

    def file(self, path: CgroupPath, name: str = "") -> str:
        """The absolute path of a control file of a cgroup, or of the cgroup's own folder."""
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

    Raises CgroupFileError, naming the line, for a line that is no mount.
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
