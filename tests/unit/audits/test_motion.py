"""Two looks: a changing value is no evidence, and a sum above pods must be constant for a minute."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from memqos.audits.answer import Audit
from memqos.audits.entry import audit
from memqos.audits.live import WRITER, Course, looked_at, with_systemd
from memqos.catalog.recorded_trees import tree_of
from memqos.engine.answer.finding import Verdict
from tests.clocks import HandClock
from tests.recorded_nodes import recorded_node

DOCUMENT = recorded_node("n1", pods=6, seed=2)
SLICE = "/kubepods.slice/kubepods-burstable.slice"


def judged(*changes: Callable[[dict[str, Any]], None]) -> Audit:
    document = copy.deepcopy(DOCUMENT)
    for change in changes:
        change(document)
    return audit(tree_of(document, "n1"))


def container() -> str:
    return next(
        path for path, one in DOCUMENT["cgroups"].items() if one.get("comm") == "app" and one["memory.high"] != "max"
    )


def written(path: str, name: str, text: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["cgroups"][path][name] = text

    return change


WRONG = written(container(), "memory.high", "4096")
WRONG_SUM = written(SLICE, "memory.low", "4096")


def looks(*audits: Audit) -> Callable[[], Audit]:
    given: Iterator[Audit] = iter(audits)
    return lambda: next(given)


def test_a_right_node_is_looked_at_once() -> None:
    clock = HandClock()
    assert looked_at(looks(judged()), settle=5.0, clock=clock).exit_code == 0
    assert clock.at == 0.0


def test_a_deviation_in_two_looks_stays_one() -> None:
    found = looked_at(looks(judged(WRONG), judged(WRONG)), settle=5.0, clock=HandClock())
    [one] = found.of(Verdict.DEVIATES)
    assert one.evidence["looks"] == "two, 5 s apart"


@pytest.mark.parametrize("second", [[], [written(container(), "memory.high", "8192")]])
def test_a_deviation_in_one_look_is_in_motion(second: list[Any]) -> None:
    found = looked_at(looks(judged(WRONG), judged(*second)), settle=5.0, clock=HandClock())
    assert not found.of(Verdict.DEVIATES)
    assert found.state.value == ("INSUFFICIENT_EVIDENCE" if second else "FULFILLED")


def test_a_sum_above_pods_deviates_after_a_minute_only() -> None:
    clock = HandClock()
    found = looked_at(looks(judged(WRONG_SUM), judged(WRONG_SUM), judged(WRONG_SUM)), settle=5.0, clock=clock)
    assert len(found.of(Verdict.DEVIATES)) == 1
    assert clock.at == 65.0
    found = looked_at(looks(judged(WRONG_SUM), judged(WRONG_SUM), judged()), settle=5.0, clock=HandClock())
    assert found.exit_code == 0


def test_without_settling_there_is_no_wait_for_a_sum() -> None:
    clock = HandClock()
    found = looked_at(looks(judged(WRONG_SUM), judged(WRONG_SUM)), settle=0.0, clock=clock)
    assert (clock.at, len(found.of(Verdict.DEVIATES))) == (0.0, 0)
    [one] = [one for one in found.of(Verdict.NOT_OBSERVABLE) if one.cgroup == SLICE]
    assert one.why_not == "a kubelet sets it once a minute, and the two readings were 0 s apart"


def test_a_value_that_changes_while_the_node_is_read_is_not_observable() -> None:
    def change(document: dict[str, Any]) -> None:
        document["second_look"] = {"changed": {container(): {"memory.high": "5"}}, "after_seconds": 0.5}

    [one] = judged(WRONG, change).of(Verdict.NOT_OBSERVABLE)
    assert one.why_not == "it changed while the node was read: 4096, then 5"


def test_a_cgroup_that_is_removed_while_the_node_is_read_is_not_observable() -> None:
    def change(document: dict[str, Any]) -> None:
        document["second_look"] = {"gone": [container().rpartition("/")[0]]}

    assert [one.why_not for one in judged(WRONG, change).of(Verdict.NOT_OBSERVABLE)] == [
        "its cgroup was removed while the node was read"
    ]


def test_limits_of_huge_pages_are_no_evidence_with_an_unknown_runtime_setting() -> None:
    def change(document: dict[str, Any]) -> None:
        document["cgroups"][container()]["hugetlb.2MB.max"] = "0"

    found = judged(change)
    assert not found.of(Verdict.DEVIATES)
    assert {one.why_not for one in found.of(Verdict.NOT_OBSERVABLE)} == {
        "the runtime was not asked whether it passes limits of huge pages on"
    }
    assert judged(change, lambda document: document["node"].update(hugetlb=False)).of(Verdict.DEVIATES)


def test_a_sum_is_no_evidence_while_a_pod_starts_or_ends() -> None:
    def started(document: dict[str, Any]) -> None:
        status = document["pods"][0]["status"]["containerStatuses"][0]
        status["state"]["running"]["startedAt"] = "2026-11-29T11:59:30Z"

    def ended(document: dict[str, Any]) -> None:
        document["runtime_pods"] = [{"name": "old", "namespace": "default", "uid": "u-9", "ready": False}]

    for change, words in ((started, "pod default/pod-0 has just started"), (ended, "pod default/old has just ended")):
        found = judged(WRONG_SUM, change)
        assert not found.of(Verdict.DEVIATES)
        [one] = found.of(Verdict.NOT_OBSERVABLE)
        assert words in one.why_not
    assert len(judged(WRONG_SUM).of(Verdict.DEVIATES)) == 1


def test_systemds_properties_show_how_a_value_was_written() -> None:
    unit = container().rpartition("/")[2]
    found = judged(WRONG)
    [right] = found.of(Verdict.DEVIATES)
    for held, words in {
        "4096": "it was set through systemd", right.expected: "the file was written past systemd", "1": "neither",
    }.items():  # fmt: skip
        told = with_systemd(found, lambda units, held=held: {one: {"MemoryHigh": held} for one in units})
        assert words in told.of(Verdict.DEVIATES)[0].evidence[WRITER]
    asked: list[tuple[str, ...]] = []

    def none(units: tuple[str, ...]) -> dict[str, dict[str, str]]:
        asked.append(units)
        return {}

    assert with_systemd(found, none) == found
    assert asked == [(unit,)]


def test_drift_is_reported_when_it_appears_and_disappears() -> None:
    course = Course(HandClock())
    told = [[(one.kind, one.finding.observed) for one in course.step(judged(*given))] for given in (
        (), (WRONG,), (WRONG,), (written(container(), "memory.high", "8192"),), (),
    )]  # fmt: skip
    assert told == [[], [("drift", "4096")], [], [("back", "4096"), ("drift", "8192")], [("back", "8192")]]


def test_an_unobservable_value_is_neither_drift_nor_back() -> None:
    course = Course(HandClock())
    list(course.step(judged(WRONG)))
    seen = judged(WRONG)
    blind = replace(
        seen,
        findings=tuple(
            replace(one, verdict=Verdict.NOT_OBSERVABLE) if one.verdict is Verdict.DEVIATES else one
            for one in seen.findings
        ),
    )
    assert list(course.step(blind)) == []
    assert list(course.step(seen)) == []


def test_a_look_of_a_watch_does_not_wait_for_a_sum_and_sees_the_other_drift_meanwhile() -> None:
    """A watch that waited 65 s for a sum told a knob that was changed by hand only after that."""
    clock = HandClock()
    found = looked_at(looks(judged(WRONG_SUM), judged(WRONG_SUM)), settle=5.0, waits=False, clock=clock)
    assert (clock.at, found.exit_code) == (5.0, 0)
    assert not found.of(Verdict.DEVIATES)


def waited(*changes: Callable[[dict[str, Any]], None]) -> Audit:
    """A look of a watch: two looks, five seconds apart."""
    return looked_at(looks(judged(*changes), judged(*changes)), settle=5.0, waits=False, clock=HandClock())


@pytest.mark.parametrize(
    ("between", "told"),
    [
        (waited(WRONG_SUM), [[], [], ["drift"], []]),
        # Right once in between, or another wrong value: the sums of pods that come and go.
        (waited(), [[], [], [], []]),
        (waited(written(SLICE, "memory.low", "8192")), [[], [], [], []]),
    ],
)
def test_a_sum_drifts_in_a_watch_after_it_was_wrong_for_a_minute(between: Audit, told: list[list[str]]) -> None:
    clock = HandClock()
    course = Course(clock)
    seen = []
    for at, audited in ((0, waited(WRONG_SUM)), (10, between), (70, waited(WRONG_SUM)), (74, waited(WRONG_SUM))):
        clock.at = float(at)
        seen.append([one.kind for one in course.step(audited)])
    assert seen == told
    clock.at = 80.0
    assert [one.kind for one in course.step(waited())] == ["back"] * (told[2] == ["drift"])


def test_the_writer_of_a_sum_is_known_when_it_drifts() -> None:
    def properties(units: tuple[str, ...]) -> dict[str, dict[str, str]]:
        assert units == ("kubepods-burstable.slice",)
        return {"kubepods-burstable.slice": {"MemoryLow": "4096"}}

    clock = HandClock()
    course, audited = Course(clock), with_systemd(waited(WRONG_SUM), properties)
    list(course.step(audited))
    clock.at = 65.0
    [event] = course.step(audited)
    assert event.finding.verdict is Verdict.DEVIATES
    assert event.finding.evidence[WRITER] == "systemd's MemoryLow is 4096, as the file: it was set through systemd"


def test_a_kubelet_that_has_just_started_has_limited_the_huge_pages_of_kubepods() -> None:
    """It writes the node's number, and no limit when it next updates the QoS cgroups."""
    found = judged(written("/kubepods.slice", "hugetlb.2MB.max", "0"))
    assert not found.of(Verdict.DEVIATES)
    [one] = [one for one in found.of(Verdict.NOT_OBSERVABLE) if one.knob == "hugetlb.2MB.max"]
    assert "started less than a minute ago" in one.why_not
    assert len(judged(written("/kubepods.slice", "hugetlb.2MB.max", "2097152")).of(Verdict.DEVIATES)) == 1
    assert len(judged(written(SLICE, "hugetlb.2MB.max", "0")).of(Verdict.DEVIATES)) == 1
