"""Access to a plan's values, and the configurations of several tests."""

from dataclasses import replace

from memqos.model.knob import ABSENT
from memqos.model.node import ReservationPolicy
from tests.unit.engine.pods import ON

MI = 1 << 20
BURSTABLE = {"memory": "64Mi"}, {"memory": "200Mi"}
TIERED = replace(ON, memory_reservation_policy=ReservationPolicy.TIERED)


def knobs(plan, name="c"):
    """The written files of one container of a plan's only pod."""
    (found,) = [one for one in plan.pods[0].containers if one.name == name]
    return written(found.cgroup)


def written(cgroup):
    return {knob.value: one.written for knob, one in cgroup.knobs.items() if one.written is not ABSENT}


def memory(found):
    return {name: str(value) for name, value in found.items() if name.startswith("memory.")}
