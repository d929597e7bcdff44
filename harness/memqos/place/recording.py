"""Records a node on which a kubelet's pods run, as a tree: everything is read, and nothing is written there.

Sources: the kernel's files of cgroups and processes, the runtime's lists of pods and containers, the kubelet's command
line and the files that it names. docs/reference/recorded-trees.md describes the result.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memqos.catalog.allocation_state import CHECKPOINTS
from memqos.catalog.kubelet_flags import FIELD_FLAGS, flag_words
from memqos.catalog.recorded_trees import SANDBOX
from memqos.cgroupfs.hierarchy import RECURSIVE_PROTECTION
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.verdict import EVENTS, OOM_SCORE_ADJ, PROCESSES
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import EnvironmentNotAbleError, MachineryError, TargetError
from memqos.model.knob import knobs_of
from memqos.model.node import NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.place.discovery import SOCKETS, default_program, listening, nothing_listens
from memqos.probe.facts import target_facts
from memqos.runtime.cri import CriRuntime, connect
from memqos.target.base import CommandResult, Target, checked

__all__ = ["ReadOnlyTarget", "recorded"]


class ReadOnlyTarget:
    """A target without writes. The caller must not run commands that change anything."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def address(self) -> str:
        """The target's own."""
        return self._target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """As the target does."""
        return self._target.run(argv, deadline=deadline, stdin=stdin)

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """As the target does."""
        return self._target.read(path, deadline=deadline)

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:  # noqa: ARG002
        """TargetError, always."""
        raise TargetError(f"this machine is read-only: {path} is not written.", where=self.address)

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """As the target does."""
        return self._target.list(path, deadline=deadline)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """As the target does."""
        return self._target.open(argv)

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """As the target does; the new socket is on this host."""
        return self._target.forward(remote_socket)


LOOK_SECONDS = 120.0
_KIB = 1024
_PARENT, _SLICE = "kubepods", "kubepods.slice"
_SOCKETS = (
    *SOCKETS,
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
)

KUBELET_SCRIPT = """\
inside=
for process in /proc/[0-9]*; do
  name=$(cat "$process/comm" 2>/dev/null)
  case "$name" in
    kubelet) ;;
    k3s | k3s-server | k3s-agent | kubelite) inside=$name; continue ;;
    *) continue ;;
  esac
  [ "$(readlink "$process/ns/mnt")" = "$(readlink /proc/self/ns/mnt)" ] || continue
  "$process/exe" --version | head -n 1
  readlink "$process/cwd"
  tr '\\0' '\\n' < "$process/cmdline"
  exit 0
done
[ -z "$inside" ] || echo "inside $inside"
exit 0
"""
"""Finds the first kubelet in the same mount namespace; those of kind's nodes have file systems of their own.

Without one, the program that contains a kubelet: k3s, or kubelite of MicroK8s.
"""

_RULING = frozenset({*FIELD_FLAGS, "config-dir", "experimental-allocatable-ignore-eviction"})
"""The kubelet's command line options that the rules depend on; they override the file."""

SYSTEMD_SCRIPT = "systemctl --version 2>/dev/null | head -n 1"
VERSION_SCRIPT = """\
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
[ "$2" != crun ] || [ -e /run/crun ] || exit 0
"$1" --version 2>/dev/null | head -n 1
exit 0
"""
"""crun creates its state folder with any command: it is only run where that folder exists."""

PLAIN_SCRIPT = """\
[ -e "$1" ] || [ ! -L "$1" ] || exit 6
[ -e "$1" ] || exit 3
[ -f "$1" ] || exit 4
[ -r "$1" ] || exit 5
head -c "$2" -- "$1"
"""
"""Reads a regular file; a device never ends, and a FIFO waits for a writer."""
_WHY_NOT = {
    3: "it no longer exists",
    4: "it is not a regular file",
    5: "it may not be read",
    6: "it is a dangling link",
}
_MOST_BYTES = 1 << 20
_MOST_DROP_INS = 256
DROP_INS_SCRIPT = """\
[ -d "$1" ] || exit 3
find "$1" ! -type d -name "*.conf" -print0 | head -c "$2"
"""

