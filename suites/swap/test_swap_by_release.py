"""Swap by release: which of the same pods may swap, and how much, under different kubelets.

    cgroup                   memory.max   memory.swap.max               program asks for
    pod wants-swap           32 Mi        max
      container app          32 Mi        a share, 0 or max, by the     64 Mi anonymous
                                          revision
    pod wants-swap-critical  64 Mi        max
      container app          64 Mi        a share; 0 from 1.31 on       68 Mi anonymous

Nothing is in use before. The pods' plans give memory.swap.max; it and memory.max are preconditions. "Not exceeded" and
"nothing" have no tolerance; a program that swaps has more than 64 pages in swap (mm/vmscan.c, MIN_LRU_BATCH).

Pages on their way to the disk count in both files. A program that grows faster than the disk writes may fill its share
long before it has all that memory.max and the share allow. The kernel then reclaims none of its memory, written or not
(get_swappiness), and kills it. So a program that should complete grows by 8 Mi a second at the end.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/critical-does-not-swap")
def test_a_critical_pod_swaps_up_to_1_30_and_not_from_1_31(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The same pod completes with its share of the swap, and is killed without it."""
    pod, before = qos_catalog.pod("wants-swap-critical"), qos_catalog.kubelet("v1.30-limited-swap")
    with qos_node.watched(pod, before, rests_on=PREMISES) as container:
        swapping = container.until_done()
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        critical = container.until(ended())

    qos_evidence.settle(
        swapping.premises,
        swapping.swap.is_used(),
        swapping.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        swapping.still_runs(),
        critical.premises,
        critical.swap.is_unused(),
        critical.rises("memory.events", "oom_kill"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-limited-swap")
@pytest.mark.claim("swap/alpha-limited-is-none")
def test_limited_swap_of_the_alpha_allows_no_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A pod that gets a share of the swap in 1.28 gets none in the alpha."""
    pod, beta = qos_catalog.pod("wants-swap"), qos_catalog.kubelet("v1.28-limited-swap")
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        alpha = container.until(ended())
    with qos_node.watched(pod, beta, rests_on=PREMISES) as container:
        later = container.until(ended())

    qos_evidence.settle(
        alpha.premises,
        alpha.swap.is_unused(),
        alpha.rises("memory.events", "oom_kill"),
        later.premises,
        later.swap.is_used(),
        later.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/alpha-unlimited-passes-the-share")
def test_unlimited_swap_of_the_alpha_exceeds_the_share_of_1_28(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program gets all of its memory; with LimitedSwap of 1.28 it is killed at the end of its share."""
    pod, beta = qos_catalog.pod("wants-swap"), qos_catalog.kubelet("v1.28-limited-swap")
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES) as container:
        alpha = container.until_done()
    with qos_node.watched(pod, beta, rests_on=PREMISES) as container:
        later = container.until(ended())

    qos_evidence.settle(
        alpha.premises,
        alpha.swap.exceeds_limit_of(later.swap),
        alpha.finishes(),
        alpha.still_runs(),
        later.premises,
        later.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        later.oom.reports_exit_code(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.30-unset-swap")
@pytest.mark.claim("swap/unset-is-unlimited-then-none")
def test_unset_swap_behaviour_is_unlimited_in_1_28_and_no_swap_later(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The KEP's text for 1.28 says neither of the two, but a share of the swap."""
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
        shipped.swap.exceeds_limit_of(documented.swap),
        shipped.still_runs(),
        documented.premises,
        documented.swap.is_used(),
        documented.oom.reports_exit_code(),
        later.premises,
        later.swap.is_unused(),
        later.oom.reports_exit_code(),
    )
