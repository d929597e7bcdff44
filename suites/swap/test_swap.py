"""Swap: what a container may put there, and that it puts no more there.

    cgroup                memory.max   memory.swap.max                          before   program asks for
    pod no-swap           64 Mi        max                                      0
      container app       64 Mi        0, since the pod is Guaranteed           0        40 Mi anonymous, 48 Mi of file
    pod limited-swap      96 Mi        max                                      0
      container app       96 Mi        request / memory of the node * swap      0        144 Mi anonymous

The pods' plans give memory.swap.max, and both tests rest on it and on memory.max. "Reached" means within 64 pages: with
less left to a cgroup the kernel stops swapping (mm/vmscan.c, MIN_LRU_BATCH); "not passed" has no tolerance. Both
programs run into a memory.max: the container's own, or its pod's, which is as large and holds the pause container too.
A program that is killed there between two looks leaves its pod's memory.swap.peak (from kernel 6.5 on): where that is
not below the container's limit either, "reached" is not observable. It happens with zswap, whose pages stay charged to
the cgroup.
"""

import pytest

from memqos import Knob
from memqos.testing import reaches, rises

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/none-means-none")
def test_no_swap_is_used_where_none_is_allowed(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Guaranteed container that runs into memory.max swaps nothing out."""
    with qos_node.watched(qos_catalog.pod("no-swap"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(rises("memory.events", "max"))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "max"),
        course.stays_empty("memory.swap.current"),
        course.progressed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/limit-is-reached")
def test_limited_swap_is_reached_and_not_passed(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Burstable container fills its share of the swap, and is refused more."""
    with qos_node.watched(qos_catalog.pod("limited-swap"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(
            reaches("memory.swap.current", Knob.MEMORY_SWAP_MAX),
            rises("memory.pressure", "some total"),
        )

    qos_evidence.settle(
        course.premises,
        course.rises("memory.pressure", "some total"),
        course.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
    )
