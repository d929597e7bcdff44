"""What the kernel does in each pass above memory.high: it tries sixteen times more to reclaim, the program's text too.

    cgroup                memory.high   memory.max   before      program asks for
    pod thrashes-text     max           64 Mi        0
      container app       32 Mi         40 Mi        0           32.4 Mi in sixteen threads, which is the sooner; then
                                                                 4 Mi, with all of its text for each page
    pod stalls            max           48 Mi        0
      container app       19.2 Mi       24 Mi        0           40 Mi in steps of 256 Ki

All tests rest on memory.high, memory.max and memory.swap.max as the plan has them.

The program of the first pod goes on as a copy of itself, which it wrote to a new file: its text is page cache that is
charged to its own container, and not to the one that read the image first. It is locked in memory, as the workload is
everywhere, up to the moment at which the program needs it, some 4 % above memory.high.

From the least overage that costs a sleep on the kernel tries to reclaim sixteen times more, and goes on as long as it
reclaims anything (mm/memcontrol.c, mem_cgroup_handle_over_high): it takes the text before each sleep, and the program
faults it in after each. memory.stat shows whether anonymous memory stands still, but for four pages, while pgmajfault
goes on. How many passes come between two looks depends on the host, so values of `high` are judged by chance: more of
them leave the same remainder by 17 than values at random would.
"""

import pytest

from memqos import Knob
from memqos.testing import either, ended, faults, stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/text-is-thrashed")
def test_a_program_whose_text_is_reclaimed_is_stuck(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """It reads its text in again and again, comes no further, and is not killed."""
    with qos_node.watched(qos_catalog.pod("thrashes-text"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(either(faults(), ended()))

    qos_evidence.settle(
        course.premises,
        course.exceeds("memory.current", Knob.MEMORY_HIGH),
        course.rises("memory.events", "high"),
        course.thrashes_its_text(),
        *course.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/passes-count-17")
def test_each_pass_counts_its_tries(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """From one sleep to the next `high` rises by 17, or a multiple of it."""
    with qos_node.watched(qos_catalog.pod("stalls"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(either(stalls(), ended()))

    qos_evidence.settle(course.premises, course.counts_passes(), *course.lives())
