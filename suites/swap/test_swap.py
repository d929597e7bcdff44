"""Swap: how much a container may swap, and that it swaps no more.

    cgroup                 memory.max   memory.swap.max                          program asks for
    pod no-swap            64 Mi        max
      container app        64 Mi        0, since the pod is Guaranteed           40 Mi anonymous, 48 Mi of file
    pod limited-swap       96 Mi        max
      container app        96 Mi        request / memory of the node * swap      256 Mi anonymous
    pod limited-swap-half  72 Mi        max
      container app        72 Mi        half of that                             144 Mi anonymous
    pod wants-swap         32 Mi        max
      container app        32 Mi        request / memory of the node * swap      64 Mi anonymous
    pod wants-swap-equal   32 Mi        max
      container app        32 Mi        0, since its request equals its limit    48 Mi anonymous
    pod swaps-some         64 Mi        max
      container app        64 Mi        request / memory of the node * swap      72 Mi anonymous, and then nothing
    kubepods               256 Mi
      pod holds-guaranteed   64 Mi      0                                        48 Mi anonymous
      pod holds-little       max        0, since it is BestEffort                32 Mi anonymous
      pod holds-critical     max        0                                        32 Mi anonymous
      pod holds-unrequested  max        0, since it requests nothing             24 Mi anonymous
      pod swaps-share        max        request / memory of the node * swap      64 Mi anonymous
      pod neighbour          max        0                                        what is left, and half of what
                                                                                 swaps-share may swap

Nothing is in use before. The pods' plans give memory.swap.max; it and memory.max are preconditions. "Reached" means
within 64 pages: with less left, the kernel stops swapping for a cgroup (mm/vmscan.c, MIN_LRU_BATCH). "Not exceeded" and
"nothing" have no tolerance. A program that swaps has more than those 64 pages in swap. Freed swap may be short by 64
slots for each CPU, which keeps that many (mm/swap_slots.c). The programs reach a memory.max: the container's own, or
their pod's, which is as large and includes the pause container. Pages on their way to the disk count in both files. A
program that should complete within its share grows by 8 Mi a second at the end, because one that is faster than the
disk may fill its share before it has what both limits allow. If a program is killed there between two samples, its
pod's memory.swap.peak remains (from kernel 6.5 on). If that is not below the container's limit either, "reached" is
not observable. This happens with zswap, whose pages stay charged to the cgroup.
"""

import pytest

from memqos import Knob
from memqos.testing import Exit, Free, ended, reaches, rises

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/none-means-none")
def test_no_swap_is_used_where_none_is_allowed(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Guaranteed container at its memory.max swaps nothing out."""
    with qos_node.watched(qos_catalog.pod("no-swap"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(rises("memory.events", "max"))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "max"),
        course.swap.is_unused(),
        course.progressed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/limit-is-reached")
def test_limited_swap_is_reached_and_not_exceeded(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Burstable container fills its share of the swap and gets no more."""
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


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/shares-are-by-request")
def test_each_container_fills_its_own_swap_share(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Half the request gives half the share, also while both run short at the same time."""
    names = ["limited-swap", "limited-swap-half"]
    with qos_node.watched_pods([qos_catalog.pod(name) for name in names], qos_kubelet, rests_on=PREMISES) as watch:
        both = [watch.container(name) for name in names]
        watch.until(*(one.sees(reaches("memory.swap.current", Knob.MEMORY_SWAP_MAX)) for one in both))
        courses = [one.course for one in both]

    qos_evidence.settle(
        *(course.premises for course in courses),
        *(course.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX) for course in courses),
        *(course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX) for course in courses),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/equal-request-does-not-swap")
def test_a_request_equal_to_the_limit_allows_no_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program exceeds its limit, and nothing can be reclaimed."""
    with qos_node.watched(qos_catalog.pod("wants-swap-equal"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.swap.is_unused(),
        *course.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/used-up-share-kills")
def test_a_used_up_swap_share_kills_only_its_own_program(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The node's swap is not full, and the neighbouring pod, which may not swap, is not affected."""
    pods = [qos_catalog.pod("wants-swap"), qos_catalog.pod("holds-small")]
    with qos_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES) as watch:
        wants, holds = watch.until_ended("wants-swap", other="holds-small")

    qos_evidence.settle(
        wants.premises,
        wants.swap.is_used(),
        wants.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        *wants.oom.is_killed(),
        holds.premises,
        holds.swap.is_unused(),
        *holds.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/swap-is-given-back")
def test_freeing_memory_frees_its_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program frees all of its memory and keeps running."""
    with qos_node.watched(qos_catalog.pod("swaps-some"), qos_kubelet, rests_on=PREMISES, steered=True) as container:
        container.until_done()
        container.do(Free())
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swap.is_used(),
        course.swap.is_freed(cpus=qos_node.facts.cpus),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("swap/swap-is-given-back-at-the-end")
def test_an_ended_container_frees_its_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The container ends with all of its memory in use, and its pod then has nothing in swap."""
    with qos_node.watched(qos_catalog.pod("swaps-some"), qos_kubelet, rests_on=PREMISES, steered=True) as container:
        container.until_done()
        container.do(Exit())
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.swap.is_used(),
        course.swap.is_freed(cpus=qos_node.facts.cpus),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead="v1.36-off")
@pytest.mark.claim("swap/only-shares-are-swapped")
def test_only_containers_with_a_share_are_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """No other pod has memory in swap, and the pod that may swap frees enough memory."""
    without = ["holds-guaranteed", "holds-little", "holds-critical", "holds-unrequested", "neighbour"]
    pods = [qos_catalog.pod(name) for name in ["swaps-share", *without]]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet), rests_on=PREMISES, steered=True) as watch:
        crowd = watch.crowd_out("neighbour")

    qos_evidence.settle(
        crowd.premises,
        crowd.swaps("swaps-share"),
        crowd.stays_within_its_share("swaps-share"),
        crowd.still_runs("swaps-share"),
        *(crowd.swaps_nothing(name) for name in without),
        *(crowd.still_runs(name) for name in without),
    )
