"""A cgroup on a target: one folder on cgroup v2, a folder in every hierarchy on cgroup v1.

A request's `mounts` maps controllers to their mount points; on cgroup v2 the only key is "". The extended attributes
that mark a cgroup as memqos's are on one folder: on cgroup v1, that of the memory controller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from pathlib import Path

from memqos.agent import channel

MEMORY = "memory"
SYSTEMD = "systemd"
ROUNDS = 10


class StepError(Exception):
    """A step could not be done."""

    def __init__(self, what: str, kind: str = "refused") -> None:
        super().__init__(what)
        self.what = what
        self.kind = kind


class Cgroup:
    """A cgroup of cgroup v2."""

    def __init__(self, mounts: dict[str, str], path: str) -> None:
        self.mounts = {name: Path(folder) for name, folder in mounts.items()}
        self.below = path.lstrip("/")

    @property
    def mount(self) -> Path:
        """The mount point whose folder decides whether the cgroup exists."""
        return self.mounts[""]

    @property
    def folder(self) -> Path:
        """The folder that decides whether the cgroup exists."""
        return self.mount / self.below

    @property
    def folders(self) -> list[Path]:
        """Every folder of the cgroup."""
        return [self.folder]

    @property
    def systemd_folder(self) -> Path:
        """The folder that systemd makes for a slice."""
        return self.folder

    def file(self, name: str) -> Path:
        """An interface file."""
        return self.folder / name

    def complete(self) -> None:
        """Enable every controller for its children, once its folders exist.

        libcontainer does the same for the parents of each cgroup that it makes.
        """
        above = str(self.mount)
        for name in self.below.split("/"):
            handed = get(f"{above}/cgroup.subtree_control").split()
            for word in get(f"{above}/cgroup.controllers").split():
                if word not in handed:
                    hand_down(above, word)
            above = f"{above}/{name}"

    def processes(self) -> list[int]:
        """The processes in it and below it; none if it vanished or cannot have any."""
        with contextlib.suppress(StepError):
            if "populated 0" in get(self.file("cgroup.events")):
                return []
        return [pid for below, _, _ in os.walk(self.folder) for pid in processes_of(Path(below))]

    def kill(self) -> None:
        """Kill every process in it and below it."""
        put(self.folder / "cgroup.kill", "1")


class LegacyCgroup(Cgroup):
    """A cgroup of cgroup v1."""

    @property
    def mount(self) -> Path:
        """The mount of the memory controller."""
        return self.mounts[MEMORY]

    @property
    def folders(self) -> list[Path]:
        """Its folder in every hierarchy, including systemd's own, where runtimes make one too."""
        return list(dict.fromkeys(mount / self.below for mount in self.mounts.values()))

    @property
    def systemd_folder(self) -> Path:
        """Its folder in systemd's own hierarchy."""
        return self.mounts.get(SYSTEMD, self.mount) / self.below

    def file(self, name: str) -> Path:
        """An interface file, in the hierarchy of its controller (the first word of its name)."""
        return self.mounts.get(name.partition(".")[0], self.mount) / self.below / name

    def complete(self) -> None:
        """Set its CPUs and NUMA nodes, as libcontainer does: a new cgroup has none, so no process can run in it."""
        above = self.mounts.get("cpuset")
        for name in Path(self.below).parts if above else ():
            assert above is not None  # noqa: S101 - the loop runs only with one
            for file in ("cpuset.cpus", "cpuset.mems"):
                if not get(above / name / file).strip():
                    put(above / name / file, get(above / file).strip())
            above = above / name

    def kill(self) -> None:
        """Send SIGKILL to every process until none is left."""
        for _ in range(ROUNDS):
            # The kernel prints 0 for a process outside this PID namespace; kill(0) would kill this process's own group.
            found = [pid for pid in self.processes() if pid > 0]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return


def cgroup_at(mounts: dict[str, str], path: str) -> Cgroup:
    """The cgroup of this path, for the mounted cgroup version."""
    return Cgroup(mounts, path) if "" in mounts else LegacyCgroup(mounts, path)


def hand_down(above: str, controller: str) -> None:
    """Enable one controller. A failure (cpu with real-time tasks) shows when a file of that controller is written."""
    try:
        put(f"{above}/cgroup.subtree_control", "+" + controller)
    except StepError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in {errno.EBUSY, errno.EINVAL}:
            raise


def make_folders(cgroup: Cgroup) -> None:
    """Make the missing folders and their parents."""
    for folder in cgroup.folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StepError(f"'{folder}' cannot be made: {error.strerror}") from error


def removed(cgroup: Cgroup) -> bool:
    """Remove what can be removed now, deepest first; True if nothing is left."""
    for folder in cgroup.folders:
        for below, _, _ in os.walk(folder, topdown=False):
            try:
                Path(below).rmdir()
            except OSError as error:
                # EBUSY until its last process is reaped; ENOENT if systemd removed it first.
                if error.errno not in {errno.EBUSY, errno.ENOENT, errno.ENOTEMPTY}:
                    raise StepError(f"'{below}' cannot be removed: {error.strerror}") from error
    return not any(folder.is_dir() for folder in cgroup.folders)


def processes_of(folder: Path) -> list[int]:
    """The processes of one cgroup; none if it vanished or cannot have any."""
    try:
        return [int(word) for word in get(folder / "cgroup.procs").split()]
    except StepError:
        return []


def set_attribute(folder: Path, name: str, text: str) -> None:
    """Write an extended attribute."""
    try:
        os.setxattr(folder, name, text.encode())
    except OSError as error:
        raise StepError(f"'{folder}' cannot be marked: {error.strerror}") from error


def read_attribute(folder: Path, name: str) -> str | None:
    """An extended attribute's text; None if it or the folder is missing."""
    try:
        return os.getxattr(folder, name).decode("utf-8", "replace")
    except OSError:
        return None


def get(path: Path | str) -> str:
    """A file's text."""
    try:
        return channel.content(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise StepError(f"'{path}' cannot be read: {error.strerror}") from error


def put(path: Path | str, text: str) -> None:
    """Write text to an interface file with one write(2)."""
    try:
        channel.write(path, text.encode())
    except OSError as error:
        raise StepError(f"writing '{text}' to '{path}' failed: {error.strerror}") from error
