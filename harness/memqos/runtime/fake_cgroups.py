"""A cgroup v2 tree in memory, which keeps values as the kernel does; for fakes, never for conformance results.

It answers the reading commands of `scan` and single files, so that a fake target with it mounted can be read like a
machine. Nothing in it uses memory: memory.current is 0 and no event ever happens, unless a test says so with `show`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from memqos.cgroupfs import scan
from memqos.cgroupfs.mount import CgroupMount
from memqos.clock import Deadline
from memqos.engine.translate.kernel_text import shows
from memqos.model.knob import Knob, knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath
from memqos.target.fake import Handler, Outcome, RefusedError

__all__ = ["FAKE_MOUNT", "FakeCgroups"]

FAKE_MOUNT = CgroupMount(folder="/sys/fs/cgroup", options=frozenset({"rw", "nsdelegate", "memory_recursiveprot"}))

_COUNTERS: Mapping[str, str] = {
    "memory.current": "0\n",
    "memory.swap.current": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    "memory.swap.events": "high 0\nmax 0\nfail 0\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "cgroup.procs": "",
}
_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"


class FakeCgroups:
    """The tree. page_size: of the kernel it stands in for, in bytes. mount: where it is mounted."""

    def __init__(self, *, page_size: int = 4096, mount: CgroupMount = FAKE_MOUNT) -> None:
        self._page_size = page_size
        self.mount = mount
        root = {"cgroup.controllers": _CONTROLLERS, "cgroup.subtree_control": _CONTROLLERS, "cgroup.procs": ""}
        self._cgroups: dict[CgroupPath, dict[str, str]] = {ROOT: root}

    def commands(self) -> dict[tuple[str, ...], Handler]:
        """The scripts of the commands by which a tree is read, for FakeTarget."""
        return {scan.tree_command("", ())[:4]: self._scan_tree, scan.files_command(())[0]: self._scan_files}

    def make(self, path: CgroupPath) -> None:
        """Make a cgroup and those above it; one that is there stays as it is."""
        for cgroup in (*reversed(path.ancestors), path):
            self._cgroups.setdefault(cgroup, self._fresh())

    def remove(self, path: CgroupPath) -> None:
        """Remove a cgroup and all below it; one that is not there is no error."""
        for cgroup in [cgroup for cgroup in self._cgroups if cgroup == path or cgroup.below(path)]:
            del self._cgroups[cgroup]

    def __contains__(self, path: CgroupPath) -> bool:
        return path in self._cgroups

    def text(self, path: CgroupPath, name: str) -> str:
        """A file's text; KeyError if it is not there."""
        return self._cgroups[path][name]

    def show(self, path: CgroupPath, name: str, text: str) -> None:
        """Let a file show this text, as if the kernel had counted something."""
        self._cgroups[path][name] = text

    def put(self, path: CgroupPath, name: str, text: str) -> None:
        """Write to a control file as the kernel takes it: amounts are rounded down to pages, wrong ones refused.

        Raises RefusedError with the kernel's words.
        """
        files = self._cgroups.get(path, {})
        if name not in files:
            raise RefusedError("No such file or directory")
        if name not in list(Knob):
            raise RefusedError("Permission denied")
        try:
            files[name] = f"{shows(name, text, self._page_size)}\n"
        except ValueError:
            raise RefusedError("Invalid argument") from None

    def read(self, path: str) -> bytes | None:
        """A file's bytes, as FakeTarget asks."""
        folder, name = self._split(path)
        if self._cgroup(path) in self._cgroups:
            raise RefusedError("Is a directory")
        text = self._cgroups.get(folder, {}).get(name)
        return None if text is None else text.encode()

    def write(self, path: str, data: bytes) -> None:
        """One write to a file, as FakeTarget asks."""
        folder, name = self._split(path)
        self.put(folder, name, data.decode())

    def _fresh(self) -> dict[str, str]:
        knobs = {str(knob): f"{knob.kernel_default}\n" for knob in knobs_of(CgroupVersion.V2)}
        return {**knobs, **_COUNTERS, "cgroup.controllers": _CONTROLLERS, "cgroup.subtree_control": _CONTROLLERS}

    def _cgroup(self, path: str) -> CgroupPath:
        return self.mount.cgroup_of(path.rstrip("/") if path != "/" else path)

    def _split(self, path: str) -> tuple[CgroupPath, str]:
        folder, name = posixpath.split(path)
        return self._cgroup(folder) if path != self.mount.folder else ROOT, name

    def _scan_tree(self, argv: Sequence[str], _: bytes, __: Deadline) -> Outcome:
        root, tests = self._cgroup(argv[4]), argv[5:]
        names = set(tests[1::3])
        listing: list[bytes] = []
        contents: list[bytes] = []
        for path, files in self._below(root):
            listing.append(f"d {self.mount.file(path)}\0".encode())
            for name in sorted(names & set(files)):
                listing.append(f"f {self.mount.file(path, name)}\0".encode())
                contents += self._lines(self.mount.file(path, name), files[name])
        return 0, b"".join([*listing, b"\0", *contents]), b""

    def _scan_files(self, _: Sequence[str], stdin: bytes, __: Deadline) -> Outcome:
        contents: list[bytes] = []
        complaints: list[bytes] = []
        for path in stdin.decode().split("\0")[:-1]:
            data = self.read(path)
            if data is None:
                complaints.append(f"grep: {path}: No such file or directory\n".encode())
            else:
                contents += self._lines(path, data.decode())
        return (123 if complaints else 0), b"".join(contents), b"".join(complaints)

    def _below(self, root: CgroupPath) -> Iterator[tuple[CgroupPath, dict[str, str]]]:
        return ((path, self._cgroups[path]) for path in sorted(self._cgroups) if path == root or path.below(root))

    @staticmethod
    def _lines(path: str, text: str) -> list[bytes]:
        return [f"{path}\0{line}\n".encode() for line in text.splitlines()]

    def list(self, path: str) -> tuple[str, ...] | None:
        """The names in a cgroup's folder, as FakeTarget asks."""
        cgroup = self._cgroup(path)
        if cgroup not in self._cgroups:
            return None
        children = [other.name for other in self._cgroups if other.parts and other.parent == cgroup]
        return tuple(sorted([*self._cgroups[cgroup], *children]))
