"""Cases that need CRI itself, in memory: a right runtime conforms, and each wrong one is found."""

# ruff: noqa: ARG002 - a wrong runtime does not look at all that it is given

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import NonconformanceError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.cri_calls import CriVerbs
from memqos.node.requests.reported import said
from memqos.place.fake import FakePlace
from memqos.runtime.base import Capability, ContainerState
from tests.unit.node.asked import CATALOGUE, Asked, deviating, verbs_asked_of

MIB = 1 << 20
STAT = "anon {anon}\ninactive_file 4096\npgfault 300\npgmajfault 2\n"

Verb = Callable[[CriVerbs], Sequence[Finding]]


class Speaks(Asked):
    """A fake whose containers use what their programs ask for: 16 MiB, or are killed beyond their limit."""

    now = 1_800_000_000
    """Seconds of its machine's clock."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        place.target.on(("date", "+%s"), lambda *_: (0, b"%d\n" % self.now, b""))

    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.stats(handle, deadline=deadline)
        return {**told, "memory": {"timestamp": str(self.now * 10**9), **told["memory"]}}

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        self.run(handle)

    def run(self, handle: Any) -> None:
        path = self.path(handle)
        for one in (path, path.parent):
            if one in self.cgroups:
                self.use(one, 16 * MIB)
        if handle.name == "requested" and str(64 * MIB) in self.args:
            self.kill(handle)

    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=137, reason="OOMKilled")

    def use(self, path: CgroupPath, anon: int) -> None:
        self.cgroups.show(path, "memory.current", f"{anon + MIB}\n")
        self.cgroups.show(path, "memory.peak", f"{anon + 2 * MIB}\n")
        self.cgroups.show(path, "memory.stat", STAT.format(anon=anon))

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        self.args = spec.args
        return super().create(sandbox, spec, deadline=deadline)

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        if resources.memory_limit_in_bytes == 8 * MIB:
            self.kill(handle)

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        if str(64 * MIB) not in argv:
            return self.fake.exec(handle, argv, deadline=deadline)
        path = self.path(handle)
        if self.cgroups.text(path, "memory.oom.group").strip() == "1":
            self.kill(handle)
            raise RuntimeCallError("gone.", data={"method": "exec", "code": "UNKNOWN", "details": "gone"})
        self.cgroups.show(path, "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n")
        return 137, b"", b""


def asked(verb: Verb, kind: type[Asked] = Speaks, driver: CgroupDriver = CgroupDriver.SYSTEMD) -> Sequence[Finding]:
    place = FakePlace(runtimes=TRIXIE)
    runtime: Any = kind(place, driver)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=driver, runtimes=TRIXIE)
    with node.requests_as(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none"), CriVerbs) as conversation:
        return verb(conversation)


VERBS: Mapping[str, Verb] = verbs_asked_of(CriVerbs)
UNTOLD = {
    "runtime-config-driver": "the runtime does not support RuntimeConfig, or reports it only for its default handler",
    "stats-swap": "the runtime's answer has no swap.swap_usage_bytes",
    "stats-pressure": "the runtime's answer has no memory.psi",
    "listed-stats-swap": "the runtime's answer has no swap.swap_usage_bytes",
    "pod-stats-of-containers-swap": "the runtime's answer has no swap.swap_usage_bytes",
}
"""What the fake does not report, by the claim's name."""


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("name", [name for name in VERBS if name not in UNTOLD])
def test_a_right_runtime_conforms(name: str, driver: CgroupDriver) -> None:
    found = asked(VERBS[name], driver=driver)
    assert [one for one in found if one.verdict is not Verdict.CONFORMS] == []
    assert Setter.RUNTIME in {one.set_by for one in found}


@pytest.mark.parametrize(("name", "why"), UNTOLD.items())
def test_an_unreported_value_is_not_observable(name: str, why: str) -> None:
    *_, found = asked(VERBS[name])
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, why)


