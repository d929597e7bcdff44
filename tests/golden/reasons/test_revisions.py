"""Every reason names its revision of the rules: a kubelet's, the kernel's, a runtime's or the draft's."""

import re
from collections.abc import Iterator

import pytest

from memqos.engine.answer.behaviour import behaviour_reason
from memqos.engine.plan import Plan, Reason
from memqos.engine.releases.table import RELEASES, Family
from memqos.model.knob import Knob
from memqos.model.node import NodeFacts
from memqos.node.pods.foreign_writes import bound_to
from tests.golden.reasons.nodes import PLANS
from tests.golden.reasons.plans import explained, plan_of
from tests.golden.reasons.resizes import RESIZES

KUBELET = re.compile(rf"({'|'.join(Family)}) v1\.({'|'.join(map(str, RELEASES))})( shipped| documented)?")
OTHERS = re.compile(
    r"kernel cgroup v[12]|CRI v1|memqos workload|memory-manager draft 2020|"
    r"(containerd|cri-o) .* (runc|crun)( .*)?"
)


def chain(reason: Reason) -> Iterator[Reason]:
    yield reason
    for one in reason.because:
        yield from chain(one)


def unnamed(reason: Reason) -> list[str]:
    """The reasons in a chain without a revision, or with an unknown one."""
    return [
        f"{one.rule} ({one.revision})"
        for one in chain(reason)
        if not KUBELET.fullmatch(one.revision) and not OTHERS.fullmatch(one.revision)
    ]


def of_plan(plan: Plan) -> list[str]:
    return [text for _, reason in explained(plan) for text in unnamed(reason)]


@pytest.mark.parametrize("planned", PLANS, ids=lambda planned: planned.title)
def test_every_reason_of_a_plan_has_its_revision(planned):
    assert of_plan(plan_of(planned)) == []


@pytest.mark.parametrize("title", RESIZES)
def test_every_reason_of_a_resize_has_its_revision(title):
    plan = RESIZES[title]()
    assert of_plan(plan.before) + of_plan(plan.after) == []
    for resize in plan.resizes:
        assert unnamed(resize.reason) == []
        for step in resize.steps:
            reasons = [step.reason, *(one.reason for one in step.knobs.values())]
            assert [text for reason in reasons for text in unnamed(reason)] == []


@pytest.mark.parametrize("title", ["memory.swap.current", "memory.failcnt", "exit code", "report"])
def test_every_reason_of_a_behaviour_has_its_revision(title):
    assert unnamed(behaviour_reason(title, "", {})) == []


def test_a_bound_container_has_its_reason_from_cri():
    plan = bound_to(plan_of(PLANS[0]), 1, NodeFacts(memory=1 << 30))
    reasons = [one.cgroup.knobs[Knob.CPUSET_MEMS].reason for pod in plan.pods for one in pod.containers]
    assert {reason.revision for reason in reasons} == {"CRI v1"}


def test_a_reason_without_a_revision_would_be_found():
    assert unnamed(Reason(rule="so it is", revision="", source="nobody")) == ["so it is ()"]
    assert unnamed(Reason(rule="so it is", revision="swap v1.99", source="nobody")) == ["so it is (swap v1.99)"]
