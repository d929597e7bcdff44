"""A place in memory: for developing suites without a machine, and for tests of memqos itself.

Its runtime follows memqos's own model of containerd and runc, its cgroups round like a kernel, and no process runs. So
it can only agree with memqos and never gives conformance results.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memqos.agent.program import program
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import MachineryError
from memqos.model.knob import Knob, Text
from memqos.model.node import CgroupDriver, CgroupVersion, NodeFacts, NumaNode
from memqos.model.path import CgroupPath
from memqos.model.reading import read_back
from memqos.place.base import (
    Health,
    KeptPlace,
    OciProgram,
    OfferedRuntime,
    PlaceState,
    RequestRecorder,
    Sources,
    offered,
)
from memqos.probe.facts import TargetFacts
from memqos.probe.sampler import Appended, Look, Said, Sampling
from memqos.runtime.fake import FakeDockerRuntime, FakeOciRuntime, FakePodmanRuntime, FakeRuntime
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FAKE_LEGACY, FakeCgroups
from memqos.target.fake import FakeAnswer, FakeTarget, Handler, RefusedError

__all__ = ["FAKE_FACTS", "FAKE_RUNTIME", "FakeAgent", "FakePlace", "FakeSampler", "FakeSampling"]

_ENDS = frozenset({"remove", "give back"})


class FakeAgent:
    """Performs an enforcement's steps on cgroups in memory, in place of the agent.

    refused: a part of a path; everything below it is refused from now on; "" refuses nothing.
    """

    def __init__(self, cgroups: FakeCgroups) -> None:
        self.refused = ""
        self._cgroups = cgroups
        self._kept: dict[CgroupPath, dict[str, str]] = {}

    def commands(self) -> Mapping[tuple[str, ...], Handler]:
        """The command's script for FakeTarget."""
        return {program().once: self._run}

    def _run(self, _: Sequence[str], stdin: bytes, __: Deadline) -> FakeAnswer:
        request = program().request_in(stdin)
        if "leftovers" in request:
            return 0, b'{"leftovers": []}', b""
        answer: dict[str, Any] = {"done": 0, "killed": [], "failure": None}
        for index, step in enumerate(request["perform"]["steps"]):
            if step["action"] not in _ENDS and self.refused and self.refused in step["path"]:
                answer["failure"] = {"step": index, "what": "the kernel refused it", "kind": "refused"}
                break
            try:
                self._do(step, CgroupPath.parse(step["path"]))
            except RefusedError as error:
                answer["failure"] = {"step": index, "what": f"the kernel refused it: {error}", "kind": "refused"}
                break
            answer["done"] = index + 1
        return 0, json.dumps(answer).encode(), b""

    def _do(self, step: Mapping[str, Any], path: CgroupPath) -> None:
        if step["action"] == "give back" and path in self._kept:
            for name, text in self._kept.pop(path).items():
                self._cgroups.put(path, name, text)
            return
        if step["action"] in _ENDS:
            self._cgroups.remove(path)
            return
        if step["action"] == "adopt" and path in self._cgroups:
            self._kept.setdefault(path, {name: self._cgroups.text(path, name) for name in step["keeps"]})
        self._cgroups.make(path)
        for name, text in step["writes"]:
            self._cgroups.put(path, name, text)


class FakeSampler:
    """A sampler of cgroups in memory; it sees their values only when asked.

    obeys: receives each line for a workload and its FIFO; without it nothing reads them. opened: the samplings so far,
    in order.
    """

    def __init__(self, cgroups: FakeCgroups, target: FakeTarget) -> None:
        self.obeys: Callable[[str, str], None] = lambda _fifo, _line: None
        self.opened: list[FakeSampling] = []
        self._cgroups = cgroups
        self._target = target

    @contextlib.contextmanager
    def open(self, paths: Sequence[CgroupPath], files: Sequence[str]) -> Iterator[Sampling]:
        """Watch these cgroups and those below them."""
        self.opened.append(FakeSampling(self._cgroups, self._target, paths, files, self.obeys))
        yield self.opened[-1]


