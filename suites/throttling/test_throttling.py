"""Throttling: what happens to a program that asks for more memory than its container has.

    cgroup               memory.high                memory.max   before   program asks for
    pod over-limit       max                        64 Mi        0
      container app      51.2 to 59.2 Mi, or max    64 Mi        0        96 Mi in steps of 1 Mi
    pod stalls           max                        48 Mi        0
      container app      19.2 Mi or 23.2 Mi         24 Mi        0        40 Mi in steps of 256 Ki
    pod rewrites         max                        48 Mi        0
      container app      19.2 Mi                    24 Mi        0        48 Mi of page cache

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
from memqos.testing import ended, rises, stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


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
        course.stays("memory.events", "oom_kill"),
        course.still_runs(),
        course.progressed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("throttling/no-high-no-throttling")
def test_without_memory_high_nothing_is_throttled(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A container whose memory.high is max is never counted as above it, up to its memory.max."""
    with qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(rises("memory.events", "max"))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "max"),
        course.stays("memory.events", "high"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("throttling/no-high-oom-kill")
def test_without_memory_high_the_program_is_killed_at_memory_max(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program that memory.high would slow down is OOM-killed at memory.max, and the runtime says so."""
    with qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "oom_kill"),
        course.exit_code_tells_kill(),
        course.reason_tells_oom(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/stall")
def test_a_program_between_high_and_max_stalls(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A program that cannot give memory back waits nearly all the time, and is not killed since it gets nowhere."""
    with qos_node.watched(qos_catalog.pod("stalls"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(stalls())

    qos_evidence.settle(
        course.premises,
        course.waits(),
        course.grows_as_delayed(),
        course.stays("memory.events", "max"),
        course.stays("memory.events", "oom_kill"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("throttling/slowed-to-the-end")
def test_the_formula_of_1_27_lets_the_same_program_come_to_its_end(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """With memory.high close below memory.max the program is slowed, and killed at memory.max instead of stalled."""
    with qos_node.watched(qos_catalog.pod("stalls"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.grows_as_delayed(),
        course.rises("memory.events", "oom_kill"),
        course.exit_code_tells_kill(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/page-cache-is-reclaimed")
def test_page_cache_above_memory_high_is_reclaimed_and_nothing_stalls(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A program that writes far more than memory.high gets through: its page cache makes room."""
    with qos_node.watched(qos_catalog.pod("rewrites"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.stays("memory.events", "oom_kill"),
        course.finishes(),
        course.still_runs(),
    )
