"""The workload in real containers, and the watcher's view of it in the guest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from memqos.cgroupfs import parse
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import wait
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.probe.sampler import GuestSampler, Look, Sampling
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerState, ContainerStatus, SandboxSpec
from memqos.runtime.cri import CriRuntime
from memqos.target.base import Target
from memqos.workload.command import (
    Anon,
    Command,
    Exit,
    File,
    Free,
    Hold,
    Report,
    Tmpfs,
    Touch,
    arguments,
    control_folders,
    line,
)
from memqos.workload.report import ContainerLog, Done, ErrorLine, ExitLine, Started, StepLine
from tests.vm.runtimes import IMAGE, MI, cgroup_of, runtime_of, soon

pytestmark = pytest.mark.vm


class Bench:
    """One sandbox for workloads."""

    def __init__(self, tree: CgroupTree, runtime: CriRuntime, parent: CgroupPath) -> None:
        self.tree = tree
        self.runtime = runtime
        self.parent = parent
        self.count = 0
        self.sandbox = runtime.run_sandbox(
            SandboxSpec(
                name="b", namespace="default", uid="b", cgroup_parent=str(parent), log_directory="/var/log/pods/b"
            ),
            deadline=soon(),
        )

    def start(
        self, resources: ContainerResources, commands: Sequence[Command], spec: ContainerSpec | None = None
    ) -> ContainerHandle:
        self.count += 1
        name = f"c{self.count}"
        args, mounts = (arguments(commands), ()) if spec is None else (spec.args, spec.mounts)
        container = self.runtime.create(
            self.sandbox,
            ContainerSpec(name=name, image=IMAGE, args=args, mounts=mounts, resources=resources),
            deadline=soon(),
        )
        self.runtime.start(container, deadline=soon())
        return container

    def ended(self, container: ContainerHandle) -> ContainerStatus:
        return wait(
            "the container has exited",
            lambda: self.runtime.status(container, deadline=soon()),
            until=lambda status: status.state is ContainerState.EXITED,
            deadline=soon(),
        )

    def log(self, container: ContainerHandle):  # type: ignore[no-untyped-def]
        text = self.tree.target.read(container.log_path, deadline=soon()) or b""
        log = ContainerLog(container.log_path)
        log.grows(text.decode())
        return log.report

    def done(self, container: ContainerHandle, verb: str) -> Done:
        """The workload's report when it was done with `verb`; one that ends without it fails at once."""

        def observe() -> list[Done] | ContainerStatus:
            status = self.runtime.status(container, deadline=soon())
            lines = [line for line in self.log(container) if isinstance(line, Done) and line.verb == verb]
            return lines or status

        seen = wait(
            f"the workload is done with {verb}, or has exited",
            observe,
            until=lambda seen: isinstance(seen, list) or seen.state is ContainerState.EXITED,
            deadline=soon(),
        )
        assert isinstance(seen, list), f"The workload exited before it was done with {verb}: {seen}"
        return seen[0]

    def leaf(self, container: ContainerHandle) -> CgroupPath:
        """The path of its cgroup, existing or removed."""
        return TRIXIE.layout(CgroupDriver.SYSTEMD).whole(self.parent, container.id)

    def cgroup(self, container: ContainerHandle) -> CgroupPath:
        return cgroup_of(self.runtime, self.tree, container)


@pytest.fixture(scope="module")
def bench(tree: CgroupTree, socket: Path) -> Iterator[Bench]:
    parent = CgroupPath.parse("/bench.slice")
    tree.make([parent], deadline=soon())
    with runtime_of(socket, "runc") as runtime:
        yield Bench(tree, runtime, parent)


FILES = ("memory.current", "memory.swap.current", "memory.events", "memory.pressure", "cgroup.events")


class Seen:
    """memwatch's messages about one cgroup: the newest text of each file, and the largest amounts."""

    def __init__(self, sampling: Sampling, folder: str) -> None:
        self.sampling = sampling
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.most: dict[str, int] = {}
        self.why: list[str] = []

    def hear(self) -> Seen:
        for one in self.sampling.next(seconds=0.2):
            if isinstance(one, Look) and one.folder == self.folder:
                self.why.append(one.why)
                self.texts |= {name: text for name, text in one.files.items() if text is not None}
                for name in ("memory.current", "memory.swap.current"):
                    self.most[name] = max(self.most.get(name, 0), int(self.texts.get(name, "0")))
        return self

    def count(self, key: str) -> int:
        return parse.counters(self.texts["memory.events"], path=self.folder)[key]

    def until(self, condition: str, holds: Callable[[Seen], bool]) -> Seen:
        return wait(condition, self.hear, until=holds, deadline=soon(), every=0.0)


@contextlib.contextmanager
def seeing(bench: Bench, path: CgroupPath) -> Iterator[Seen]:
    hierarchy = bench.tree.hierarchy
    with GuestSampler(bench.tree.target, hierarchy).open([bench.parent], FILES) as sampling:
        yield Seen(sampling, hierarchy.folder(path))


