"""For any pods: the effect of a restart, of a disabled gate and of one enabled again."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given

from memqos.engine.answer.succession import succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Level
from memqos.model.node import KubeletSettings, ReservationPolicy
from tests.unit.engine.anything import PODS, POLICIES, RELEASES
from tests.unit.engine.leaving import left_behind
from tests.unit.engine.pods import NODE, ON

FACTOR = replace(ON, throttling_factor=Fraction(9, 10))
OFF = KubeletSettings(feature_gates={"MemoryQoS": False})


def plans(pods, release, *configurations):
    return [expect(pods, Kubelet.of(node=NODE, settings=one, release=release), reasons=False) for one in configurations]


def shown(plan):
    return [
        (cgroup.path, cgroup.container, {knob: one.value for knob, one in cgroup.knobs.items()})
        for cgroup in plan.cgroups()
    ]


@given(PODS, RELEASES, POLICIES)
def test_a_restart_changes_nothing(pods, release, policy):
    (plan,) = plans(pods, release, replace(FACTOR, memory_reservation_policy=policy))
    assert list(left_behind(plan, plan)) == []


@given(PODS, RELEASES, POLICIES)
def test_enabling_again_restores_the_values(pods, release, policy):
    on, off = plans(pods, release, replace(FACTOR, memory_reservation_policy=policy), OFF)
    assert shown(succession(succession(on, off), on)) == shown(on)


@given(PODS)
def test_disabling_restores_in_137_all_but_the_cgroups_of_pods(pods):
    on, off = plans(pods, "1.37", replace(FACTOR, memory_reservation_policy=ReservationPolicy.TIERED), OFF)
    assert all(cgroup.level in {Level.POD, Level.CONTAINER} for cgroup, _ in left_behind(on, off))
    remade = {(pod.uid, one.name) for pod in on.pods for one in pod.containers}
    assert all(cgroup.level is Level.POD for cgroup, _ in left_behind(on, off, remade=remade))
