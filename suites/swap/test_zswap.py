"""Zswap: what is swapped out is compressed in memory before it goes to a swap device, if it goes there at all.

    cgroup              memory.max   memory.swap.max                     memory.zswap.max   program asks for
    pod compresses      64 Mi        max                                 max
      container app     64 Mi        request / memory of the node * swap max, 0 or 256 Ki   64 Mi and half of its
                                                                                            share of the swap

Nothing is in use before, and zswap is on. A page can be compressed to about an eighth. What the pool takes is charged
to the container, so a little more has to be swapped than the program asks for beyond memory.max. "Nothing" has no
tolerance; the pool may pass its limit by what is stored at once, which is less than 64 pages. memory.stat may be
behind by as many of each CPU (mm/memcontrol.c, MEMCG_CHARGE_BATCH), and is waited for: what must not happen may still
come for some seconds after the program is done. Where nothing may be written back, a page that finds no room in the
pool has its place in swap all the same, and stays in memory: memory.swap.current says nothing of how much was made
room.
"""

import pytest

from memqos import Knob
from memqos.testing import rises

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/zswap-holds-what-is-swapped")
def test_what_is_swapped_is_compressed_in_memory(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """It counts as swap with its full size, and as zswap with what it takes."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        zswap.overfill(container)
        course = container.until(rises("memory.stat", "zswpwb"))

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.is_compressed(),
        course.counts_as_swap(cpus=qos_node.facts.cpus),
        course.stays("memory.stat", "zswpwb"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/zswap-limit-of-none")
def test_a_limit_of_none_keeps_everything_out_of_zswap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The same program swaps to the device instead."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        zswap.keep_out(container)
        zswap.overfill(container)
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.compresses_nothing(),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/zswap-full-writes-back")
def test_a_full_pool_is_written_back(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program has all that it asked for: the pool keeps to its limit, and the device takes the rest."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        pool = zswap.limit(container)
        zswap.overfill(container)
        container.until(rises("memory.stat", "zswpwb"))
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.compresses_at_most(pool),
        course.rises("memory.stat", "zswpwb"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/zswap-without-writeback")
def test_a_full_pool_that_may_not_be_written_back_kills(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The swap device has room for all of it, and the container's share has."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        pool = zswap.limit(container)
        zswap.forbid_writeback(container)
        zswap.overfill(container)
        course = container.until(rises("memory.stat", "zswpwb"))

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.compresses_at_most(pool),
        course.stays("memory.stat", "zswpwb"),
        *course.is_killed(),
    )
