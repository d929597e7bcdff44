"""Swap by release: which of the same pods may swap, and how much, under one kubelet and under the next.

    cgroup                   memory.max   memory.swap.max               program asks for
    pod wants-swap           32 Mi        max
      container app          32 Mi        a share, 0 or max, by the     64 Mi anonymous
                                          revision
    pod wants-swap-critical  64 Mi        max
      container app          64 Mi        a share; 0 from 1.31 on       68 Mi anonymous

Nothing is in use before. The pods' plans give memory.swap.max, and the tests rest on it and on memory.max. "Not passed"
and "nothing" have no tolerance; a program that swaps has more there than 64 pages (mm/vmscan.c, MIN_LRU_BATCH).

What is on its way to the disk counts in both files. A program that grows faster than the disk writes may so fill its
share long before it has all that memory.max and the share allow, and then nothing of it is looked at any more, written
or not (get_swappiness): it is killed. So who is to get through grows by 8 Mi a second at the end.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/critical-does-not-swap")
def test_a_critical_pod_swaps_up_to_1_30_and_not_after_it(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The same pod gets through with its share of the swap, and is killed without it."""
    pod, before = qos_catalog.pod("wants-swap-critical"), qos_catalog.kubelet("v1.30-limited-swap")
    with qos_node.watched(pod, before, rests_on=PREMISES) as container:
        swapping = container.until_done()
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        critical = container.until(ended())

    qos_evidence.settle(
        swapping.premises,
        swapping.swaps(),
        swapping.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        swapping.still_runs(),
        critical.premises,
        critical.swaps_nothing(),
        critical.rises("memory.events", "oom_kill"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-limited-swap")
@pytest.mark.claim("swap/alpha-limited-is-none")
def test_limited_swap_of_the_alpha_is_no_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """What 1.28 gives a share of the swap had nothing of it before."""
    pod, beta = qos_catalog.pod("wants-swap"), qos_catalog.kubelet("v1.28-limited-swap")
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        alpha = container.until(ended())
    with qos_node.watched(pod, beta, rests_on=PREMISES) as container:
        later = container.until(ended())

    qos_evidence.settle(
        alpha.premises,
        alpha.swaps_nothing(),
        alpha.rises("memory.events", "oom_kill"),
        later.premises,
        later.swaps(),
        later.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/alpha-unlimited-passes-the-share")
def test_unlimited_swap_of_the_alpha_passes_what_limited_swap_gives(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program gets all that it wants, where 1.28 with LimitedSwap kills it at the end of its share."""
    pod, beta = qos_catalog.pod("wants-swap"), qos_catalog.kubelet("v1.28-limited-swap")
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        alpha = container.until_done()
    with qos_node.watched(pod, beta, rests_on=PREMISES) as container:
        later = container.until(ended())

    qos_evidence.settle(
        alpha.premises,
        alpha.swaps_more_than(later),
        alpha.finishes(),
        alpha.still_runs(),
        later.premises,
        later.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        later.exit_code_tells_kill(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.30-unset-swap")
@pytest.mark.claim("swap/unset-is-unlimited-then-none")
def test_no_swap_behaviour_is_no_limit_in_1_28_and_no_swap_later(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """What the enhancement says of 1.28 stands between the two: a share of the swap."""
    pod = qos_catalog.pod("wants-swap")
    with qos_node.watched(pod, qos_catalog.kubelet("v1.28-unset-swap"), rests_on=PREMISES) as container:
        shipped = container.until_done()
    documented_by = qos_catalog.kubelet("v1.28-unset-swap-documented")
    with qos_node.watched(pod, documented_by, rests_on=PREMISES) as container:
        documented = container.until(ended())
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        later = container.until(ended())

    qos_evidence.settle(
        shipped.premises,
        shipped.swaps_more_than(documented),
        shipped.still_runs(),
        documented.premises,
        documented.swaps(),
        documented.exit_code_tells_kill(),
        later.premises,
        later.swaps_nothing(),
        later.exit_code_tells_kill(),
    )
