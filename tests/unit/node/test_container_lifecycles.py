"""Lifecycles of containers in memory: a right runtime conforms, and each wrong one is found by its knob."""

# ruff: noqa: ARG002 - a wrong runtime does not look at all that it is given

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import CRI_RUNTIMES, traits_of_program, unmodelled_traits
from memqos.errors import NonconformanceError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.place.fake import FakePlace
from memqos.runtime.base import Capability
from tests.unit.node.asked import deviating, verbs_asked_of
from tests.unit.node.lives import EVERYTHING, PASSING_HUGE_PAGES, Lives, Verb, asked


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in memory takes time."""
    monkeypatch.setattr("memqos.node.requests.lifecycle.UNASKED_SECONDS", 0.0)
    monkeypatch.setattr("memqos.node.requests.lifecycle.STOPPED_SECONDS", 0.0)


OF_BUNDLES = "before-its-start"
"""Only with an OCI runtime that is driven directly: test_created_containers.py."""
VERBS: Mapping[str, Verb] = {name: verb for name, verb in verbs_asked_of(LifecycleVerbs).items() if name != OF_BUNDLES}


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("name", VERBS)
def test_a_right_runtime_conforms(name: str, driver: CgroupDriver) -> None:
    found = asked(VERBS[name], driver=driver)
    assert [one for one in found if one.verdict is not Verdict.CONFORMS] == []
    assert found


class CannotBeRestarted(Lives):
    def happened(self, words: Sequence[str]) -> None:
        raise AssertionError(f"systemctl {words} of a daemon that is not known")


def test_the_daemon_of_an_unknown_cri_server_is_not_restarted() -> None:
    """Its service is unknown: no other service is restarted in its place."""
    unknown = dataclasses.replace(TRIXIE, cri=traits_of_program("uxc-cri", "0.3", CRI_RUNTIMES))
    for name in ("runtime-restart", "update-after-runtime-restart"):
        [found] = asked(VERBS[name], CannotBeRestarted, runtimes=unknown)
        assert found.verdict is Verdict.NOT_OBSERVABLE
        assert "which service is the daemon of" in found.why_not


class GrowsWithEveryPod(Lives):
    def size(self, names: str) -> int:
        assert names == "containerd"
        return (40 << 20) + len(self.handles) * (4 << 20)


class HasNoProcess(Lives):
    def size(self, names: str) -> int:
        return 0


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In-memory pods are not worth the time of fifty."""
    for name, value in (("MANY", 7), ("SETTLING", 3), ("LAST", 2)):
        monkeypatch.setattr(f"memqos.node.requests.lifecycle.{name}", value)


@pytest.mark.usefixtures("fewer")
def test_a_daemon_that_only_settles_conforms() -> None:
    [found] = asked(lambda it: it.daemon_after_many())
    assert (found.verdict, found.observed) == (Verdict.CONFORMS, "no, or by 8 MiB at most")


@pytest.mark.usefixtures("fewer")
def test_a_daemon_that_grows_with_every_pod_is_found() -> None:
    [found] = asked(lambda it: it.daemon_after_many(), GrowsWithEveryPod)
    assert (found.verdict, found.knob) == (Verdict.DEVIATES, "growth of the daemon")
    assert found.observed == "from 58720256 to 71303168 bytes"


@pytest.mark.usefixtures("fewer")
def test_an_unknown_daemon_is_not_observable() -> None:
    [found] = asked(lambda it: it.daemon_after_many(), HasNoProcess)
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "no process is called containerd")


class NeedsTwoAtATime(Lives):
    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        super().__init__(place, driver)
        self.both = threading.Barrier(2, timeout=10.0)

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if sandbox.spec.name.startswith("churn"):
            self.both.wait()
        return super().create(sandbox, spec, deadline=deadline)


def test_as_many_pods_come_and_go_at_a_time_as_are_started_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requests.lifecycle.FEW", 4)
    found = asked(lambda it: it.left_by_few("cgroups"), NeedsTwoAtATime, parallel=2)
    assert [(one.verdict, one.observed) for one in found] == [(Verdict.CONFORMS, "nothing left")]


class ForgottenBySystemd(Lives):
    def happened(self, words: Sequence[str]) -> None:
        self.cgroups.put(self.path(self.handles[-1]), "memory.swap.max", "max")


