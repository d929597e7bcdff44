"""Zswap: swapped-out memory is compressed in memory before it goes to a swap device, if it goes there at all.

    cgroup              memory.max   memory.swap.max                     memory.zswap.max   program asks for
    pod compresses      64 Mi        max                                 max
      container app     64 Mi        request / memory of the node * swap max, 0 or 256 Ki   64 Mi and half of its
                                                                                            share of the swap

Nothing is in use before, and zswap is on. A page compresses to about an eighth. The pool is charged to the container,
so a little more must be swapped than the program allocates beyond memory.max. "Nothing" has no tolerance; the pool
may exceed its limit by what is stored at once, less than 64 pages. memory.stat may lag by as many pages for each CPU
(mm/memcontrol.c, MEMCG_CHARGE_BATCH), so the test waits some seconds after the program is done before it concludes
that something did not happen. Without writeback, a page for which the pool has no room still gets a swap slot but
stays in memory: memory.swap.current does not show how much memory was freed.
"""

import pytest

from memqos import Knob
from memqos.testing import rises

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/zswap-holds-what-is-swapped")
def test_zswap_compresses_swapped_memory(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Swapped memory counts in memory.swap.current at full size, and in memory.zswap.current at its compressed size."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        zswap.overfill(container)
        course = container.until(rises("memory.stat", "zswpwb"))

    qos_evidence.settle(
        course.premises,
        course.swap.is_used(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.swap.is_compressed(),
        course.swap.counts_as_swap(cpus=qos_node.facts.cpus),
        course.stays("memory.stat", "zswpwb"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/zswap-limit-of-none")
def test_zswap_max_0_sends_everything_to_the_device(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """With memory.zswap.max 0 the same program swaps to the device."""
    with (
        qos_node.zswap() as zswap,
        qos_node.watched(qos_catalog.pod("compresses"), qos_kubelet, rests_on=PREMISES, steered=True) as container,
    ):
        zswap.keep_out(container)
        zswap.overfill(container)
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swap.is_used(),
        course.swap.compresses_nothing(),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/zswap-full-writes-back")
def test_a_full_zswap_pool_is_written_back(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program gets all of its memory: the pool stays at its limit, and the rest goes to the device."""
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
        course.swap.is_used(),
        course.swap.compresses_at_most(pool),
        course.rises("memory.stat", "zswpwb"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/zswap-without-writeback")
def test_a_full_zswap_pool_without_writeback_kills(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The swap device and the container's share both have room, but the program is killed."""
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
        course.swap.is_used(),
        course.swap.compresses_at_most(pool),
        course.stays("memory.stat", "zswpwb"),
        *course.oom.is_killed(),
    )
