"""Swap devices: which is used first, and which program is killed when all are full.

    cgroup              memory.max   memory.swap.max           program asks for
    pod wants-swap      32 Mi        max
      container app     32 Mi        max                       64 Mi anonymous
    pod fills-swap      32 Mi        max
      container app     32 Mi        max                       192 Mi anonymous, of 112 Mi of swap
    pod holds-small     48 Mi        max
      container app     48 Mi        0, since it is Guaranteed  8 Mi anonymous

Nothing is in use before. The first program's swap fits on the first device, so the second stays empty. A program that
swaps has more than 64 pages in swap (mm/vmscan.c, MIN_LRU_BATCH).
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/devices-by-priority")
def test_the_device_with_the_higher_priority_is_used_first(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program's swap fits on the first device."""
    with qos_node.watched(qos_catalog.pod("wants-swap"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()
        order = qos_node.swaps_in_order()

    qos_evidence.settle(course.premises, course.swap.is_used(), course.still_runs(), order)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/full-devices-kill")
def test_full_swap_devices_kill_the_program_that_fills_them(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """When nothing more can be swapped, the program reaches its memory limit."""
    pods = [qos_catalog.pod("fills-swap"), qos_catalog.pod("holds-small")]
    with qos_node.watched_pods(pods, qos_kubelet, rests_on=[Knob.MEMORY_MAX]) as watch:
        fills, holds = watch.until_ended("fills-swap", other="holds-small")

    qos_evidence.settle(fills.premises, fills.swap.is_used(), *fills.oom.is_killed(), holds.premises, *holds.lives())