class NeighbourForgottenBySystemd(Lives):
    def happened(self, words: Sequence[str]) -> None:
        self.cgroups.put(self.path(self.handles[0]), "memory.high", "4096000")


class GroupOfTheNeighbourForgottenBySystemd(Lives):
    def happened(self, words: Sequence[str]) -> None:
        neighbour = self.path(self.handles[0])
        self.cgroups.put(
            neighbour, "memory.oom.group", "0" if "1" in self.cgroups.text(neighbour, "memory.oom.group") else "1"
        )


def test_what_systemd_resets_of_the_neighbour_is_a_separate_claim() -> None:
    assert deviating(asked(VERBS["daemon-reload"], GroupOfTheNeighbourForgottenBySystemd)) == set()
    assert deviating(asked(VERBS["runtime-restart"], GroupOfTheNeighbourForgottenBySystemd)) == {"memory.oom.group"}


class RefusesAllRequests(Lives):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name.startswith("requested"):
            raise RuntimeCallError("no containers")
        return super().create(sandbox, spec, deadline=deadline)


def test_a_runtime_that_creates_nothing_is_no_finding() -> None:
    with pytest.raises(RuntimeCallError, match="no containers"):
        asked(lambda life: life.left_alone(EVERYTHING), RefusesAllRequests)


@pytest.mark.usefixtures("fewer")
def test_the_few_removed_pods_are_the_first_of_the_many() -> None:
    made: list[int] = []

    def ask(life: LifecycleVerbs) -> Sequence[Finding]:
        found = [*life.left_by_few("cgroups"), *life.left_by_few("mounts")]
        made.append(len(life.requests.runtime.handles))  # type: ignore[attr-defined]
        found += [*life.left_by_many("cgroups"), *life.daemon_after_many()]
        made.append(len(life.requests.runtime.handles))  # type: ignore[attr-defined]
        return found

    assert deviating(asked(ask)) == set()
    # One container is the pod's own.
    assert made == [1 + 3, 1 + 7]


@pytest.mark.usefixtures("fewer")
def test_leftovers_of_the_few_count_for_the_many_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requests.lifecycle.GONE_SECONDS", 0.1)
    few, many = asked(lambda it: [*it.left_by_few("processes"), *it.left_by_many("processes")], Leaves)
    assert few.observed.split(", ") == ["containerd-shim"] * 3
    assert many.observed.split(", ") == ["containerd-shim"] * 7


class Drifts(Lives):
    """memory.high is lost some time after the container's start, at the next status call."""

    def status(self, handle: Any, *, deadline: Any) -> Any:
        if self.path(handle) in self.cgroups:
            self.cgroups.put(self.path(handle), "memory.high", "max")
        return super().status(handle, deadline=deadline)


class DiesWithItsDaemon(Lives):
    def happened(self, words: Sequence[str]) -> None:
        self.fake.finish(self.handles[-1], exit_code=137)


class ForgetsItsSpecification(Lives):
    """After a restart it sends what an update names, and clears earlier requests."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(handle), "memory.min", "0")


class ResetsOnExec(Lives):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> Any:
        self.cgroups.put(self.path(handle), "memory.high", "max")
        return self.fake.exec(handle, argv, deadline=deadline)


class ScoresExecs(Lives):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> Any:
        self.fake.exec_score = 0
        return self.fake.exec(handle, argv, deadline=deadline)


class ScoresExecsWithoutDaemon(ScoresExecs):
    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.fake.capabilities - {Capability.CRI}


YOUKI = dataclasses.replace(PASSING_HUGE_PAGES, oci=unmodelled_traits("youki", "0.7.0"))
NO_EXEC = "youki 0.7.0 is not modelled, and the OCI runtime specification has no exec"


@pytest.mark.parametrize(("kind", "runtimes", "why_not"), [
    (ScoresExecs, YOUKI, ""),
    (ScoresExecsWithoutDaemon, YOUKI, NO_EXEC),
    (ScoresExecsWithoutDaemon, PASSING_HUGE_PAGES, ""),
])  # fmt: skip
def test_the_score_of_an_exec_is_the_daemons_or_that_of_a_known_runtime(
    kind: type[Lives], runtimes: Runtimes, why_not: str
) -> None:
    [score] = [one for one in asked(VERBS["exec"], kind, runtimes=runtimes) if one.knob == "oom_score_adj of exec"]
    assert (score.verdict, score.why_not) == (Verdict.NOT_OBSERVABLE if why_not else Verdict.DEVIATES, why_not)


class ForgetsUpdatesOfTheSecond(Lives):
    """It applies updates only to the first container that it created."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if len(self.handles) <= len(("the pod's own", "the first")):
            self.fake.update(handle, resources, deadline=deadline)


