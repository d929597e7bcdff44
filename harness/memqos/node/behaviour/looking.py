"""What the cgroups of watched containers hold, as the looks of a sampling tell it one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading
from memqos.probe.looks import Look

__all__ = ["Looking"]


class Looking:
    """The files of each cgroup as they were last seen: a look has those that changed, and all of them at the first.

    source: what the readings are called by. files: which files are looked at.
    """

    def __init__(self, *, source: str, hierarchy: Hierarchy, files: Sequence[str]) -> None:
        self._source = source
        self._hierarchy = hierarchy
        self._files = files
        self._cgroups: dict[CgroupPath, dict[str, FileText]] = {}

    def see(self, look: Look) -> CgroupPath:
        """Take what a look says; the cgroup that it is about. One that is gone has none of its files."""
        path = self._hierarchy.cgroup_of(look.folder)
        if look.why == "gone":
            self._cgroups[path] = dict.fromkeys(self._files, NoFile.NO_FILE)
        else:
            changed = {name: NoFile.NO_FILE if text is None else text for name, text in look.files.items()}
            self._cgroups[path] = {**self._cgroups.get(path, {}), **changed}
        return path

    def reading(self, paths: Sequence[CgroupPath], at: float) -> Reading:
        """What these held at that time, in seconds of the machine's clock; one never seen is left out."""
        cgroups = {path: CgroupReading(path=path, files=self._cgroups[path]) for path in paths if path in self._cgroups}
        return Reading(source=self._source, at=at, cgroups=cgroups)
