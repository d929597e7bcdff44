"""An in-memory cgroup tree that stores values as the kernel does; for fakes, never for conformance results.

It answers the reading commands of `cgroupfs.parse` and reads of single files, so that a fake target with it mounted can
be read like a machine. One of cgroup v1 has its files in several hierarchies, and creates a cgroup in all of them.
Nothing in it uses memory: memory.current is 0 and no event ever happens, unless a test sets it with `show`.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memqos.cgroupfs import parse
from memqos.cgroupfs.hierarchy import SYSTEMD, CgroupMount, Hierarchy, Legacy, Unified
from memqos.clock import Deadline
from memqos.engine.translate.kernel_text import shows
from memqos.engine.translate.memory_policy import DEFAULT_POLICY
from memqos.model.knob import Knob, knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath
from memqos.model.reading import read_back
from memqos.target.fake import FakeAnswer, FakeFiles, Handler, RefusedError

__all__ = ["FAKE_HIERARCHY", "FAKE_LEGACY", "FakeCgroups"]

FAKE_HIERARCHY = Unified(
    CgroupMount(folder="/sys/fs/cgroup", options=frozenset({"rw", "nsdelegate", "memory_recursiveprot"}))
)
"""cgroup v2, as trixie mounts it."""

_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"
_BELOW = "cgroup.subtree_control"
"""Empty in a cgroup without children."""
_LEGACY_MOUNTS = {
    name: CgroupMount(folder=f"/sys/fs/cgroup/{name}", options=frozenset(name.split(",")), version=CgroupVersion.V1)
    for name in ("cpu,cpuacct", "cpuset", "hugetlb", "memory", "pids", SYSTEMD)
}
FAKE_LEGACY = Legacy({name: mount for mount in _LEGACY_MOUNTS.values() for name in sorted(mount.options)})
"""cgroup v1, as bookworm mounts it, without controllers that are irrelevant here."""

_AS_WRITTEN: Mapping[str, str] = {
    "memory.swap.high": "max\n",
    "memory.zswap.max": "max\n",
    "memory.zswap.writeback": "1\n",
    "hugetlb.2MB.rsvd.max": "max\n",
    "hugetlb.1GB.rsvd.max": "max\n",
    "cgroup.freeze": "0\n",
    "cgroup.pressure": "1\n",
    "cgroup.max.depth": "max\n",
    "cgroup.max.descendants": "max\n",
    "cpu.idle": "0\n",
    "cpu.max.burst": "0\n",
    "cpu.uclamp.max": "max\n",
    "cpu.uclamp.min": "0.00\n",
    "cpuset.cpus.partition": "member\n",
    "io.weight": "default 100\n",
    "misc.max": "",
}
"""Interface files without rules; any written text is shown."""

_NOT_EMPTIED = (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS)
"""Once set, never empty again while a process is in the cgroup."""

_UNIFIED_FILES: Mapping[str, str] = {
    **_AS_WRITTEN,
    "memory.current": "0\n",
    "memory.swap.current": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    "memory.swap.events": "high 0\nmax 0\nfail 0\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "cgroup.controllers": _CONTROLLERS,
    _BELOW: "",
    "cgroup.procs": "",
}
_LEGACY_FILES: Mapping[str, str] = {
    "memory.usage_in_bytes": "0\n",
    "memory.max_usage_in_bytes": "0\n",
    "memory.failcnt": "0\n",
    "memory.memsw.usage_in_bytes": "0\n",
    "memory.memsw.max_usage_in_bytes": "0\n",
    "memory.memsw.failcnt": "0\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    "cgroup.procs": "",
}
_FILES = {CgroupVersion.V1: _LEGACY_FILES, CgroupVersion.V2: _UNIFIED_FILES}
_INHERITED = (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS)
"""On cgroup v1, libcontainer and the agent give a new cgroup its parent's values."""