class FakeSampling:
    """The changes since the last call. written: lines for FIFOs. failed: the next error."""

    def __init__(
        self,
        cgroups: FakeCgroups,
        target: FakeTarget,
        paths: Sequence[CgroupPath],
        files: Sequence[str],
        obeys: Callable[[str, str], None],
    ) -> None:
        self._obeys = obeys
        self._cgroups = cgroups
        self._target = target
        self._paths = tuple(paths)
        self._files = files
        self._known: dict[CgroupPath, dict[str, str | None]] = {}
        self._followed: dict[str, tuple[str, int]] = {}
        self.written: list[tuple[str, str]] = []
        self.failed: list[Said] = []

    def watch(self, paths: Sequence[CgroupPath]) -> None:
        """Also watch these cgroups."""
        self._paths = (*self._paths, *paths)

    def next(self, *, seconds: float) -> Sequence[Said]:  # noqa: ARG002 - nothing happens while one waits
        """The changes since the last call."""
        failed, self.failed = self.failed, []
        return [*self._looks(), *self._appended(), *failed]

    def look(self, *, deadline: Deadline) -> Sequence[Said]:  # noqa: ARG002 - a look takes no time
        """The same."""
        return self.next(seconds=0)

    def follow(self, name: str, path: str, *, patient: str) -> None:  # noqa: ARG002 - nothing waits here
        """Set a file's content from now on."""
        self._followed[name] = path, 0

    def write(self, fifo: str, line: str) -> None:
        """Record the line and pass it to `obeys`."""
        self.written.append((fifo, line))
        self._obeys(fifo, line)

    def finish(self) -> None:
        """Stop watching."""
        self._paths = ()
        self._known.clear()
        self._followed.clear()

    def _looks(self) -> Iterator[Look]:
        at = SYSTEM_CLOCK.now()
        now = {path: self._cgroups.texts(path, self._files) for path in self._cgroups.below(self._paths)}
        for path in [path for path in self._known if path not in now]:
            del self._known[path]
            yield Look(at=at, folder=self._cgroups.hierarchy.folder(path), why="gone", files={})
        for path, texts in now.items():
            before = self._known.get(path)
            changed = {name: text for name, text in texts.items() if before is None or before[name] != text}
            self._known[path] = texts
            if changed:
                folder = self._cgroups.hierarchy.folder(path)
                yield Look(at=at, folder=folder, why="clock" if before else "new", files=changed)

    def _appended(self) -> Iterator[Appended]:
        for name, (path, read) in self._followed.items():
            text = (self._target.read(path, deadline=Deadline.after(1)) or b"").decode()
            self._followed[name] = path, len(text)
            if text[read:]:
                yield Appended(at=SYSTEM_CLOCK.now(), name=name, text=text[read:])


_GIB = 1 << 30

FAKE_FACTS = NodeFacts(
    memory=2 * _GIB,
    swap=_GIB // 2,
    cpus=2,
    numa_nodes=tuple(NumaNode(id=number, memory=_GIB, cpus=(number,)) for number in (0, 1)),
    hugepage_sizes=(),
    kernel="6.12",
)
"""Two NUMA nodes of 1 GiB with a CPU each, and half a GiB of swap."""

_KINDS: Mapping[RuntimeName, type[FakeRuntime]] = {
    RuntimeName.DOCKER: FakeDockerRuntime,
    RuntimeName.PODMAN: FakePodmanRuntime,
    RuntimeName.BUNDLES: FakeOciRuntime,
}

FAKE_RUNTIME = "fake"
"""The one runtime of a fake place."""