FOLDERS_SCRIPT = 'find "$@" -type d -print0 2>/dev/null; exit 0'
_USE = ("memory.current", "memory.stat", "memory.events", "memory.pressure", "memory.swap.current")
_COUNTS = (PROCESSES, EVENTS, "pids.current")
"""The files that show whether the processes of containers are in their cgroups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kubelet:
    """A kubelet's process. version: its output, "" if none runs. options: those of its command line.

    ruling: the flags that override its configuration, in order. inside: the program that contains it, which has flags
    and files of its own; "" for none.
    """

    version: str = ""
    folder: str = "/"
    options: Mapping[str, str] = field(default_factory=dict)
    ruling: tuple[str, ...] = ()
    inside: str = ""

    def path(self, option: str, default: str = "") -> str:
        """A file that an option names, "" for none."""
        said = self.options.get(option, default)
        return posixpath.join(self.folder, said) if said else ""


def recorded(target: Target, *, cri_socket: str = "") -> Mapping[str, object]:
    """A node as a recorded tree's document: the state of its kubelet and pods now.

    cri_socket: the runtime's socket, "" for the kubelet's setting or the usual paths. If no kubelet is found, release
    and configuration are omitted.

    A runtime that does not answer is noted. Raises EnvironmentNotAbleError for a machine without cgroups of pods, and
    for one on which no runtime listens.
    """
    looked_at = ReadOnlyTarget(target)
    deadline = Deadline.after(LOOK_SECONDS)
    facts = target_facts(looked_at, deadline=deadline)
    tree = CgroupTree(looked_at, facts.hierarchy)
    paths = _cgroups_of_pods(tree, deadline)
    kubelet = _kubelet(looked_at, deadline)
    containers, runtimes, why = _containers(looked_at, kubelet, cri_socket, deadline)
    names = (*knobs_of(facts.node.cgroup_version), *_COUNTS, *(_USE if facts.hierarchy.mounts.get("") else ()))
    reading = tree.read_cgroups(paths, names, deadline=deadline)
    first = {name: tree.read_first_processes(paths, name, deadline=deadline) for name in (OOM_SCORE_ADJ, "comm")}
    ended = _ended(reading, containers, lambda: _containers(looked_at, kubelet, cri_socket, deadline)[0])
    systemd = looked_at.run(["sh", "-c", SYSTEMD_SCRIPT], deadline=deadline).text.strip()
    versions = runtimes | ({"systemd": systemd} if systemd else {})
    return {
        "source": target.address,
        "node": _node(facts.node) | versions,
        **_told(looked_at, kubelet, deadline),
        "containers": containers,
        "notes": {"containers": why} if why else {},
        "machine": {"cgroup_mount": {"options": RECURSIVE_PROTECTION if facts.hierarchy.is_recursive else "rw"}},
        "cgroups": _files(reading, first, ended),
    }


def _ended(
    reading: Reading, containers: Collection[str], listed: Callable[[], Collection[str]]
) -> frozenset[CgroupPath]:
    """The cgroups without a process of containers that have ended since they were listed. listed: lists them again."""
    empty = {path: [name for name in containers if name in str(path)] for path in reading.cgroups}
    empty = {path: names for path, names in empty.items() if names and _is_empty(reading, path)}
    now = listed() if empty else ()
    return frozenset(path for path, names in empty.items() if not all(name in now for name in names))


def _is_empty(reading: Reading, path: CgroupPath) -> bool:
    text = reading.file(path, PROCESSES)
    return isinstance(text, str) and not text.strip()


def _cgroups_of_pods(tree: CgroupTree, deadline: Deadline) -> list[CgroupPath]:
    """Every cgroup from the parent of all pods on, and the top-level ones, which a kubelet may reserve for."""
    hierarchy = tree.hierarchy
    root = hierarchy.folder(CgroupPath())
    found = tree.target.run(["sh", "-c", FOLDERS_SCRIPT, "sh", root], deadline=deadline).text.split("\0")
    paths = [hierarchy.cgroup_of(folder) for folder in found if folder]
    parents = [path for path in paths if _is_parent_of_pods(path)]
    if not parents:
        raise EnvironmentNotAbleError(
            f"it has no pods of a kubelet: no cgroup is called {_PARENT} or {_SLICE}.",
            where=f"{tree.target.address}{root}",
            next_step="Name a node on which a kubelet runs, with cgroupsPerQOS.",
        )
    # A node in a container of this one has its own below that container's.
    depth = min(len(path.parts) for path in parents)
    own = [path for path in parents if len(path.parts) == depth]
    return sorted(path for path in paths if len(path.parts) == 1 or any(path == one or path.below(one) for one in own))


def _is_parent_of_pods(path: CgroupPath) -> bool:
    return path.name in {_PARENT, _SLICE} or path.name.endswith(f"-{_SLICE}")


def _kubelet(target: Target, deadline: Deadline) -> _Kubelet:
    lines = checked(target.run(["sh", "-c", KUBELET_SCRIPT], deadline=deadline), where=target.address).text.splitlines()
    if not lines:
        return _Kubelet()
    if lines[0].startswith("inside "):
        return _Kubelet(inside=lines[0].partition(" ")[2])
    version, folder, *words = lines
    flags, _ = flag_words(words, "")
    ruling = tuple(
        f"--{flag.name}" if flag.value is None else f"--{flag.name}={flag.value}"
        for flag in flags
        if flag.name in _RULING
    )
    options = {flag.name: flag.value or "" for flag in flags}
    return _Kubelet(version=version.rpartition(" ")[2], folder=folder, options=options, ruling=ruling)


_STATES = ("memory_manager_state", *CHECKPOINTS)
"""The kubelet's own files that are recorded: NUMA nodes, and its admitted and actuated resources."""


