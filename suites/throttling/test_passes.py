"""Passes above memory.high: in each, the kernel retries reclaim sixteen times, also of the program's own text.

    cgroup                memory.high   memory.max   before      program asks for
    pod thrashes-text     max           64 Mi        0
      container app       32 Mi         40 Mi        0           32.4 Mi in sixteen threads, to be faster; then
                                                                 4 Mi, with all of its text for each page
    pod stalls            max           48 Mi        0
      container app       19.2 Mi       24 Mi        0           40 Mi in steps of 256 Ki

Preconditions of all tests: memory.high, memory.max and memory.swap.max are as planned. The pod stalls has the same
memory.high from the 1.27 formula with a factor of 0.4, which a run without 1.22 takes.

The program of the first pod writes a copy of itself to a new file and executes it, so its text is page cache charged to
its own container, not to the container that read the image first. The text is locked in memory, as in every workload,
until the program needs it, some 4 % above memory.high.

Above the smallest overage that costs a sleep, the kernel retries reclaim sixteen times, and continues as long as it
reclaims anything (mm/memcontrol.c, mem_cgroup_handle_over_high): it reclaims the text before each sleep, and the
program faults it in afterwards. memory.stat shows whether anonymous memory stays constant, within four pages, while
pgmajfault rises. The number of passes between two samples depends on the host, so `high` is judged statistically:
more of its values leave the same remainder modulo 17 than random values would.
"""

import pytest

from memqos import Knob
from memqos.testing import either, ended, faults, stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/text-is-thrashed")
def test_a_program_whose_text_is_reclaimed_is_stuck(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """It faults its text in again and again, makes no progress, and is not killed."""
    with qos_node.watched(qos_catalog.pod("thrashes-text"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(either(faults(), ended()))

    qos_evidence.settle(
        course.premises,
        course.exceeds("memory.current", Knob.MEMORY_HIGH),
        course.rises("memory.events", "high"),
        course.throttling.thrashes_its_text(),
        *course.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/passes-count-17")
def test_each_pass_counts_seventeen_tries(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """From one sleep to the next `high` rises by a multiple of 17."""
    with qos_node.watched(qos_catalog.pod("stalls"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(either(stalls(), ended()))

    qos_evidence.settle(course.premises, course.throttling.counts_passes(), *course.lives())