class FakeCgroups:
    """The tree. page_size: of the imitated kernel, in bytes. hierarchy: where its files are.

    numa_nodes: the root's cpuset.mems, which exists on cgroup v1 only. Several threads may use it: an iteration over
    the cgroups sees a snapshot.
    """

    def __init__(self, *, page_size: int = 4096, hierarchy: Hierarchy = FAKE_HIERARCHY, numa_nodes: str = "") -> None:
        self.page_size = page_size
        self.hierarchy = hierarchy
        root = dict(_FILES[hierarchy.version])
        if hierarchy.version is CgroupVersion.V1:
            root |= {Knob.CPUSET_CPUS: "\n", Knob.CPUSET_MEMS: f"{numa_nodes}\n"}
        self._cgroups: dict[CgroupPath, dict[str, str]] = {ROOT: root}
        self.policies: dict[CgroupPath, str] = {}
        """The NUMA memory policy of each cgroup's first process, as numa_maps shows it, if it is not the default."""
        self._scores: dict[CgroupPath, int] = {}
        self._second: dict[CgroupPath, tuple[int, int]] = {}
        self._numbers = itertools.count(2)

    @property
    def mounts(self) -> dict[str, FakeFiles]:
        """Itself at every mount point, for FakeTarget."""
        return dict.fromkeys(self.hierarchy.mounts.values(), self)

    def commands(self) -> dict[tuple[str, ...], Handler]:
        """The scripts that read a tree, for FakeTarget."""
        return {
            parse.files_command(())[0]: self._scan_files,
            parse.first_process_command("oom_score_adj", ()): self._first_processes,
            parse.first_process_command("numa_maps", ()): self._memory_policies,
            parse.named_processes_command("oom_score_adj", "", "")[:5]: self._named_processes,
        }

    def run_in(self, path: CgroupPath, oom_score_adj: int) -> None:
        """Put a process with this oom_score_adj into a cgroup, as its first and only one."""
        self._scores[path] = oom_score_adj
        if path in self._cgroups:
            self._cgroups[path]["cgroup.procs"] = "1\n"

    def run_second(self, path: CgroupPath, oom_score_adj: int) -> None:
        """Put a second process with this oom_score_adj into a cgroup, in place of the previous second one."""
        self._second[path] = (next(self._numbers), oom_score_adj)

    def lose_process(self, path: CgroupPath) -> None:
        """Remove the first process from a cgroup; a cgroup without processes does not change."""
        self._scores.pop(path, None)
        if path in self._cgroups:
            self._cgroups[path]["cgroup.procs"] = ""

    def make(self, path: CgroupPath) -> None:
        """Create a cgroup and its ancestors; an existing one stays unchanged."""
        for cgroup in (*reversed(path.ancestors), path):
            self._cgroups.setdefault(cgroup, self._fresh(cgroup))
            if cgroup.parts and _BELOW in (above := self._cgroups[cgroup.parent]):
                above[_BELOW] = _CONTROLLERS

    def remove(self, path: CgroupPath) -> None:
        """Remove a cgroup and its descendants; a missing one is not an error."""
        for cgroup in self._below(path):
            self._cgroups.pop(cgroup, None)

    def __contains__(self, path: CgroupPath) -> bool:
        return path in self._cgroups

    def text(self, path: CgroupPath, name: str) -> str:
        """A file's text; KeyError if it does not exist."""
        return self._cgroups[path][name]

    def below(self, roots: Iterable[CgroupPath]) -> list[CgroupPath]:
        """The existing ones of these cgroups, and their descendants."""
        return sorted({path for root in roots for path in self._below(root)})

    def texts(self, path: CgroupPath, names: Iterable[str]) -> dict[str, str | None]:
        """Files of an existing cgroup, None for those that it lacks."""
        return {name: self._cgroups[path].get(name) for name in names}

    def stats(self, path: CgroupPath) -> Mapping[str, object]:
        """The memory of a cgroup as containerd 1.7 computes it for CRI's ContainerStats."""
        texts = self.texts(path, ("memory.current", "memory.max", "memory.stat"))
        counted = dict(line.split() for line in (texts["memory.stat"] or "").splitlines())
        usage, limit = int(texts["memory.current"] or 0), (texts["memory.max"] or "max").strip()
        working = max(0, usage - int(counted.get("inactive_file", 0)))
        said = {
            "usage_bytes": usage,
            "working_set_bytes": working,
            "rss_bytes": counted.get("anon", 0),
            "available_bytes": 0 if limit == "max" else int(limit) - working,
            "page_faults": counted.get("pgfault", 0),
            "major_page_faults": counted.get("pgmajfault", 0),
        }
        return {"memory": {name: {"value": str(value)} for name, value in said.items()}}

    def memory(self, path: CgroupPath) -> Mapping[str, int]:
        """Its usage, and its limit if it has one, in bytes."""
        limit = self.text(path, "memory.max").strip()
        return {"usage": int(self.text(path, "memory.current")), **({"limit": int(limit)} if limit.isdecimal() else {})}

    def show(self, path: CgroupPath, name: str, text: str) -> None:
        """Set the text of a file, as if the kernel had counted something."""
        self._cgroups[path][name] = text

    def lose_file(self, path: CgroupPath, name: str) -> None:
        """Remove a file from a cgroup, as on a kernel without it; KeyError if it is missing."""
        del self._cgroups[path][name]

    def snapshot(self) -> dict[CgroupPath, dict[str, str]]:
        """The texts of all files of all cgroups, as they are now."""
        return {path: dict(files) for path, files in self._cgroups.items()}

    def put(self, path: CgroupPath, name: str, text: str) -> None:
        """Write to an interface file with the kernel's rules: amounts are rounded down to pages, invalid ones refused.

        Raises RefusedError with the kernel's words.
        """
        files = self._cgroups.get(path, {})
        if name not in files:
            raise RefusedError("No such file or directory")
        if name in _AS_WRITTEN:
            files[name] = f"{text.strip()}\n"
            return
        if name not in list(Knob):
            raise RefusedError("Permission denied")
        if name in _NOT_EMPTIED and files[name].strip() and not text.strip() and files.get("cgroup.procs", "").strip():
            raise RefusedError("No space left on device")
        try:
            files[name] = f"{shows(name, text, self.page_size)}\n"
        except ValueError:
            raise RefusedError("Invalid argument") from None

    def read(self, path: str) -> bytes | None:
        """A file's bytes, as FakeTarget requests them."""
        folder, name = self._split(path)
        if self._cgroup(path) in self._cgroups:
            raise RefusedError("Is a directory")
        text = self._cgroups.get(folder, {}).get(name)
        return None if text is None else text.encode()

    def write(self, path: str, data: bytes) -> None:
        """One write to a file, as FakeTarget requests it."""
        folder, name = self._split(path)
        self.put(folder, name, data.decode())

    def _fresh(self, path: CgroupPath) -> dict[str, str]:
        version = self.hierarchy.version
        knobs = {str(knob): f"{read_back(knob, knob.kernel_default, self.page_size)}\n" for knob in knobs_of(version)}
        if version is CgroupVersion.V1:
            above = self._cgroups[path.parent]
            knobs |= {name: above[name] for name in _INHERITED}
        return {**knobs, **_FILES[version]}

    def _cgroup(self, path: str) -> CgroupPath:
        return self.hierarchy.cgroup_of(path.rstrip("/") if path != "/" else path)

    def _split(self, path: str) -> tuple[CgroupPath, str]:
        """The cgroup and the file's name; no name for a cgroup's own folder, or a file of another hierarchy."""
        if path in self.hierarchy.mounts.values():
            return ROOT, ""
        folder, name = posixpath.split(path)
        cgroup = self._cgroup(folder)
        return cgroup, name if self.hierarchy.file(cgroup, name) == path else ""

    def _scan_files(self, _: Sequence[str], stdin: bytes, __: Deadline) -> FakeAnswer:
        contents: list[bytes] = []
        complaints: list[bytes] = []
        for path in stdin.decode().split("\0")[:-1]:
            data = self.read(path)
            if data is None:
                complaints.append(f"grep: {path}: No such file or directory\n".encode())
            else:
                contents += self._lines(path, data.decode())
        return (123 if complaints else 0), b"".join(contents), b"".join(complaints)

    def _first_processes(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        inhabited = [path for path in tuple(self._scores) if path in self._cgroups]
        places = {self.hierarchy.file(path, "cgroup.procs"): path for path in inhabited}
        lines = [f"{file}\0{self._scores[places[file]]}\n" for file in argv[5:] if file in places]
        return 0, "".join(lines).encode(), b""

    def _memory_policies(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        places = {self.hierarchy.file(path, "cgroup.procs"): path for path in tuple(self._scores)}
        found = {file: self.policies.get(places[file], DEFAULT_POLICY) for file in argv[5:] if file in places}
        return 0, "".join(f"{file}\0{0x400000:08x} {policy} file=/a\n" for file, policy in found.items()).encode(), b""

    def _named_processes(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        """Every program that is queried is run by all of them."""
        path = self._split(argv[5])[0]
        several = [(1, self._scores[path])] if path in self._scores and path in self._cgroups else []
        several += [self._second[path]] if several and path in self._second else []
        return 0, "".join(f"{pid} {score}\n" for pid, score in several).encode(), b""

    def _below(self, root: CgroupPath) -> Iterator[CgroupPath]:
        return (path for path in tuple(self._cgroups) if path == root or path.below(root))

    @staticmethod
    def _lines(path: str, text: str) -> list[bytes]:
        return [f"{path}\0{line}\n".encode() for line in text.splitlines()]

    def list(self, path: str) -> tuple[str, ...] | None:
        """The names in a cgroup's folder, as FakeTarget requests them."""
        cgroup = self._cgroup(path)
        files = self._cgroups.get(cgroup)
        if files is None:
            return None
        children = [other.name for other in tuple(self._cgroups) if other.parts and other.parent == cgroup]
        return tuple(sorted([*files, *children]))
