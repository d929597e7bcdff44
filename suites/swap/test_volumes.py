"""Swap: memory-backed volumes, which count as the container's memory and may be swapped out without noswap.

    cgroup              memory.max   memory.swap.max                     program asks for
    pod fills-volume    64 Mi        max
      container app     64 Mi        request / memory of the node * swap  72 Mi in a volume on a tmpfs

Nothing is in use before. A program that swaps has more than 64 pages in swap (mm/vmscan.c, MIN_LRU_BATCH); a program
with little memory other than the volume has at most those. It grows by 8 Mi a second at the end, because pages on their
way to the disk count in both files, and a faster program may fill its share before it has what both limits allow.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead="v1.36-off")
@pytest.mark.claim("swap/volumes-stay-in-memory")
def test_a_volume_with_noswap_is_not_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The container may swap, but none of its memory can be swapped."""
    pod = qos_catalog.pod("fills-volume")
    with (
        qos_node.memory_volume(noswap=True) as volume,
        qos_node.watched(pod, qos_kubelet, rests_on=PREMISES, volumes=[volume]) as container,
    ):
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.swap.is_hardly_used(),
        *course.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/volumes-are-swapped-without-noswap")
def test_a_volume_without_noswap_is_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The same program completes, as on a kernel without noswap."""
    pod = qos_catalog.pod("fills-volume")
    with (
        qos_node.memory_volume(noswap=False) as volume,
        qos_node.watched(pod, qos_kubelet, rests_on=PREMISES, volumes=[volume]) as container,
    ):
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swap.is_used(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.finishes(),
        course.still_runs(),
    )
