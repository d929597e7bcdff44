"""Cases that need CRI itself, in memory: a right runtime conforms, and each wrong one is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import NonconformanceError, RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.cri_calls import CriVerbs
from memqos.node.requests.reported import said
from memqos.place.fake import FakePlace
from memqos.runtime.base import Capability
from tests.unit.node.asked import CATALOGUE, Asked, deviating, verbs_asked_of
from tests.unit.node.cri_servers import (
    ChecksBefore,
    ClockIsLate,
    DoesNotList,
    DoesNotUpdateSandboxes,
    DropsEarlyUpdates,
    EndsAndRefuses,
    ExecsElsewhere,
    FailsToCount,
    FailsToExec,
    FailsToList,
    FailsToUpdateSandboxes,
    ForgetsHugePages,
    ForgetsTheScore,
    HasNoMemory,
    HasNoTime,
    KeepsCgroupsOfTheDead,
    KillsAll,
    KillsAndRefuses,
    KillsTheContainerToo,
    LeavesTheSandbox,
    LimitsThePod,
    LimitsTheSandbox,
    ListsContainersOfPodsTooHigh,
    ListsNothing,
    ListsTooMuch,
    ListsTwice,
    OtherCode,
    PutsTheSandboxElsewhere,
    RaisesTheDead,
    RefusesExecs,
    RefusesLateUpdates,
    Remembers,
    RemovesNoContainer,
    RemovesNoSandbox,
    RunsForEver,
    SaysAPeriod,
    SaysError,
    SaysMore,
    SaysOomKilledAlways,
    SaysRssIsTheWorkingSet,
    SaysStatsTooHigh,
    SaysTheLimitAsAvailable,
    SaysTheOldLimit,
    SaysTheWorkingSetIsTheUsage,
    SaysWhatItRefused,
    ScoresExecs,
    Speaks,
    WritesAndRefuses,
    WrongDriver,
)

Verb = Callable[[CriVerbs], Sequence[Finding]]


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


class StartsNoSets(Speaks):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        self.takes = not spec.resources.cpuset_mems
        return super().create(sandbox, spec, deadline=deadline)

    def start(self, handle: Any, *, deadline: Any) -> None:
        if not self.takes:
            raise RuntimeCallError("no", data={"method": "start", "code": "UNKNOWN", "details": "it takes no sets"})
        super().start(handle, deadline=deadline)


def test_a_wrong_refusal_to_start_is_a_finding() -> None:
    with pytest.raises(NonconformanceError) as error:
        asked(VERBS["update-created"], StartsNoSets)
    found = error.value.data["finding"]
    assert (found.verdict, found.knob, found.observed) == (Verdict.DEVIATES, "create", "refused: it takes no sets")


def test_a_runtime_may_refuse_a_limit_below_usage() -> None:
    assert {one.verdict for one in asked(VERBS["update-below-use"], ChecksBefore)} == {Verdict.CONFORMS}


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
        (FailsToCount, "stats-usage", {"ContainerStats"}),
        (FailsToCount, "pod-stats", {"PodSandboxStats"}),
        (RemovesNoContainer, "removed-is-not-listed", {"ListContainers"}),
        (RemovesNoSandbox, "removed-is-not-listed", {"ListPodSandbox"}),
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
        (SaysRssIsTheWorkingSet, "stats-usage", {"rss"}),
        (SaysTheWorkingSetIsTheUsage, "stats-usage", {"working set"}),
        (SaysOomKilledAlways, "another-kill-is-no-oom-kill", {"reason"}),
        (SaysAPeriod, "status-says-no-more", {"ContainerStatus.cpu_period"}),
        (RefusesExecs, "exec-is-charged", {"exec"}),
        (RefusesExecs, "exec-is-bound", {"exec", "memory.events oom_kill"}),
        (FailsToUpdateSandboxes, "update-sandbox-writes-nothing", {"UpdatePodSandboxResources"}),
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


def test_a_runtime_without_updates_of_sandboxes_is_not_observable() -> None:
    [found] = asked(VERBS["update-sandbox-writes-nothing"], DoesNotUpdateSandboxes)
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "the runtime does not support it: failed")


def test_a_runtime_without_lists_is_not_observable() -> None:
    [found] = asked(VERBS["listed-pod-stats"], DoesNotList)
    assert (found.verdict, found.why_not) == (
        Verdict.NOT_OBSERVABLE,
        "the runtime does not support it: unknown method",
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