class FakePlace:
    """The Place port in memory. runtimes: the CRI and OCI runtime that its runtime imitates; versions: the same.

    kind: makes its runtime, such as a wrong one; None for the right one. cgroups: its cgroups, for tests that change
    them or use another enactor. health: its state.

    Pods with init containers never start on it: no process runs, so none ends.
    """

    def __init__(
        self, *, facts: NodeFacts = FAKE_FACTS, runtimes: Runtimes = TRIXIE, kind: type[FakeRuntime] | None = None
    ) -> None:
        legacy = facts.cgroup_version is CgroupVersion.V1
        hierarchy = FAKE_LEGACY if legacy else FAKE_HIERARCHY
        numa_nodes = str(
            read_back(Knob.CPUSET_MEMS, Text(",".join(str(numa.id) for numa in facts.numa_nodes)), facts.page_size)
        )
        self.cgroups = FakeCgroups(page_size=facts.page_size, hierarchy=hierarchy, numa_nodes=numa_nodes)
        self.versions = runtimes
        self._kind = kind or _KINDS.get(runtimes.cri.runtime, FakeRuntime)
        self._runtimes: dict[CgroupDriver, FakeRuntime] = {}
        self._target = FakeTarget(
            files={"/proc/sys/kernel/osrelease": f"{facts.kernel}\n".encode()},
            mounts=self.cgroups.mounts,
            commands={
                **self.cgroups.commands(),
                **FakeAgent(self.cgroups).commands(),
                ("sh", "-c"): self._end_containers,
                ("systemctl", "show", "--property=DefaultTasksMax"): lambda *_: (0, b"DefaultTasksMax=2354\n", b""),
            },
        )
        self.facts = TargetFacts(
            node=facts, hierarchy=hierarchy, controllers=frozenset({"memory"}), pressure=not legacy
        )
        self.sampler = FakeSampler(self.cgroups, self._target)
        self.is_disposable = False
        self.origin = ""
        self.evidence = Sources()
        self.provenance: Mapping[str, object] = {"kind": "in memory"}
        self.health = Health()

    @property
    def target(self) -> FakeTarget:
        """Files in a dictionary and cgroups in memory."""
        self.check_alive()
        return self._target

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """The single runtime, under either driver."""
        offer = OfferedRuntime(
            name=FAKE_RUNTIME,
            socket="",
            handlers=dict.fromkeys(CgroupDriver, ""),
            oci=OciProgram(name=FAKE_RUNTIME, version="0"),
        )
        return {offer.name: offer}

    def runtime(self, driver: CgroupDriver) -> FakeRuntime:
        """The runtime under this driver, always the same object."""
        if driver not in self._runtimes:
            self._runtimes[driver] = self._kind(self.cgroups, driver=driver, runtimes=self.versions)
        return self._runtimes[driver]

    @contextlib.contextmanager
    def connect(
        self,
        runtime: str,
        driver: CgroupDriver,
        *,
        record: RequestRecorder,  # noqa: ARG002 - what is asked in memory leaves no record
        deadline: Deadline,  # noqa: ARG002 - nothing takes time here
    ) -> Iterator[FakeRuntime]:
        """Connect to it."""
        self.check_alive()
        offered(self, runtime, driver)
        yield self.runtime(driver)

    def break_down(self, error: MachineryError) -> None:
        """Set its failure."""
        self.health.fail(error)

    def check_alive(self) -> None:
        """Raise its failure."""
        self.health.check()

    def examine(self, error: MachineryError) -> None:  # noqa: ARG002 - there is nothing that would not be known
        """Raise its failure."""
        self.check_alive()

    @property
    def condition(self) -> PlaceState:
        """The state recorded by `health`."""
        return self.health.condition

    @property
    def spoilt(self) -> str:
        """The reason recorded by `health`."""
        return self.health.spoilt

    def spoil(self, reason: str) -> None:
        """Remember the first reason."""
        self.health.spoil(reason)

    def origin_is_whole(self) -> bool:
        """Empty: it was not made from an image."""
        return True

    def keep(self) -> KeptPlace:
        """It cannot be kept."""
        raise MachineryError("a place in memory ends with its process.")

    def _end_containers(self, words: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        """Kill the processes of some cgroups; the words after the script name their folders."""
        folders = {word.removesuffix("/cgroup.kill") for word in words[4:]}
        for runtime in self._runtimes.values():
            runtime.finish_all(folders)
        return 0, b"", b""
