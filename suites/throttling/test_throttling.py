"""Throttling: what happens to a program that asks for more memory than its container has.

    cgroup               memory.high                memory.max   before   program asks for
    pod over-limit       max                        64 Mi        0
      container app      51.2 to 59.2 Mi, or max    64 Mi        0        96 Mi in steps of 1 Mi

The plan of each kubelet says which memory.high the container has. All tests rest on it, on memory.max and on
memory.swap.max, without which nothing is either throttled or killed. Counters of a new cgroup begin at zero. A stall
counts as throttling from 10 ms on, the shortest sleep that the kernel gives a task above memory.high
(mm/memcontrol.c, mem_cgroup_handle_over_high).
"""

import pytest

from memqos import Knob
from memqos.testing import ended, rises

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