class LeavesItsCgroup(Lives):
    """Its processes are elsewhere at the next look."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.lose_process(self.path(handle))


class ResetsOnStats(Lives):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        self.cgroups.put(self.path(handle), "memory.low", "0")
        return self.fake.stats(handle, deadline=deadline)


class TakesTheOldCgroup(Lives):
    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if len(self.handles) > 2:
            self.cgroups.show(self.path(handle), "memory.events", "max 1\noom 1\noom_kill 1\noom_group_kill 0\n")


class TrustsItself(Lives):
    """It writes only values that it believes to differ."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        """None do, as far as it knows."""


class Leaves(Lives):
    """Every sandbox leaves one of each kind."""

    def remove_sandbox(self, sandbox: Any, *, deadline: Any) -> None:
        self.fake.remove_sandbox(sandbox, deadline=deadline)
        self.left += [f"cgroups /{sandbox.id}", f"mounts /run/{sandbox.id}", f"units {sandbox.id}.scope"]
        self.left += ["processes containerd-shim", "processes sshd"]


class ThrottlesOnUpdate(Lives):
    """Its updates write a memory.high of 0 first, and the kernel swaps the container out."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.show(self.path(handle), "memory.events", "low 0\nhigh 3\nmax 0\noom 0\noom_kill 0\n")
        self.cgroups.show(self.path(handle), "memory.swap.current", "4096\n")


class HasNoSwapFile(Lives):
    def start(self, handle: Any, *, deadline: Any) -> None:
        super().start(handle, deadline=deadline)
        self.cgroups.lose_file(self.path(handle), "memory.swap.current")


def test_what_is_taken_is_not_observable_without_the_file() -> None:
    events, swap, *others = asked(VERBS["update-takes-nothing"], HasNoSwapFile)
    assert {one.verdict for one in (events, *others)} == {Verdict.CONFORMS}
    assert (swap.verdict, swap.why_not) == (Verdict.NOT_OBSERVABLE, "the cgroup has no memory.swap.current")


OF_UPDATES = {
    "memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight",
    "cpu.max", "cpuset.cpus", "cpuset.mems",
}  # fmt: skip


class DropsPageCacheOnUpdate(Lives):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.show(self.path(handle), "memory.stat", f"anon {16 << 20}\nfile {8 << 20}\n")


class UpdatesTheLast(Lives):
    """It confuses containers: each update reaches the one that was created last."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(self.handles[-1], resources, deadline=deadline)


class UpdatesFilesAlone(Lives):
    """It does not tell systemd of updates, which writes what it knows of again."""

    def systemctl(self, words: Sequence[str], stdin: bytes, deadline: Any) -> tuple[int, bytes, bytes]:
        if words[1] == "daemon-reload":
            for handle in self.handles[1:]:
                self.fake.update(handle, self.created, deadline=deadline)
        return super().systemctl(words, stdin, deadline)

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        self.created = spec.resources
        return super().create(sandbox, spec, deadline=deadline)


class IgnoresUpdatesInUse(Lives):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if int(self.cgroups.text(self.path(handle), "memory.current")) < 16 << 20:
            self.fake.update(handle, resources, deadline=deadline)


class IgnoresUpdatesOfOldOnes(Lives):
    """It updates a container once."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if handle.id not in self.updated:
            self.fake.update(handle, resources, deadline=deadline)
        self.updated.append(handle.id)

    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        super().__init__(place, driver)
        self.updated: list[str] = []


class IgnoresStops(Lives):
    def stop(self, handle: Any, *, grace: int, deadline: Any) -> None:
        """Report success."""


