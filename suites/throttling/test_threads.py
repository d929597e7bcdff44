"""Threads: a program that takes memory in several of them at once, above memory.high.

    cgroup                   memory.high   memory.max   before           program asks for
    pod stalls-in-threads    max           48 Mi        0
      container app          19.2 Mi       24 Mi        17 Mi            23 Mi in four threads

The kernel notes with each task what it was charged above memory.high, and lets it sleep for that when it returns to
user space (mm/memcontrol.c, mem_cgroup_handle_over_high): one sleeps beside the other. So while the container stalls
for four seconds each of them waits for one in all, by its own clock: half of the longest sleep. And all grow together
no faster than the model lets so many tasks grow (`memqos.engine.cgroup.throttle`, fastest_growth), an upper bound:
what one was charged ahead another one on its CPU may use. How much faster than one thread they are is not claimed:
what is charged ahead is given back where others run on the CPU meanwhile.
"""

import pytest

from memqos import Knob
from memqos.testing import either, ended, stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/threads-wait-each")
def test_each_thread_of_a_program_waits_for_what_it_takes(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """None of them pays for another, and none gets on while the others pay."""
    with qos_node.watched(qos_catalog.pod("stalls-in-threads"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(either(stalls(), ended()))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.each_thread_waits(),
        course.grows_as_delayed(),
        *course.lives(),
    )
