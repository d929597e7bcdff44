"""The engine explored without a machine: a plan and an audit of its own tree agree, without a traceback."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memqos.clock import Deadline
from memqos.errors import ExitCode
from memqos.exploration import engine_alone
from memqos.exploration.engine_alone import EngineAlone, judged_situation, tree_of_plan
from memqos.model.knob import Knob
from memqos.model.reading import CgroupReading
from memqos.testing.strategies import nodes, situations

SITUATIONS = nodes().flatmap(lambda node: situations(node=node))
QUIET = settings(suppress_health_check=list(HealthCheck))


@QUIET
@given(SITUATIONS)
def test_plan_and_audit_of_its_own_tree_agree(situation):
    outcome = judged_situation(situation)
    assert outcome.wrong == ""
    assert outcome.files > 0 or outcome.refused


def explored(batches=3):
    alone = EngineAlone(seed=1, releases=(), until=Deadline.after(600))
    alone.run(told=lambda _: None, batches=batches)
    return alone


def test_a_session_counts_its_work():
    alone = explored()
    assert alone.situations >= 20
    assert alone.files > 200
    assert alone.pods > 10
    assert alone.wrong == {}
    assert alone.code(interrupted=False) is ExitCode.CONFORMS
    assert alone.code(interrupted=True) is ExitCode.INTERRUPTED


def altered(plan, pods):
    """The plan's tree with memory.max of each pod's cgroup a page larger."""
    tree = tree_of_plan(plan, pods)
    cgroups = dict(tree.reading.cgroups)
    for pod in plan.pods:
        own = cgroups[pod.cgroup.path]
        limit = own.files.get(Knob.MEMORY_MAX, "max\n").strip()
        if limit != "max":
            files = {**own.files, Knob.MEMORY_MAX.value: f"{int(limit) + 4096}\n"}
            cgroups[pod.cgroup.path] = CgroupReading(path=own.path, files=files)
    return replace(tree, reading=replace(tree.reading, cgroups=cgroups))


def test_a_disagreement_is_found_with_its_smallest_situation(monkeypatch):
    monkeypatch.setattr(engine_alone, "tree_of_plan", altered)
    alone = explored()
    assert alone.code(interrupted=False) is ExitCode.DEVIATES
    assert any(text.startswith("deviates: memory.max of pod") for text in alone.wrong)
    lines = [line for line in alone.lines() if "the smallest of these" in line]
    assert len(lines) == len(alone.wrong)
    assert '"kubernetes"' in lines[0]


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), KeyError("memory")])
def test_a_traceback_is_a_finding(monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(engine_alone, "expect", fails)
    alone = explored()
    [text] = alone.wrong
    assert type(error).__name__ in text
    assert alone.files == 0


@QUIET
@given(st.data())
def test_situations_of_one_release(data):
    situation = data.draw(situations(node=data.draw(nodes()), kubernetes="1.27"))
    assert situation.kubelet.kubernetes == "1.27"
