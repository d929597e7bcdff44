"""Why something is expected to happen, in words and with the reasons for the knobs behind it."""

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


def test_knobs_that_nobody_plans_have_no_reason():
    assert behaviour_reason("memory.events", "max", PLANNED).because == ()
    assert behaviour_reason("memory.pressure", "some total", PLANNED).because == (WHY,)


@pytest.mark.parametrize("what", ["state", "exit code", "reason", "report"])
def test_what_a_runtime_or_a_workload_says_has_a_rule_too(what):
    assert behaviour_reason(what, "", {}).rule
    assert behaviour_reason(what, "", {}).source


def test_what_has_no_rule_is_refused():
    with pytest.raises(KeyError):
        behaviour_reason("memory.stat", "anon", {})


def test_what_happens_is_the_kernels_doing_and_what_is_said_of_it_the_runtimes():
    assert behaviour_setter("memory.events", "high") is Setter.KERNEL
    assert behaviour_setter("memory.swap.current", "") is Setter.KERNEL
    assert behaviour_setter("report", "") is Setter.KERNEL
    assert behaviour_setter("exit code", "") is Setter.RUNTIME
    assert behaviour_setter("reason", "") is Setter.RUNTIME
    assert behaviour_setter("cpuset.mems", "") is Setter.RUNTIME
