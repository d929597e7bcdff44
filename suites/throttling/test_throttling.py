"""Throttling: programs that allocate more memory than their container may use.

    cgroup               memory.high                memory.max   before   program asks for
    pod over-limit       max                        64 Mi        0
      container app      51.2 to 59.2 Mi, or max    64 Mi        0        96 Mi in steps of 1 Mi
    pod stalls           max                        48 Mi        0
      container app      19.2 to 23.2 Mi, or max    24 Mi        0        40 Mi in steps of 256 Ki
    pod swaps-over-high  max                        48 Mi        0
      container app      46.4 Mi                    48 Mi        0        50 Mi, of which it may swap 8 Mi, the last
                                                                          6 Mi at 8 Mi a second
    pod grows-together   35.2 Mi                    48 Mi        0
      containers app     the node's, and not met    48 Mi        0        40 Mi each in steps of 256 Ki
      and other

By the throttling factor, the 1.27 kubelet sets memory.high of the pod stalls to 19.2 Mi (0.4), 20.8 Mi (0.6), 22.4 Mi
(0.8), 23.2 Mi (0.9, its default) or its memory.max (1). Above it the program is slow; only with 0.4 does it stall
before memory.max. One pod for each factor runs at the same time: the factor affects only containers, and no pod is
above the memory.high of another.

Each kubelet's plan gives the container's memory.high. It, memory.max and memory.swap.max are preconditions of all
tests. Counters of a new cgroup begin at zero. A stall counts as throttling from 10 ms on, the shortest sleep that the
kernel gives a task above memory.high (mm/memcontrol.c, mem_cgroup_handle_over_high). The model
(`memqos.engine.cgroup.throttle`) gives an upper bound for the growth above memory.high, so a slow machine changes
nothing. The growth is even slower if other tasks run on the program's CPU while it sleeps: pages charged ahead are
then returned, and a sleep yields one page instead of a batch of 64.
"""

import pytest

from memqos import Knob
from memqos.testing import either, ended, rises, stalls

LOOKED_AT = {
    "0.4": ["throttling/low-factor-stalls", "throttling/slow-from-high-on"],
    "0.6": ["throttling/slow-from-high-on"],
    "0.8": ["throttling/slow-from-high-on"],
    "0.9": ["throttling/slowed-to-the-end", "throttling/slow-from-high-on"],
    "1": ["throttling/factor-one-slows-nothing"],
}
"""The claims about each factor; a factor without a selected test is not tried."""
ENDS = ["0.9", "1"]
PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.fixture(scope="module")
def by_factor(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """The courses of the pod stalls under each factor, side by side, until it has stalled for long or was killed.

    If the model predicts a kill soon, the fixture waits for it, or for a permanent stall.
    """
    with qos_scene(qos_kubelet) as scene:
        factors = [factor for factor, claims in LOOKED_AT.items() if scene.shows(*claims)]
        kubelets = {factor: qos_kubelet.with_factor(factor) for factor in factors}
        with qos_node.watched_each(qos_catalog.pod("stalls"), kubelets, rests_on=PREMISES) as containers:
            return {
                factor: one.until(either(stalls(for_good=factor in ENDS), ended()))
                for factor, one in containers.items()
            }


@pytest.fixture(scope="module")
def killed(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """The course of the pod over-limit, without throttling, until its end; all tests of one kubelet use it."""
    with (
        qos_scene(qos_kubelet),
        qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container,
    ):
        return container.until(ended())


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", "v1.27", "v1.37-tiered", instead="v1.36-tiered")
@pytest.mark.claim("throttling/high-throttles")
def test_crossing_memory_high_throttles_and_does_not_kill(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A container that uses more than memory.high stalls and is not killed."""
    with qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(rises("memory.events", "high"), rises("memory.pressure", "some total"))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.rises("memory.pressure", "some total"),
        *course.lives(),
        course.progressed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("throttling/no-high-no-throttling")
def test_without_memory_high_nothing_is_throttled(killed, qos_evidence):
    """With memory.high at max there is no `high` event up to memory.max."""
    qos_evidence.settle(
        killed.premises,
        killed.rises("memory.events", "max"),
        killed.stays("memory.events", "high"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("throttling/no-high-oom-kill")
def test_without_memory_high_the_program_is_killed_at_memory_max(killed, qos_evidence):
    """The program is OOM-killed at memory.max, and the runtime reports it."""
    qos_evidence.settle(
        killed.premises,
        *killed.oom.is_killed(),
        killed.oom.reports_reason(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/slowed-to-the-end")
def test_the_1_27_formula_lets_a_program_reach_memory_max(by_factor, qos_evidence):
    """With memory.high close below memory.max the program is slowed down and killed at memory.max."""
    slowed = by_factor["0.9"]

    qos_evidence.settle(
        slowed.premises,
        slowed.rises("memory.events", "high"),
        slowed.throttling.grows_as_delayed(),
        *slowed.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/slow-from-high-on")
@pytest.mark.parametrize("factor", [one for one in LOOKED_AT if one != "1"])
def test_growth_is_slow_above_the_memory_high_of_each_factor(by_factor, qos_evidence, factor):
    """Each factor slows the program down from its own memory.high on, by the kernel's delays."""
    slowed = by_factor[factor]

    qos_evidence.settle(
        slowed.premises,
        slowed.rises("memory.events", "high"),
        slowed.exceeds("memory.current", Knob.MEMORY_HIGH),
        slowed.throttling.grows_as_delayed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/low-factor-stalls")
def test_a_low_factor_stalls_with_the_1_27_formula(by_factor, qos_evidence):
    """With 0.4 memory.max is as far above memory.high as with 1.22, and out of reach."""
    stalled = by_factor["0.4"]

    qos_evidence.settle(
        stalled.premises,
        stalled.throttling.waits(),
        *stalled.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/factor-one-slows-nothing")
def test_a_factor_of_one_slows_nothing(by_factor, qos_evidence):
    """memory.high equals memory.max: the program is killed without a `high` event."""
    course = by_factor["1"]

    qos_evidence.settle(
        course.premises,
        course.stays("memory.events", "high"),
        *course.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("throttling/swap-makes-room")
def test_swappable_memory_above_memory_high_is_reclaimed(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Memory above memory.high is swapped out, and the program gets all that it asks for."""
    with qos_node.watched(qos_catalog.pod("swaps-over-high"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.swap.is_used(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        *course.swaps_through(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("throttling/pod-high-slows-all")
def test_a_pod_level_memory_high_slows_every_program_of_the_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Neither container reaches its own memory.high; together they grow no faster than two tasks may."""
    kubelet = qos_kubelet.with_factor("0.6")
    with qos_node.watched(qos_catalog.pod("grows-together"), kubelet, rests_on=PREMISES) as container:
        course = container.until(stalls())

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.throttling.pod_grows_as_delayed(),
        *course.lives(),
    )
