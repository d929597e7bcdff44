"""One event for several requests: it happens once, and each container is judged by itself."""

# ruff: noqa: ARG002 - a wrong runtime does not look at all that it is given

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memqos.catalog.requests import RequestCase
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import NonconformanceError, RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.node.requests.verbs import Outcomes
from memqos.place.fake import FakePlace
from tests.unit.node.asked import CATALOGUE, deviating
from tests.unit.node.lives import EVERYTHING, Lives, asked


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in memory takes time."""
    monkeypatch.setattr("memqos.node.requests.lifecycle.UNASKED_SECONDS", 0.0)


class RefusesOneOfThree(Lives):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.resources == CATALOGUE.request("unified-high").create:
            raise RuntimeCallError("it did not work.", data={"method": "create", "code": "UNKNOWN", "details": "no"})
        return super().create(sandbox, spec, deadline=deadline)


class ForgetsTheSecondOfThree(Lives):
    def happened(self, words: Sequence[str]) -> None:
        self.cgroups.put(self.path(self.handles[-2]), "memory.min", "0")


class ClobbersWhatStands(Lives):
    """A container that starts takes memory.low from the one before it."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if len(self.handles) > 2:
            self.cgroups.put(self.path(self.handles[-2]), "memory.low", "0")


TOGETHER = {name: CATALOGUE.request(name) for name in ("everything", "unified-high", "limit")}
TOGETHER_RIGHT = {"everything": EVERYTHING, "everything again": EVERYTHING, "limit": CATALOGUE.request("limit")}
SEVERAL: Mapping[str, Callable[[LifecycleVerbs], Callable[[Mapping[str, RequestCase]], Outcomes]]] = {
    "daemon-reload": lambda it: it.systemd_reloaded,
    "daemon-reexec": lambda it: it.systemd_replaced,
    "restart": lambda it: it.daemon_restarted,
}


def together(kind: type[Lives], verb: str, cases: Mapping[str, RequestCase], happened: list[str]) -> Outcomes:
    """The outcomes of cases that wait together. happened: records each restart."""

    class Counted(kind):  # type: ignore[misc, valid-type]
        def happened(self, words: Sequence[str]) -> None:
            if words[1] in SEVERAL:
                happened.append(words[1])
            super().happened(words)

    outcomes: list[Outcomes] = []

    def ask(life: LifecycleVerbs) -> Sequence[Finding]:
        outcomes.append(SEVERAL[verb](life)(cases))
        return []

    asked(ask, Counted)
    return outcomes[0]


@pytest.mark.parametrize("verb", SEVERAL)
def test_an_event_for_several_cases_happens_once(verb: str) -> None:
    happened: list[str] = []
    outcomes = together(Lives, verb, TOGETHER, happened)
    assert happened == [verb]
    for one in outcomes.values():
        assert {finding.verdict for finding in one.result()} == {Verdict.CONFORMS}


@pytest.mark.parametrize("verb", SEVERAL)
def test_a_refused_container_affects_no_other(verb: str) -> None:
    happened: list[str] = []
    outcomes = together(RefusesOneOfThree, verb, TOGETHER, happened)
    error = outcomes["unified-high"].exception()
    assert isinstance(error, NonconformanceError)
    finding = error.data["finding"]
    assert isinstance(finding, Finding)
    assert (finding.verdict, finding.knob, finding.expected) == (Verdict.DEVIATES, "create", "taken")
    assert happened == [verb]
    for name in ("everything", "limit"):
        assert {finding.verdict for finding in outcomes[name].result()} == {Verdict.CONFORMS}


@pytest.mark.parametrize("verb", SEVERAL)
def test_damage_by_a_restart_is_reported_for_its_container_only(verb: str) -> None:
    outcomes = together(ForgetsTheSecondOfThree, verb, TOGETHER_RIGHT, [])
    assert {name: deviating(one.result()) for name, one in outcomes.items()} == {
        "everything": set(),
        "everything again": {"memory.min"},
        "limit": set(),
    }


def test_damage_by_another_container_is_not_blamed_on_the_restart() -> None:
    happened: list[str] = []
    outcomes = together(ClobbersWhatStands, "daemon-reload", {"everything": EVERYTHING, "again": EVERYTHING}, happened)
    assert [one.knob for one in outcomes["everything"].result()] == ["memory.low"]
    assert deviating(outcomes["again"].result()) == set()
    assert happened == ["daemon-reload"]


class ForgetsWhenAnotherGoes(Lives):
    """As systemd rewrites the files of units next to a removed scope, once it was reloaded."""

    def remove(self, handle: Any, *, deadline: Any) -> None:
        self.fake.remove(handle, deadline=deadline)
        for path in {self.path(other) for other in self.handles[1:] if other.id in self.fake.container_ids}:
            self.cgroups.put(path, "memory.min", "0")


@pytest.mark.parametrize("verb", SEVERAL)
def test_all_are_judged_before_the_first_is_removed(verb: str) -> None:
    outcomes = together(ForgetsWhenAnotherGoes, verb, TOGETHER_RIGHT, [])
    assert [deviating(one.result()) for one in outcomes.values()] == [set(), set(), set()]


class KeepsNames(Lives):
    """Like a CRI runtime, it has no two containers of a name in a sandbox."""

    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        super().__init__(place, driver)
        self.names: dict[str, tuple[str, str]] = {}

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        name = (sandbox.id, spec.name)
        assert name not in self.names.values()
        handle = super().create(sandbox, spec, deadline=deadline)
        self.names[handle.id] = name
        return handle

    def remove(self, handle: Any, *, deadline: Any) -> None:
        self.fake.remove(handle, deadline=deadline)
        del self.names[handle.id]


def test_containers_that_run_together_have_unique_names() -> None:
    outcomes = together(KeepsNames, "restart", TOGETHER, [])
    assert [one.exception() for one in outcomes.values()] == [None, None, None]