def test_stats_without_a_time_say_1970() -> None:
    [found] = asked(VERBS["stats-timestamp"], HasNoTime)
    assert (found.verdict, found.observed) == (Verdict.DEVIATES, "0 s")


def test_the_time_of_stats_without_memory_is_not_observable() -> None:
    [found] = asked(VERBS["stats-timestamp"], HasNoMemory)
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "the runtime's answer has no memory")


@pytest.mark.parametrize("name", ["oom-killed-is-reported", "status-says-created"])
def test_a_status_of_a_container_that_has_ended_must_say_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requests.container_requests.REQUEST_SECONDS", 0.1)
    monkeypatch.setattr("memqos.node.requests.containers.CALL_SECONDS", 0.1)
    monkeypatch.setattr("memqos.node.pods.population.HEARING_SECONDS", 0.1)
    with pytest.raises(NonconformanceError, match=r"state of .* is running, expected exited") as error:
        asked(VERBS[name], RunsForEver)
    assert error.value.data["finding"].knob == "state"


class WrongDriver(Speaks):
    reported_driver = CgroupDriver.CGROUPFS


class PutsTheSandboxElsewhere(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.run_sandbox(spec, deadline=deadline)
        self.cgroups.remove(self.fake.sandbox_cgroup_of(handle))
        return handle


class LimitsTheSandbox(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.run_sandbox(spec, deadline=deadline)
        self.cgroups.put(self.fake.sandbox_cgroup_of(handle), "memory.max", "1048576")
        return handle


class LimitsThePod(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.memory_limit_in_bytes == 96 * MIB:
            self.cgroups.put(CgroupPath.parse(spec.cgroup_parent), "memory.max", str(96 * MIB))
        return self.fake.run_sandbox(spec, deadline=deadline)

    def update_sandbox(self, sandbox: Any, *, overhead: Any, resources: Any, deadline: Any) -> None:
        self.cgroups.put(
            CgroupPath.parse(sandbox.spec.cgroup_parent), "memory.max", str(resources.memory_limit_in_bytes)
        )


class LeavesTheSandbox(Speaks):
    def remove_sandbox(self, sandbox: Any, *, deadline: Any) -> None:
        """Report success."""


class DropsEarlyUpdates(Speaks):
    """It accepts updates of a container that was not started, and forgets them."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if self.fake.state_of(handle) == "running":
            self.fake.update(handle, resources, deadline=deadline)


class RefusesLateUpdates(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if self.fake.state_of(handle) == "exited":
            raise RuntimeCallError("no.", data={"method": "update", "code": "UNKNOWN", "details": "not running"})
        self.fake.update(handle, resources, deadline=deadline)


class RaisesTheDead(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.cgroups.make(self.path(handle))


class KeepsCgroupsOfTheDead(Speaks):
    """As CRI-O does without systemd, until the container is removed."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        self.fake.keeps_cgroups = True


class SaysTheOldLimit(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(
            told, resources=dataclasses.replace(told.resources, memory_limit_in_bytes=64 * MIB, unified={})
        )


class SaysWhatItRefused(Speaks):
    told: ContainerResources | None = None

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.told = resources
        self.fake.update(handle, resources, deadline=deadline)

    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        unified = {**told.resources.unified, **(self.told.unified if self.told else {})}
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, unified=unified))


class SaysStatsTooHigh(Speaks):
    """As if it counted one megabyte of every 16 twice."""

    def stats(self, handle: Any, *, deadline: Any) -> Any:
        return _more(self.fake.stats(handle, deadline=deadline))

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"]["memory"]
        return {"linux": {"memory": {name: {"value": str(int(one["value"]) + MIB)} for name, one in told.items()}}}


class ListsTooMuch(Speaks):
    """As if only the lists counted one megabyte twice."""

    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return [_more(one) for one in self.fake.listed_stats(sandbox, deadline=deadline)]

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.listed_sandbox_stats(sandbox, deadline=deadline)
        return [{**one, "linux": _more(one["linux"])} for one in told]

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        linux = self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"]
        return {"linux": {**linux, "containers": [_more(one) for one in linux["containers"]]}}


def _more(entry: Any) -> Any:
    values = {name: {"value": str(int(one["value"]) + MIB)} for name, one in entry["memory"].items()}
    return {**entry, "memory": values}


class Remembers(Speaks):
    """It answers each call with what it answered first, and memory grows between calls."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        self.first: dict[str, Any] = {}

    def _kept(self, name: str, ask: Callable[[], Any]) -> Any:
        answer = self.first.setdefault(name, copy.deepcopy(ask()))
        path = self.path(self.handles[-1])
        for one in (path, path.parent):
            self.use(one, 16 * MIB * (1 + len(self.asked)))
        self.asked.append(name)
        return answer

    @functools.cached_property
    def asked(self) -> list[str]:
        return []

    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("list", lambda: self.fake.listed_stats(sandbox, deadline=deadline))

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("pod", lambda: self.fake.sandbox_stats(sandbox, deadline=deadline))

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("pods", lambda: self.fake.listed_sandbox_stats(sandbox, deadline=deadline))


class ListsContainersOfPodsTooHigh(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.listed_sandbox_stats(sandbox, deadline=deadline)
        return [
            {**one, "linux": {**one["linux"], "containers": [_more(inner) for inner in one["linux"]["containers"]]}}
            for one in told
        ]


class ClockIsLate(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = super().stats(handle, deadline=deadline)
        told["memory"]["timestamp"] = str((self.now - 10) * 10**9)
        return told


class HasNoTime(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        return self.fake.stats(handle, deadline=deadline)


class HasNoMemory(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        # The time is read after memory has settled.
        told = self.fake.stats(handle, deadline=deadline)
        return {name: value for name, value in told.items() if name != "memory"}


class SaysMore(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        unified = {**told.resources.unified, "memory.low": "4096"}
        return dataclasses.replace(
            told, resources=dataclasses.replace(told.resources, memory_limit_in_bytes=MIB, unified=unified)
        )


class RunsForEver(Speaks):
    """It reports what has ended as running."""

    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, state=ContainerState.RUNNING) if handle.name == "requested" else told


class ListsNothing(Speaks):
    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return []

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return []

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return {"linux": {**self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"], "containers": []}}


class ListsTwice(Speaks):
    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return 2 * list(self.fake.listed_stats(sandbox, deadline=deadline))


class DoesNotList(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "list", "code": "UNIMPLEMENTED", "details": "unknown method"})


class FailsToList(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "list", "code": "UNKNOWN", "details": "failed"})


class ForgetsTheScore(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, oom_score_adj=0))


class ForgetsHugePages(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, hugepage_limits=()))


class SaysTheLimitAsAvailable(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.stats(handle, deadline=deadline)
        told["memory"]["available_bytes"] = {"value": str(48 * MIB)}
        return told


class SaysError(Speaks):
    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=137, reason="Error")


class ExecsElsewhere(Speaks):
    """Programs that it execs are in a cgroup of their own."""

    def use(self, path: CgroupPath, anon: int) -> None:
        super().use(path, anon)
        self.cgroups.show(path, "memory.peak", f"{MIB}\n")

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        return 0, b"", b""


class ScoresExecs(Speaks):
    """Programs that it execs have a score of their own."""

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.fake.exec_score = 0
        return super().exec(handle, argv, deadline=deadline)


class FailsToExec(Speaks):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        return 126, b"", b""


class KillsAll(Speaks):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.cgroups.show(
            self.path(handle), "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n"
        )
        return 137, b"", b""


class KillsTheContainerToo(Speaks):
    """A program that exec starts is killed last, for an inherited score, and the container's cgroup goes with it."""

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.cgroups.remove(self.path(handle))
        self.fake.finish(handle, exit_code=137)
        return 137, b"", b""


class ChecksBefore(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        raise RuntimeCallError("no.", data={"method": "update", "code": "UNKNOWN", "details": "it uses more"})


class KillsAndRefuses(ChecksBefore):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.kill(handle)
        super().update(handle, resources, deadline=deadline)


class EndsAndRefuses(ChecksBefore):
    """Like crun without a cgroup, before the daemon has noticed."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.cgroups.remove(self.path(handle))
        super().update(handle, resources, deadline=deadline)


class WritesAndRefuses(ChecksBefore):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        super().update(handle, resources, deadline=deadline)


def test_a_runtime_may_refuse_a_limit_below_usage() -> None:
    assert {one.verdict for one in asked(VERBS["update-below-use"], ChecksBefore)} == {Verdict.CONFORMS}


class OtherCode(Speaks):
    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=1, reason="OOMKilled")


@pytest.mark.parametrize(
    ("kind", "name", "knobs"),
    [
        (PutsTheSandboxElsewhere, "sandbox-in-its-parent", {"cgroup"}),
        (LimitsTheSandbox, "sandbox-has-no-limits", {"memory.max"}),
        (LimitsThePod, "sandbox-changes-nothing", {"memory.max"}),
        (LeavesTheSandbox, "sandbox-changes-nothing", {"cgroup"}),
        (LimitsThePod, "update-sandbox-writes-nothing", {"memory.max"}),
        (DropsEarlyUpdates, "update-created", {"memory.high", "memory.max"}),
        (RefusesLateUpdates, "update-ended", {"update"}),
        (RaisesTheDead, "update-ended", {"cgroup"}),
        (SaysTheOldLimit, "status-says-updated", {"ContainerStatus.memory_limit_in_bytes"}),
        (SaysWhatItRefused, "status-forgets-refused", {"ContainerStatus.unified.memory.high"}),
        (SaysStatsTooHigh, "stats-usage", {"usage", "working set", "rss", "available"}),
        (SaysStatsTooHigh, "stats-page-faults", {"page faults"}),
        (SaysStatsTooHigh, "stats-major-page-faults", {"major page faults"}),
        (SaysStatsTooHigh, "stats-under-load", {"usage", "working set", "available"}),
        (SaysStatsTooHigh, "pod-stats", {"usage", "working set", "rss"}),
        (ListsTooMuch, "listed-stats", {"usage", "working set", "rss"}),
        (ListsTooMuch, "listed-pod-stats", {"usage", "working set", "rss"}),
        (ListsTooMuch, "pod-stats-of-containers", {"usage", "working set", "rss"}),
        (ListsNothing, "listed-stats", {"entries"}),
        (ListsNothing, "listed-pod-stats", {"entries"}),
        (ListsNothing, "pod-stats-of-containers", {"entries"}),
        (ListsTwice, "listed-stats", {"entries"}),
        (FailsToList, "listed-pod-stats", {"entries"}),
        (ListsTooMuch, "listed-stats-more", {"available", "page faults", "major page faults"}),
        (ListsTooMuch, "pod-stats-of-containers-more", {"available", "page faults", "major page faults"}),
        (ListsTooMuch, "listed-pod-stats-page-faults", {"page faults", "major page faults"}),
        (Remembers, "listed-stats-under-load", {"usage", "working set"}),
        (Remembers, "pod-stats-under-load", {"usage", "working set"}),
        (Remembers, "listed-pod-stats-under-load", {"usage", "working set"}),
        (ListsContainersOfPodsTooHigh, "listed-pod-stats-of-containers", {"usage", "working set", "rss"}),
        (ListsNothing, "listed-pod-stats-of-containers", {"entries"}),
        (ClockIsLate, "stats-timestamp", {"timestamp"}),
        (
            SaysMore,
            "status-says-no-more",
            {"ContainerStatus.memory_limit_in_bytes", "ContainerStatus.unified.memory.low"},
        ),
        (ForgetsTheScore, "status-says-created", {"ContainerStatus.oom_score_adj"}),
        (ForgetsHugePages, "status-says-huge-pages", {"ContainerStatus.hugepage_limits"}),
        (SaysTheLimitAsAvailable, "stats-usage", {"available"}),
        (SaysError, "oom-killed-is-reported", {"reason"}),
        (OtherCode, "oom-killed-is-reported", {"exit code"}),
        (OtherCode, "oom-group-kills-all", {"exit code"}),
        (ExecsElsewhere, "exec-is-charged", {"memory.peak"}),
        (ExecsElsewhere, "exec-is-alike", {"cgroup.procs of exec"}),
        (ScoresExecs, "exec-is-alike", {"oom_score_adj of exec"}),
        (FailsToExec, "exec-is-alike", set()),
        (ExecsElsewhere, "exec-is-bound", {"exec", "memory.events oom_kill"}),
        (KillsAll, "exec-is-bound", {"memory.events oom_kill"}),
        (KillsTheContainerToo, "exec-is-bound", {"memory.events oom_kill", "state"}),
        (KillsAndRefuses, "update-below-use", {"state", "memory.max"}),
        (EndsAndRefuses, "update-below-use", {"state", "memory.max"}),
        (WritesAndRefuses, "update-below-use", {"memory.max"}),
        (OtherCode, "update-below-use", {"exit code"}),
        (SaysError, "update-below-use", {"reason"}),
    ],
)
def test_a_wrong_runtime_is_found_by_its_fault(
    kind: type[Asked], name: str, knobs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memqos.node.requests.container_requests.REMOVED_SECONDS", 0.1)
    found = deviating(asked(VERBS[name], kind))
    assert knobs <= found
    assert found <= knobs | {one for one in found if one.startswith("ContainerStatus.")}


def test_a_runtime_may_keep_the_cgroup_of_a_container_that_has_ended() -> None:
    found = asked(VERBS["update-ended"], KeepsCgroupsOfTheDead, CgroupDriver.CGROUPFS)
    assert deviating(found) == set()
    assert [(one.knob, one.why_not) for one in found if one.verdict is Verdict.NOT_OBSERVABLE] == [
        ("cgroup", "the runtime keeps the cgroup of a container that has ended until it is removed")
    ]


def test_a_runtime_without_lists_is_not_observable() -> None:
    [found] = asked(VERBS["listed-pod-stats"], DoesNotList)
    assert (found.verdict, found.why_not) == (
        Verdict.NOT_OBSERVABLE,
        "the runtime does not list statistics: unknown method",
    )


def test_a_runtime_names_its_driver() -> None:
    [found] = asked(lambda it: it.driver(), WrongDriver)
    assert (found.verdict, found.expected, found.observed) == (Verdict.DEVIATES, "systemd", "cgroupfs")
    [found] = asked(lambda it: it.driver(), WrongDriver, CgroupDriver.CGROUPFS)
    assert found.verdict is Verdict.CONFORMS


def test_a_cri_verb_is_not_used_with_other_runtimes() -> None:
    place = FakePlace()
    runtime: Any = Speaks(place, CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    assert node.why_not("CRI") == ""
    runtime.capabilities = frozenset(Capability) - {Capability.CRI}
    assert node.why_not("CRI") == "fake is not used over CRI"
    assert node.why_not("own machine") == "memqos may not restart services on this machine"


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ({"memory": {"page_faults": {"value": "7"}}}, 7),
        ({"memory": {"page_faults": {}}}, 0),
        ({"memory": {}}, None),
        ({}, None),
    ],
)
def test_a_message_without_its_number_means_zero_and_a_missing_message_unknown(
    answer: object, number: int | None
) -> None:
    assert said(answer, ("memory", "page_faults", "value")) == number