def test_a_container_over_its_limit_is_oom_killed_and_its_last_readings_are_kept(bench: Bench) -> None:
    with seeing(bench, bench.parent) as parent:
        container = bench.start(
            ContainerResources(memory_limit_in_bytes=48 * MI), [Anon(size=96 * MI, step=4 * MI), Hold()]
        )
        killed = Seen(parent.sampling, bench.tree.hierarchy.folder(bench.leaf(container)))
        killed.until("its cgroup is gone", lambda seen: "gone" in seen.why)
    assert killed.why[0] == "new"
    assert "event" in killed.why
    assert 44 * MI <= killed.most["memory.current"] <= 48 * MI
    assert killed.count("oom_kill") == 1
    # Not the reason: containerd 1.7 may say Error (vm/known.toml), which a claim of its own is about.
    assert bench.ended(container).exit_code == 137
    steps = [line.bytes for line in bench.log(container) if isinstance(line, StepLine)]
    assert 32 * MI <= steps[-1] < 48 * MI


def test_a_container_over_memory_high_stalls_and_obeys_term(bench: Bench, target: Target) -> None:
    resources = ContainerResources(memory_limit_in_bytes=80 * MI, unified={"memory.high": str(40 * MI)})
    with control_folders(target, ["/run/memqos/high"], deadline=soon()) as [control]:
        spec = ContainerSpec(name="", image="", args=control.arguments(), mounts=(control.mount,))
        container = bench.start(resources, (), spec)
        with seeing(bench, bench.cgroup(container)) as seen:
            seen.sampling.write(control.fifo, line(Anon(size=24 * MI)).rstrip())
            bench.done(container, "anon")
            assert (
                seen.until("it holds that much", lambda seen: seen.most["memory.current"] > 23 * MI).count("high") == 0
            )
            seen.sampling.write(control.fifo, line(Anon(size=48 * MI)).rstrip())
            seen.until("it is throttled", lambda seen: seen.count("high") >= 20)
            seen.until("it stalls", lambda seen: stalled(seen) > 500_000)
            assert seen.count("oom_kill") == 0
            assert seen.most["memory.current"] >= 39 * MI
        bench.runtime.stop(container, grace=20, deadline=soon())
        assert bench.ended(container).exit_code == 143
        assert isinstance(bench.log(container)[-1], StepLine)


def stalled(seen: Seen) -> int:
    return parse.pressure(seen.texts["memory.pressure"], path=seen.folder).some.total


def test_a_swap_limit_is_not_exceeded_and_swapped_memory_is_intact(bench: Bench) -> None:
    # Swap for all of it: a page being written out, or read back, counts in both, and a cgroup with no swap left has
    # its anonymous memory scanned no more (mm/vmscan.c, can_reclaim_anon_pages), which ends in an OOM kill.
    resources = ContainerResources(memory_limit_in_bytes=32 * MI, memory_swap_limit_in_bytes=80 * MI)
    # Touching all of it would swap every page in and out in turn: the first region was swapped first.
    container = bench.start(resources, [Anon(size=2 * MI), Anon(size=38 * MI), Touch(region=1), Hold()])
    with seeing(bench, bench.cgroup(container)) as seen:
        seen.until("4 MiB are swapped out", lambda seen: seen.most.get("memory.swap.current", 0) >= 4 * MI)
        touched = bench.done(container, "touch")
        assert seen.hear().most["memory.swap.current"] <= 48 * MI
    assert (touched.bytes, touched.wrong_pages) == (2 * MI, 0)
    bench.runtime.stop(container, grace=0, deadline=soon())


def test_memory_is_on_the_numa_node_that_it_is_bound_to(bench: Bench) -> None:
    container = bench.start(ContainerResources(cpuset_mems="1"), [Anon(size=16 * MI), Hold()])
    path = bench.cgroup(container)
    bench.done(container, "anon")
    reading = bench.tree.read_cgroups([path], ["memory.numa_stat", "cpuset.mems"], deadline=soon())
    anon = parse.numa_stat(parse.present(reading.file(path, "memory.numa_stat"), path=""), path="")["anon"]
    assert anon[0] == 0
    assert anon[1] >= 16 * MI
    assert reading.file(path, "cpuset.mems") == "1\n"
    bench.runtime.stop(container, grace=0, deadline=soon())


def test_every_kind_of_memory_is_charged_and_given_back(bench: Bench) -> None:
    commands = [
        Anon(size=4 * MI),
        Tmpfs(path="/dev/shm/memqos-test", size=4 * MI),
        File(path="/cached", size=4 * MI),
        File(path="/mapped", size=4 * MI, mapped=True),
        Free(),
        Report(),
        Exit(code=5),
    ]
    container = bench.start(ContainerResources(memory_limit_in_bytes=64 * MI), commands)
    assert bench.ended(container).exit_code == 5
    lines = bench.log(container)
    assert isinstance(lines[0], Started)
    assert lines[0].lock_errno == 0
    assert isinstance(lines[-1], ExitLine)
    assert not [line for line in lines if isinstance(line, ErrorLine)]
    assert [line.bytes for line in lines if isinstance(line, Done)] == [4 * MI] * 4 + [16 * MI]


def test_a_command_runs_inside(bench: Bench) -> None:
    container = bench.start(ContainerResources(), [Hold()])
    status, stdout, _ = bench.runtime.exec(container, ("/memload", "exit", "4"), deadline=soon())
    assert status == 4
    assert b'"event":"exit"' in stdout
    stats = bench.runtime.stats(container, deadline=soon())
    assert "usage_bytes" in str(stats["memory"])
    bench.runtime.stop(container, grace=0, deadline=soon())
