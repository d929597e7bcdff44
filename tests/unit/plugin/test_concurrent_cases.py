"""Cases judged before they are collected: concurrently, each once, and with failures."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.errors import MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.pod import Container
from memqos.node.fake import fake_node
from memqos.node.pods.refusal import NAME
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.native_requests import ask_for_container
from memqos.plugin.collection.catalogue import Catalogue
from memqos.plugin.machines.shared import ConcurrentCases, alike, concurrent_cases
from memqos.runtime.base import ContainerState, Runtime
from memqos.runtime.oci_commands import command_refusal

CATALOGUE = Catalogue()
SOON = 10.0
"""Seconds after which a thread that waits for another one gives up."""


def found(name: str) -> Sequence[Finding]:
    how = {"expected": "taken", "observed": "taken"}
    return [
        Finding(
            verdict=Verdict.CONFORMS,
            subject=Subject.of_machine(name),
            cgroup="/",
            knob="create",
            set_by=Setter.RUNTIME,
            **how,
        )
    ]


def never(name: str, error: MachineryError) -> None:
    raise AssertionError(f"{name} failed beside another: {error}")


@pytest.fixture
def told() -> list[str]:
    """The reports of cases that failed next to others."""
    return []


@pytest.fixture
def ahead(told: list[str]) -> Iterator[Callable[..., ConcurrentCases[str]]]:
    contexts = []

    def made(
        upcoming: Sequence[str], judge: Callable[[str, str], Sequence[Finding]], askers: int = 2
    ) -> ConcurrentCases[str]:
        context = concurrent_cases(
            [f"asker-{number}" for number in range(askers)],
            upcoming,
            judge,
            on_failure=lambda name, error: told.append(f"{name}: {error}"),
            leaves=lambda: False,
        )
        contexts.append(context)
        return context.__enter__()

    yield made
    for context in contexts:
        context.__exit__(None, None, None)


def test_as_many_cases_run_as_there_are_askers(ahead: Callable[..., ConcurrentCases[str]]) -> None:
    both = threading.Barrier(2, timeout=SOON)

    def judge(asker: str, name: str) -> Sequence[Finding]:
        both.wait()
        return [*found(name), *found(asker)]

    cases = ahead(["one", "two", "three", "four"], judge)

    told = [[str(one.subject) for one in cases.findings(name)] for name in ("one", "two", "three", "four")]
    assert [names[0] for names in told] == ["one", "two", "three", "four"]
    assert {names[1] for names in told} == {"asker-0", "asker-1"}


def test_each_case_is_judged_once_and_none_that_was_passed_over(ahead: Callable[..., ConcurrentCases[str]]) -> None:
    judged: list[str] = []

    def judge(asker: str, name: str) -> Sequence[Finding]:
        judged.append(name)
        return found(name)

    cases = ahead(["passed over", "one", "two", "three"], judge, askers=1)
    for name in ("one", "two", "unforeseen", "three"):
        assert cases.findings(name) == found(name)

    assert sorted(judged) == ["one", "three", "two", "unforeseen"]


def test_a_failure_next_to_another_case_is_reported_as_such(
    ahead: Callable[..., ConcurrentCases[str]], told: list[str]
) -> None:
    """One case kills what the other one needs: the other one is not to blame, and they cannot be told apart."""
    both, attempts = threading.Barrier(2, timeout=SOON), list[str]()

    def judge(asker: str, name: str) -> Sequence[Finding]:
        attempts.append(name)
        if name != "later":
            both.wait()
            raise MachineryError(f"{name} failed.")
        return found(name)

    cases = ahead(["innocent", "kills", "later"], judge)

    for name in ("innocent", "kills"):
        with pytest.raises(MachineryError, match=f"{name} failed"):
            cases.findings(name)
    assert cases.findings("later") == found("later")
    assert sorted(attempts) == ["innocent", "kills", "later"]
    assert told == ["innocent: innocent failed.", "kills: kills failed."]


def test_a_failure_alone_is_reported_by_its_error_only(
    ahead: Callable[..., ConcurrentCases[str]], told: list[str]
) -> None:
    attempts: list[str] = []

    def judge(asker: str, name: str) -> Sequence[Finding]:
        attempts.append(name)
        raise MachineryError("it starts nothing.")

    with pytest.raises(MachineryError, match="it starts nothing"):
        ahead(["one"], judge).findings("one")
    assert attempts == ["one"]
    assert told == []


def test_what_was_not_begun_is_not_begun_at_the_end() -> None:
    began, go_on, judged = threading.Event(), threading.Event(), list[str]()

    def judge(asker: str, name: str) -> Sequence[Finding]:
        judged.append(name)
        if name == "two":
            began.set()
            go_on.wait(SOON)
        return found(name)

    with concurrent_cases(["asker"], ["one", "two", "three"], judge, on_failure=never, leaves=lambda: False) as cases:
        cases.findings("one")
        began.wait(SOON)
        threading.Timer(0.05, go_on.set).start()

    assert judged == ["one", "two"]


def test_requests_run_in_pods_of_their_own() -> None:
    node, pods = fake_node(), alike(CATALOGUE.pod("best-effort"), 2)

    def judge(requests: Requests, name: str) -> Sequence[Finding]:
        return requests.judge(CATALOGUE.request(name))

    with (
        node.requests_of_each(pods, CATALOGUE.kubelet("v1.36-none")) as askers,
        concurrent_cases(
            askers, ["limit", "update-unified-high"], judge, on_failure=never, leaves=lambda: False
        ) as cases,
    ):
        limit, high = cases.findings("limit"), cases.findings("update-unified-high")

    assert [pod.name for pod in pods] == ["best-effort", "best-effort-2"]
    assert {one.verdict for one in (*limit, *high)} == {Verdict.CONFORMS}
    assert {one.knob for one in high} >= {"update", Knob.MEMORY_HIGH}
    assert node.leftovers() == ()


def test_a_waiting_container_is_judged_in_its_own_pod() -> None:
    node, pods = fake_node(), alike(CATALOGUE.pod("best-effort"), 2)
    case = CATALOGUE.request("update-later")
    with node.requests_of_each(pods, CATALOGUE.kubelet("v1.36-none")) as (first, second):
        first.stand(case)
        late = second.judge(case)

    assert {one.verdict for one in late} == {Verdict.CONFORMS}
    assert {str(one.subject) for one in late} >= {"container beside", "container updated", "a neighbouring cgroup"}
    assert node.leftovers() == ()


def test_a_refused_waiting_container_leaves_alone_what_another_case_made_in_its_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, pods, case = fake_node(), alike(CATALOGUE.pod("best-effort"), 2), CATALOGUE.request("update-later")

    def refuses(runtime: Runtime, pod: AdmittedPod, template: Container, request: object, **how: Any) -> object:
        if request == case.create:
            raise command_refusal("create", "REFUSED", "it takes no sets")
        return ask_for_container(runtime, pod, template, ContainerResources(), **how)

    monkeypatch.setattr("memqos.node.requests.container_requests.ask_for_container", refuses)
    with node.requests_of_each(pods, CATALOGUE.kubelet("v1.36-none")) as (first, second):
        first.stand(case)
        template = dataclasses.replace(first.pod.pod.containers[0], name=NAME)
        with first.removing(first.pod):
            mine = ask_for_container(
                first.runtime, first.pod, template, ContainerResources(), deadline=Deadline.after(SOON)
            )
            late = second.judge(case)
            assert first.pod.containers[NAME] is mine
            assert first.runtime.status(mine, deadline=Deadline.after(SOON)).state is ContainerState.RUNNING

    assert [(one.verdict, one.observed) for one in late] == [
        (Verdict.DEVIATES, "refused: it takes no sets"),
        (Verdict.CONFORMS, "the next request is accepted"),
    ]
    assert node.leftovers() == ()


def test_an_early_error_is_raised_when_the_case_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MachineryError("it does not answer.")

    node, case = fake_node(), CATALOGUE.request("update-later")
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        monkeypatch.setattr("memqos.node.requests.container_requests.ask_for_update", fails)
        requests.stand(case)
        with pytest.raises(MachineryError, match="does not answer"):
            requests.judge(case)
