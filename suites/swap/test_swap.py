"""Swap: what a container may put there, and that it puts no more there.

    cgroup                 memory.max   memory.swap.max                          program asks for
    pod no-swap            64 Mi        max
      container app        64 Mi        0, since the pod is Guaranteed           40 Mi anonymous, 48 Mi of file
    pod limited-swap       96 Mi        max
      container app        96 Mi        request / memory of the node * swap      144 Mi anonymous
    pod limited-swap-half  72 Mi        max
      container app        72 Mi        half of that                             104 Mi anonymous
    pod wants-swap         32 Mi        max
      container app        32 Mi        a share, 0 or max, by the revision       64 Mi anonymous
    pod wants-swap-equal   32 Mi        max
      container app        32 Mi        0, since its request equals its limit    48 Mi anonymous
    pod wants-swap-critical  64 Mi      max
      container app        64 Mi        a share; 0 from 1.31 on                  68 Mi anonymous
    pod swaps-some         64 Mi        max
      container app        64 Mi        request / memory of the node * swap      72 Mi anonymous, and then nothing
    pod fills-volume       64 Mi        max
      container app        64 Mi        request / memory of the node * swap      72 Mi in a volume on a tmpfs
    pod fills-swap         32 Mi        max
      container app        32 Mi        max                                      192 Mi anonymous, of 112 Mi of swap
    kubepods               256 Mi
      pod holds-guaranteed   64 Mi      0                                        48 Mi anonymous
      pod holds-little       max        0, since it is BestEffort                32 Mi anonymous
      pod holds-critical     max        0                                        32 Mi anonymous
      pod holds-unrequested  max        0, since it requests nothing             24 Mi anonymous
      pod swaps-share        max        request / memory of the node * swap      64 Mi anonymous
      pod neighbour          max        0                                        what is left, and half of what
                                                                                 swaps-share may swap

Nothing is in use before. The pods' plans give memory.swap.max, and the tests rest on it and on memory.max. "Reached"
means within 64 pages: with less left to a cgroup the kernel stops swapping (mm/vmscan.c, MIN_LRU_BATCH); "not passed"
and "nothing" have no tolerance. A program that swaps has more there than those 64 pages. What is given back may miss 64
slots of each CPU, which keeps as many (mm/swap_slots.c). The programs run into a memory.max: the container's own, or
its pod's, which is as large and holds the pause container too.
A program that is killed there between two looks leaves its pod's memory.swap.peak (from kernel 6.5 on): where that is
not below the container's limit either, "reached" is not observable. It happens with zswap, whose pages stay charged to
the cgroup.
"""

import pytest

from memqos import Knob
from memqos.testing import Exit, Free, ended, reaches, rises

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
        course.swaps_nothing(),
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


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("swap/shares-are-by-request")
def test_each_container_fills_the_share_that_its_request_gives_it(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Half the request is half the share, while both run short at the same time."""
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
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/equal-request-does-not-swap")
def test_a_request_that_equals_its_limit_leaves_no_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Nothing can make room for what the program wants beyond the limit."""
    with qos_node.watched(qos_catalog.pod("wants-swap-equal"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.swaps_nothing(),
        course.rises("memory.events", "oom_kill"),
        course.exit_code_tells_kill(),
    )


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


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/used-up-share-kills")
def test_a_used_up_share_kills_where_it_was_used_up(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The swap of the node is not full, and the pod beside it, which may not swap, does not notice."""
    pods = [qos_catalog.pod("wants-swap"), qos_catalog.pod("holds-small")]
    with qos_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES) as watch:
        wants, holds = watch.container("wants-swap"), watch.container("holds-small")
        watch.until(wants.sees(ended()))
        holds.until_done()

    qos_evidence.settle(
        wants.course.premises,
        wants.course.swaps(),
        wants.course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        wants.course.rises("memory.events", "oom_kill"),
        wants.course.exit_code_tells_kill(),
        holds.course.premises,
        holds.course.swaps_nothing(),
        holds.course.stays("memory.events", "oom_kill"),
        holds.course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/swap-is-given-back")
def test_swap_is_given_back_with_the_memory(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program frees all that it holds, and runs on."""
    with qos_node.watched(qos_catalog.pod("swaps-some"), qos_kubelet, rests_on=PREMISES, steered=True) as container:
        container.until_done()
        container.do(Free())
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.gives_swap_back(cpus=qos_node.facts.cpus),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/swap-is-given-back-at-the-end")
def test_swap_is_given_back_by_what_has_ended(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The container ends with all that it held, and its pod has nothing in swap any more."""
    with qos_node.watched(qos_catalog.pod("swaps-some"), qos_kubelet, rests_on=PREMISES, steered=True) as container:
        container.until_done()
        container.do(Exit())
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.gives_swap_back(cpus=qos_node.facts.cpus),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/only-shares-are-swapped")
def test_only_what_has_a_share_is_swapped_when_kubepods_runs_short(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Nobody else has anything in swap, and what may swap makes room enough."""
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


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/volumes-stay-in-memory")
def test_a_volume_with_noswap_is_not_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The container may swap, and has nothing that it may swap."""
    pod = qos_catalog.pod("fills-volume")
    with (
        qos_node.memory_volume(noswap=True) as volume,
        qos_node.watched(pod, qos_kubelet, rests_on=PREMISES, volumes=[volume]) as container,
    ):
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.hardly_swaps(),
        course.rises("memory.events", "oom_kill"),
        course.exit_code_tells_kill(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("swap/volumes-are-swapped-without-noswap")
def test_a_volume_without_noswap_is_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The same program gets through, as it does where the kernel has no noswap."""
    pod = qos_catalog.pod("fills-volume")
    with (
        qos_node.memory_volume(noswap=False) as volume,
        qos_node.watched(pod, qos_kubelet, rests_on=PREMISES, volumes=[volume]) as container,
    ):
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.swaps(),
        course.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        course.finishes(),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/devices-by-priority")
def test_the_device_with_the_higher_priority_is_used_first(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """What the program swaps fits on the first device."""
    with qos_node.watched(qos_catalog.pod("wants-swap"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()
        order = qos_node.swaps_in_order()

    qos_evidence.settle(course.premises, course.swaps(), course.still_runs(), order)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22-unlimited-swap")
@pytest.mark.claim("swap/full-devices-kill-who-fills-them")
def test_full_devices_kill_who_fills_them(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Its memory limit is what it runs into when nothing more can be swapped."""
    pods = [qos_catalog.pod("fills-swap"), qos_catalog.pod("holds-small")]
    with qos_node.watched_pods(pods, qos_kubelet, rests_on=[Knob.MEMORY_MAX]) as watch:
        fills, holds = watch.container("fills-swap"), watch.container("holds-small")
        watch.until(fills.sees(ended()))
        holds.until_done()

    qos_evidence.settle(
        fills.course.premises,
        fills.course.swaps(),
        fills.course.rises("memory.events", "oom_kill"),
        fills.course.exit_code_tells_kill(),
        holds.course.premises,
        holds.course.stays("memory.events", "oom_kill"),
        holds.course.still_runs(),
    )