class RefusesExecs(Lives):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        raise RuntimeCallError("no.", data={"method": "ExecSync", "code": "UNKNOWN", "details": "failed"})


class EndsExecsOnUpdate(Lives):
    """An update ends what an exec started; a kernel's exit code for SIGKILL."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.updating = threading.Event()

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.updating.set()

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        ended = self.fake.exec(handle, argv, deadline=deadline)
        return (137, b"", b"") if self.updating.wait(5) else ended


class RefusesUpdates(Lives):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        raise RuntimeCallError("no.", data={"method": "UpdateContainerResources", "code": "UNKNOWN", "details": "busy"})


@pytest.mark.parametrize("name", ["stays", "update-takes-nothing", "drift", "several-containers", "update-after-exec"])
def test_a_refused_update_is_a_finding(name: str) -> None:
    with pytest.raises(NonconformanceError) as caught:
        asked(VERBS[name], RefusesUpdates)
    found = caught.value.data["finding"]
    assert (found.knob, found.expected, found.observed) == ("update", "taken", "refused: busy")


@pytest.mark.parametrize(
    ("kind", "name", "knobs"),
    [
        (ForgottenBySystemd, "daemon-reload", {"memory.swap.max"}),
        (ForgottenBySystemd, "daemon-reexec", {"memory.swap.max"}),
        (NeighbourForgottenBySystemd, "daemon-reload", {"memory.high"}),
        (DiesWithItsDaemon, "runtime-restart", {"state", "cgroup"}),
        (ForgottenBySystemd, "runtime-restart", {"memory.swap.max"}),
        (ForgetsItsSpecification, "update-after-runtime-restart", {"memory.min"}),
        (ResetsOnExec, "exec", {"memory.high"}),
        (ScoresExecs, "exec", {"oom_score_adj of exec"}),
        (ForgetsUpdatesOfTheSecond, "container-restart", OF_UPDATES),
        (LeavesItsCgroup, "stays", {"cgroup.procs"}),
        (ResetsOnStats, "stats", {"memory.low"}),
        (TakesTheOldCgroup, "container-restart", {"memory.events"}),
        (TrustsItself, "drift", {"memory.high"}),
        (Leaves, "leaves-no-cgroups", {"cgroups"}),
        (Leaves, "leaves-no-mounts", {"mounts"}),
        (Leaves, "leaves-no-units", {"units"}),
        (Leaves, "leaves-no-processes", {"processes"}),
        (Drifts, "stays", {"memory.high"}),
        (ResetsOnExec, "stays", {"memory.high"}),
        (IgnoresStops, "stop-beside", {"state"}),
        (DropsPageCacheOnUpdate, "update-takes-nothing", {"memory.stat"}),
        (UpdatesTheLast, "several-containers", OF_UPDATES),
        (UpdatesFilesAlone, "daemon-reload-after-update", OF_UPDATES),
        (IgnoresUpdatesInUse, "update-takes-nothing", {"memory.high", "memory.max"}),
        (IgnoresUpdatesOfOldOnes, "stays", {"memory.high"}),
        (RefusesExecs, "exec", {"exec"}),
        (EndsExecsOnUpdate, "update-during-exec", {"exec"}),
        (ScoresExecs, "update-during-exec", set()),
        (ThrottlesOnUpdate, "update-takes-nothing", {"memory.events", "memory.swap.current"}),
    ],
)
def test_a_wrong_runtime_is_found_by_its_knob(
    kind: type[Lives], name: str, knobs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memqos.node.requests.lifecycle.GONE_SECONDS", 0.1)
    assert deviating(asked(VERBS[name], kind)) == knobs


def test_a_container_that_was_wrong_before_is_not_blamed_on_the_event() -> None:
    class WrongFromTheStart(Lives):
        def start(self, handle: Any, *, deadline: Any) -> None:
            self.fake.start(handle, deadline=deadline)
            self.cgroups.put(self.path(handle), "memory.min", "0")

    found = asked(VERBS["daemon-reload"], WrongFromTheStart)
    assert [one.knob for one in found] == ["memory.min"]


def test_many_pods_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requests.lifecycle.GONE_SECONDS", 0.1)
    [found] = asked(lambda it: it.left_by_many("processes"), Leaves)
    assert found.observed.split(", ") == ["containerd-shim"] * 50
