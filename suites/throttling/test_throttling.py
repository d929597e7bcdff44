"""Throttling: what happens to a program that asks for more memory than its container has.

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

With a factor of its own the kubelet of 1.27 gives the pod stalls 19.2 Mi (0.4), 20.8 Mi (0.6), 22.4 Mi (0.8), 23.2 Mi
(0.9, its default) or its memory.max (1) as memory.high: from there on it is slow, and where a stall comes before
memory.max it gets there with the first of them alone. One pod for each factor runs beside the others: none is above
another one's memory.high, and what a factor gives is of containers alone.

The plan of each kubelet says which memory.high the container has. All tests rest on it, on memory.max and on
memory.swap.max, without which nothing is either throttled or killed. Counters of a new cgroup begin at zero. A stall
counts as throttling from 10 ms on, the shortest sleep that the kernel gives a task above memory.high
(mm/memcontrol.c, mem_cgroup_handle_over_high). How fast a program can grow above memory.high is the
model's word (`memqos.engine.cgroup.throttle`): an upper bound, so that a slow machine changes nothing. It comes on more
slowly still where others run on its CPU while it sleeps: what it was charged ahead is given back then, and a sleep buys
a page instead of a batch of 64.
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
"""The claims that look at each factor: one that no selected test looks at is not tried."""
ENDS = ["0.9", "1"]
PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.fixture(scope="module")
def by_factor(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """What became of the pod stalls with each factor, side by side, until it had waited for long or was killed.

    Those that come to their end by the model, and soon, are waited for until then, or until they stall for good.
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
    """What became of the pod over-limit, which nothing slows, until its end; all tests of one kubelet look at it."""
    with (
        qos_scene(qos_kubelet),
        qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container,
    ):
        return container.until(ended())


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", "v1.27", "v1.37-tiered")
@pytest.mark.claim("throttling/high-throttles")
def test_crossing_memory_high_throttles_and_does_not_kill(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A container that uses more than memory.high stalls, and is not killed for it."""
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
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("throttling/no-high-no-throttling")
def test_without_memory_high_nothing_is_throttled(killed, qos_evidence):
    """A container whose memory.high is max is never counted as above it, up to its memory.max."""
    qos_evidence.settle(
        killed.premises,
        killed.rises("memory.events", "max"),
        killed.stays("memory.events", "high"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("throttling/no-high-oom-kill")
def test_without_memory_high_the_program_is_killed_at_memory_max(killed, qos_evidence):
    """The program that memory.high would slow down is OOM-killed at memory.max, and the runtime says so."""
    qos_evidence.settle(
        killed.premises,
        *killed.is_killed(),
        killed.reason_tells_oom(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/slowed-to-the-end")
def test_the_formula_of_1_27_lets_the_same_program_come_to_its_end(by_factor, qos_evidence):
    """With memory.high close below memory.max the program is slowed, and killed at memory.max instead of stalled."""
    slowed = by_factor["0.9"]

    qos_evidence.settle(
        slowed.premises,
        slowed.rises("memory.events", "high"),
        slowed.grows_as_delayed(),
        *slowed.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/slow-from-high-on")
@pytest.mark.parametrize("factor", [one for one in LOOKED_AT if one != "1"])
def test_growth_is_slow_from_where_the_factor_puts_memory_high(by_factor, qos_evidence, factor):
    """Each factor begins to slow the program at its own memory.high, and as the kernel's delays say."""
    slowed = by_factor[factor]

    qos_evidence.settle(
        slowed.premises,
        slowed.rises("memory.events", "high"),
        slowed.exceeds("memory.current", Knob.MEMORY_HIGH),
        slowed.grows_as_delayed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/low-factor-stalls")
def test_a_low_factor_stalls_with_the_formula_of_1_27_too(by_factor, qos_evidence):
    """With 0.4 memory.max is as far from memory.high as 1.22 had it, and as out of reach."""
    stalled = by_factor["0.4"]

    qos_evidence.settle(
        stalled.premises,
        stalled.waits(),
        *stalled.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/factor-one-slows-nothing")
def test_a_factor_of_one_slows_nothing(by_factor, qos_evidence):
    """memory.high is memory.max, which nothing can use more than: the program is killed, and never was above it."""
    course = by_factor["1"]

    qos_evidence.settle(
        course.premises,
        course.stays("memory.events", "high"),
        *course.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("throttling/swap-makes-room")
def test_memory_that_may_be_swapped_makes_room_above_memory_high(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """What is above memory.high is swapped out, and the program has all that it asked for."""
    with qos_node.watched(qos_catalog.pod("swaps-over-high"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.swaps(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.stays("memory.events", "oom_kill"),
        course.finishes(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("throttling/pod-high-slows-all")
def test_a_pod_level_memory_high_slows_every_program_of_the_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Neither container comes to a memory.high of its own; together they grow no faster than two tasks may."""
    kubelet = qos_kubelet.with_factor("0.6")
    with qos_node.watched(qos_catalog.pod("grows-together"), kubelet, rests_on=PREMISES) as container:
        course = container.until(stalls())

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.pod_grows_as_delayed(),
        *course.lives(),
    )
