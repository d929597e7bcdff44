"""The reasons for expected behaviour, based on the reasons of knobs."""

import pytest

from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Setter
from memqos.engine.plan import Expected, Reason
from memqos.model.knob import Bytes, Knob

WHY = Reason(rule="the factor's share", revision="memory-qos v1.27 shipped", source="KEP-2570")
PLANNED = {
    Knob.MEMORY_HIGH: Expected(knob=Knob.MEMORY_HIGH, written=Bytes(4096), value=Bytes(4096), reason=WHY),
}


def test_a_rule_has_the_planned_reasons_of_its_knobs_behind_it():
    reason = behaviour_reason("memory.events", "high", PLANNED)

    assert reason.rule == "`high` counts each time a cgroup uses more than memory.high, and only then"
    assert reason.source.startswith("kernel cgroup-v2.rst, memory.high and memory.events")
    assert reason.because == (WHY,)


def test_unplanned_knobs_have_no_reason():
    assert behaviour_reason("memory.events", "max", PLANNED).because == ()
    assert behaviour_reason("memory.pressure", "some total", PLANNED).because == (WHY,)


@pytest.mark.parametrize("what", ["state", "exit code", "reason", "report"])
def test_values_reported_by_a_runtime_or_a_workload_have_a_rule(what):
    assert behaviour_reason(what, "", {}).rule
    assert behaviour_reason(what, "", {}).source


def test_a_missing_rule_is_an_error():
    with pytest.raises(KeyError):
        behaviour_reason("memory.stat", "anon", {})


def test_the_kernel_causes_and_the_runtime_reports():
    assert behaviour_setter("memory.events", "high") is Setter.KERNEL
    assert behaviour_setter("memory.swap.current", "") is Setter.KERNEL
    assert behaviour_setter("report", "") is Setter.KERNEL
    assert behaviour_setter("exit code", "") is Setter.RUNTIME
    assert behaviour_setter("reason", "") is Setter.RUNTIME
    assert behaviour_setter("cpuset.mems", "") is Setter.RUNTIME
