"""The node chapter on a small model of an OOM killer: a right one conforms, wrong ones do not."""

import contextlib

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import NonconformanceError, UsageError
from tests.unit.node.chapters import KUBELETS, cases, chapter, evidence_in, pods
from tests.unit.node.exhausted import ExhaustedBench

MODULE = chapter("node")
CASES = list(cases(MODULE))


def watched(node, kubelet, *names):
    return node.watched_pods(pods(*names), node.tight(kubelet), rests_on=MODULE.PREMISES, steered=True)


def findings_of(function, kubelet, folder, bench):
    evidence, notes = evidence_in(folder)
    [names] = [mark.args[1][0] for mark in function.pytestmark if mark.name == "parametrize"]
    with watched(bench.node, kubelet, *names) as crowd, contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(crowd, evidence)
    return notes.findings


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_kills_by_score_and_size_conform(function, kubelet, tmp_path):
    findings = findings_of(function, kubelet, tmp_path, ExhaustedBench())

    assert {one.knob for one in findings} >= {"oom_score_adj", "memory.max", "memory.events", "state"}
    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


@pytest.mark.parametrize(
    ("name", "ignores"),
    [
        ("test_a_large_burstable_pod_is_killed_before_a_small_best_effort_pod", "size"),
        ("test_a_guaranteed_pod_outlives_a_smaller_best_effort_pod", "oom_score_adj"),
    ],
)
def test_a_kernel_that_ignores_score_or_size_deviates(name, ignores, tmp_path):
    kubelet = KUBELETS["v1.36-none"]
    findings = findings_of(getattr(MODULE, name), kubelet, tmp_path, ExhaustedBench(ignores=ignores))

    lost = {(one.knob, one.reason.rule) for one in findings if one.verdict is Verdict.DEVIATES}
    assert {knob for knob, _ in lost} == {"memory.events", "state"}


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_runtime_that_drops_the_score_is_the_deviation(function, kubelet, tmp_path):
    """No behaviour is judged then."""
    bench = ExhaustedBench()
    run_in = bench.cgroups.run_in
    bench.cgroups.run_in = lambda path, _: run_in(path, 0)

    findings = findings_of(function, kubelet, tmp_path, bench)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"oom_score_adj"}
    behaviours = [one for one in findings if one.knob == "memory.events"]
    assert {one.verdict for one in behaviours} == {Verdict.NOT_OBSERVABLE}
    assert all("does not hold: oom_score_adj of container" in one.why_not for one in behaviours)


def test_what_the_model_does_not_name_is_not_expected_to_be_killed():
    with watched(ExhaustedBench().node, KUBELETS["v1.36-none"], "holds-little", "greedy-guaranteed") as watch:
        ends = watch.exhaust("greedy-guaranteed")

    named = "the kernel's model names container app of pod default/holds-little first"
    assert (ends.is_killed("greedy-guaranteed").why_not, ends.is_spared("holds-little").why_not) == (named, named)


def test_a_narrow_lead_is_not_observable(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.pressure.MARGIN", 1 << 40)
    with watched(ExhaustedBench().node, KUBELETS["v1.36-none"], "holds-little", "greedy-guaranteed") as watch:
        ends = watch.exhaust("greedy-guaranteed")

    assert "is ahead of container app of pod default/greedy-guaranteed by" in ends.is_killed("holds-little").why_not


def test_watching_a_single_pod_is_rejected_with_a_hint():
    with (
        watched(ExhaustedBench().node, KUBELETS["v1.36-none"], "greedy-guaranteed") as watch,
        pytest.raises(UsageError, match="the container greedy-guaranteed/app is the only one watched"),
    ):
        watch.exhaust("greedy-guaranteed")


def test_an_unwatched_pod_is_named_with_the_watched_ones():
    with watched(ExhaustedBench().node, KUBELETS["v1.36-none"], "holds-little", "greedy-guaranteed") as watch:
        ends = watch.exhaust("greedy-guaranteed")

    with pytest.raises(UsageError, match="no container 'holds-litle/' is watched") as raised:
        ends.is_killed("holds-litle")
    assert raised.value.next_step == "Watched: greedy-guaranteed/app, holds-little/app."