def _told(target: Target, kubelet: _Kubelet, deadline: Deadline) -> dict[str, object]:
    """The node's kubelet: its version, and the files that it was given or keeps."""
    told: dict[str, object] = {}
    if kubelet.inside:
        return {"kubelet_inside": kubelet.inside, **_checkpoints(target, kubelet, deadline)}
    if not kubelet.version:
        return told
    told["kubelet"] = kubelet.version
    told["unread"] = list(kubelet.ruling)
    if path := kubelet.path("config"):
        text, why = _plain(target, path, deadline)
        if why:
            raise TargetError(
                f"the kubelet's configuration cannot be read: {why}.",
                where=f"{target.address}{path}",
                next_step="Pass it with --kubelet-config.",
            )
        told["config"] = text
    if path := kubelet.path("config-dir"):
        told |= drop_ins_of(target, path, deadline)
    return told | _checkpoints(target, kubelet, deadline)


def _checkpoints(target: Target, kubelet: _Kubelet, deadline: Deadline) -> dict[str, object]:
    """The kubelet's own files, and the names of damaged ones, with the reason."""
    told: dict[str, object] = {}
    damaged: dict[str, str] = {}
    for name in _STATES:
        state = posixpath.join(kubelet.path("root-dir", "/var/lib/kubelet"), name)
        if (kept := target.read(state, deadline=deadline)) is not None:
            try:
                told[name] = json.loads(kept)
            except ValueError:
                damaged[name] = "the file is not JSON"
    return {**told, **({"checkpoints_unread": damaged} if damaged else {})}


def _plain(target: Target, path: str, deadline: Deadline) -> tuple[str, str]:
    """A file's text, and why it is missing ("" if it is not)."""
    result = target.run(["sh", "-c", PLAIN_SCRIPT, "sh", path, str(_MOST_BYTES + 1)], deadline=deadline)
    if result.status:
        return "", _WHY_NOT.get(result.status) or result.error_text.strip()[:200] or "it cannot be read"
    if len(result.stdout) > _MOST_BYTES:
        return "", f"it has more than {_MOST_BYTES >> 20} MiB"
    return result.text, ""


