"""Protection: which pods keep their page cache when kubepods is full, and a neighbour still takes memory.

    cgroup                 protection, by the revision          before          then
    kubepods, 208 Mi       the sum of what is below
      pod kept-guaranteed  64 Mi memory.min, or nothing         48 Mi of cache
      pod kept-burstable   64 Mi memory.min or low, or nothing  48 Mi of cache
      pod unguarded        nothing, since it is BestEffort      48 Mi of cache
      pod aggressor        nothing                              nothing         takes what is left, and half of the
                                                                                memory that others can lose; without a
                                                                                policy 5/6 of it, so that none of the
                                                                                three can be left out

How much of a protection counts is the model's word (`memqos.engine.cgroup.protection`), from the planned values and
what was in use before. The page cache is clean by then, and of anonymous memory there is little, so nothing else can
make room: the aggressor has a limit, since what has none may be swapped under 1.22 and 1.27, which would make room
itself. A container whose protection covers all that it uses is passed over by reclaim as a whole: it may miss a batch
of 64 pages (MEMCG_CHARGE_BATCH) for each CPU. What each charged ahead counts as in use, until reclaim gives it back
(mm/memcontrol.c, drain_all_stock). Then each reads its file once more, who had nothing protected first, while there
is no more room than before. What had been taken comes back as a refault, which the kernel counts in pages
(memory.stat, workingset_refault_file): of what is protected whole there are no more than it may miss.

    cgroup                 protection, by the revision   memory.max   program
    pod fills-guaranteed   24 Mi memory.min, or nothing  24 Mi        and a sandbox of some 100 Ki
      container app        24 Mi memory.min, or nothing  24 Mi        48 Mi of page cache

The sandbox's memory is the pod's too, so that the pod comes to its memory.max before the container does. Reclaim begins
at the pod then, below which all that the container uses is protected: its own memory.min counts, unless a runtime puts
a scope in between that asks for nothing, as crun does before 1.18.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PODS = ["kept-guaranteed", "kept-burstable", "unguarded", "aggressor"]


@pytest.fixture
def full(qos_node, qos_kubelet, qos_catalog):
    """The pods under a kubelet that leaves them little memory, all of them watched."""
    pods = [qos_catalog.pod(name) for name in PODS]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        yield watch


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", "v1.27")
@pytest.mark.claim("protection/min-is-kept")
def test_every_request_is_kept_as_memory_min(full, qos_evidence):
    """Both pods with a request keep their page cache, and read none again; the one without makes room, and reads."""
    pressure = full.press("aggressor")
    full.read_again("unguarded", "kept-guaranteed", "kept-burstable")

    qos_evidence.settle(
        *pressure.premises,
        pressure.keeps("kept-guaranteed"),
        pressure.keeps("kept-burstable"),
        pressure.gives_way("unguarded"),
        pressure.hardly_refaults("kept-guaranteed"),
        pressure.hardly_refaults("kept-burstable"),
        pressure.refaults("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered", "v1.37-tiered")
@pytest.mark.more("v1.37-tiered")
@pytest.mark.claim("protection/tiers-are-kept")
def test_both_tiers_are_kept_while_others_make_room(full, qos_evidence):
    """Guaranteed and Burstable keep their page cache and read none again, and memory.low is not broken."""
    pressure = full.press("aggressor")
    full.read_again("unguarded", "kept-guaranteed", "kept-burstable")

    qos_evidence.settle(
        *pressure.premises,
        pressure.keeps("kept-guaranteed"),
        pressure.keeps("kept-burstable"),
        pressure.stays("kept-burstable", "memory.events", "low"),
        pressure.gives_way("unguarded"),
        pressure.hardly_refaults("kept-guaranteed"),
        pressure.hardly_refaults("kept-burstable"),
        pressure.refaults("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/low-gives-way-last")
def test_memory_low_gives_way_when_nothing_else_is_left(full, qos_evidence):
    """Burstable loses what only memory.low protects, which the kernel counts; Guaranteed keeps all."""
    pressure = full.press("aggressor", past_low=True)

    qos_evidence.settle(
        *pressure.premises,
        pressure.keeps("kept-guaranteed"),
        *pressure.breaks_low("kept-burstable"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("protection/none-protects-nothing")
def test_without_a_policy_every_class_makes_room(full, qos_evidence):
    """Guaranteed and Burstable lose page cache as BestEffort does."""
    pressure = full.press("aggressor", all_lose=True)
    full.read_again("kept-guaranteed", "kept-burstable", "unguarded")

    qos_evidence.settle(
        *pressure.premises,
        pressure.gives_way("kept-guaranteed"),
        pressure.gives_way("kept-burstable"),
        pressure.gives_way("unguarded"),
        pressure.refaults("kept-guaranteed"),
        pressure.refaults("kept-burstable"),
        pressure.refaults("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/dirty-cache-is-kept")
def test_dirty_page_cache_is_kept_as_clean_is(full, qos_evidence):
    """What has not been written to the disk yet is protected in the same way, and makes room in the same way.

    Until then nobody can take it, and memory.low, not memory.min, may give way meanwhile, which the kernel counts.
    """
    pressure = full.press("aggressor", dirty=True)

    qos_evidence.settle(
        *pressure.premises,
        pressure.keeps("kept-guaranteed"),
        pressure.keeps("kept-burstable"),
        pressure.gives_way("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("protection/min-of-the-whole-limit-kills")
def test_page_cache_that_is_protected_up_to_the_limit_kills(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Guaranteed program that writes files is killed at its limit: none of its page cache can make room."""
    with qos_node.watched(qos_catalog.pod("fills-guaranteed"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        *course.is_killed(),
    )


@pytest.fixture
def comes_to_its_end(qos_node, qos_kubelet, qos_catalog):
    """What became of the program that writes more page cache than its limit, if it is not killed for it."""
    with qos_node.watched(qos_catalog.pod("fills-guaranteed"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()
    return [course.premises, course.rises("memory.events", "max"), *course.gets_through()]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/bare-scopes-let-the-limit-take")
def test_page_cache_below_a_bare_scope_makes_room_at_its_pods_limit(comes_to_its_end, qos_evidence):
    """Reclaim begins at the pod, and the scope right below it asks for nothing that could be handed down."""
    qos_evidence.settle(*comes_to_its_end)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("protection/unprotected-limit-kills-nobody")
def test_the_same_page_cache_makes_room_where_nothing_protects_it(comes_to_its_end, qos_evidence):
    """Without memory.min the same program gets through."""
    qos_evidence.settle(*comes_to_its_end)