def drop_ins_of(target: Target, folder: str, deadline: Deadline) -> dict[str, object]:
    """The drop-in files, in the kubelet's order, and the unreadable ones, with the reason.

    Go's WalkDir sorts by the bytes of names and descends into each folder in its place; it follows links to files.
    """
    most = _MOST_DROP_INS * 4096
    found = target.run(["sh", "-c", DROP_INS_SCRIPT, "sh", folder, str(most)], deadline=deadline)
    if found.status:
        return {"drop_ins": {}, "drop_ins_unread": {folder: "the folder no longer exists"}}
    paths = sorted((one for one in found.text.split("\0") if one), key=lambda path: path.encode().split(b"/"))
    texts: dict[str, str] = {}
    unread = dict.fromkeys(paths[_MOST_DROP_INS:], f"memqos reads {_MOST_DROP_INS} files at most")
    for path in paths[:_MOST_DROP_INS]:
        text, why = _plain(target, path, deadline)
        if why:
            unread[path] = why
        else:
            texts[path] = text
    return {"drop_ins": texts, **({"drop_ins_unread": unread} if unread else {})}


def _containers(
    target: Target, kubelet: _Kubelet, cri_socket: str, deadline: Deadline
) -> tuple[dict[str, list[str]], dict[str, object], str]:
    """By id the pod's name, the container's and the pod's uid; the node's runtimes; and why one did not answer."""
    endpoint = kubelet.options.get("container-runtime-endpoint", "").removeprefix("unix://")
    found: dict[str, list[str]] = {}
    runtimes: dict[str, object] = {}
    sockets = (cri_socket,) if cri_socket else (*([endpoint] if endpoint else []), *_SOCKETS)
    there = tuple(dict.fromkeys(listening(target, *sockets, deadline=deadline)))
    if not there:
        raise nothing_listens(target, sockets)
    why = ""
    for socket in there:
        try:
            with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
                listed = runtime.running(deadline=deadline)
                found |= {id_: [pod, name or SANDBOX, uid] for id_, (pod, name, uid) in listed.items()}
                if listed or not runtimes:
                    runtimes = dict(_versions(target, runtime, deadline))
        except MachineryError as error:
            if cri_socket:
                raise
            why = error.what
    return found, runtimes, why


def _versions(target: Target, runtime: CriRuntime, deadline: Deadline) -> Iterator[tuple[str, object]]:
    """The CRI runtime's version, that of its default OCI runtime, and its huge page setting, if reported."""
    told = runtime.version(deadline=deadline)
    name = told.name.lower()
    if name in list(RuntimeName):
        yield name, f"{name} {told.version}"
    elif name:
        yield "cri", f"{name} {told.version}"
    configuration = runtime.configuration(deadline=deadline)
    if configuration:
        yield "hugetlb", configuration.get("disableHugetlbController") is not True
    program, path = default_program(configuration)
    if program:
        said = target.run(["sh", "-c", VERSION_SCRIPT, "sh", path, program], deadline=deadline).text.strip()
        said = said if program in said.split() else f"{program} version UNKNOWN"
        yield (program, said) if program in list(RuntimeName) else ("oci", said.partition("\n")[0])


def _node(facts: NodeFacts) -> dict[str, object]:
    numa_nodes = {f"node{numa.id}": numa.memory // _KIB for numa in facts.numa_nodes}
    return {
        "mem_total_kib": facts.memory // _KIB,
        "swap_total_kib": facts.swap // _KIB,
        "cpus": facts.cpus,
        **({"numa": numa_nodes} if numa_nodes else {}),
        "page_size": facts.page_size,
        "cgroup": facts.cgroup_version.value,
        "swappiness": facts.swappiness,
        "kernel": facts.kernel,
    }


def _files(
    reading: Reading, first: Mapping[str, Mapping[CgroupPath, str]], ended: Collection[CgroupPath]
) -> dict[str, dict[str, str | None]]:
    """The files of each existing cgroup; null for a missing one.

    ended: containers that ended while the node was read; their processes are not judged.
    """
    found: dict[str, dict[str, str | None]] = {}
    for path, cgroup in reading.cgroups.items():
        files: dict[str, str | None] = {
            name: text.rstrip("\n") if isinstance(text, str) else None for name, text in cgroup.files.items()
        }
        if any(text is not None for text in files.values()):
            if path in ended:
                files = {name: text for name, text in files.items() if name not in _COUNTS}
            files.update({name: texts[path].strip() for name, texts in first.items() if path in texts})
            found[str(path)] = files
    return found
