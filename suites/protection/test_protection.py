"""Protection: which pods keep their page cache when kubepods is full and a neighbour takes more memory.

    cgroup                 protection, by the revision          before          then
    kubepods, 208 Mi       the sum of what is below
      pod kept-guaranteed  64 Mi memory.min, or nothing         48 Mi of cache
      pod kept-burstable   64 Mi memory.min or low, or nothing  48 Mi of cache
      pod unguarded        nothing, since it is BestEffort      48 Mi of cache
      pod aggressor        nothing                              nothing         takes what is left, and half of the
                                                                                memory that others can lose; without a
                                                                                policy 5/6 of it, so that none of the
                                                                                three can be left out

The model (`memqos.engine.cgroup.protection`) computes the effective protection from the planned values and the usage
before. By then the page cache is clean and there is little anonymous memory, so only page cache can be reclaimed. The
aggressor has a limit, because 1.22 and 1.27 let a pod without one swap, and swapping would free memory too. Reclaim
skips a container whose protection covers all of its usage; it may lose a batch of 64 pages (MEMCG_CHARGE_BATCH) for
each CPU. Pages charged ahead count as usage until reclaim returns them (mm/memcontrol.c, drain_all_stock). Each pod
then re-reads its file, unprotected pods first, with no more free memory than before. A reclaimed page comes back as a
refault, which the kernel counts (memory.stat, workingset_refault_file): a fully protected pod has no more refaults
than pages that it may lose.

    cgroup                 protection, by the revision   memory.max   program
    pod fills-guaranteed   24 Mi memory.min, or nothing  24 Mi        and a sandbox of some 100 Ki
      container app        24 Mi memory.min, or nothing  24 Mi        48 Mi of page cache

The sandbox's memory is charged to the pod too, so the pod reaches its memory.max before the container does. Reclaim
then begins at the pod, and the container's own memory.min protects all of its usage, unless a runtime puts an
unprotected scope in between, as crun before 1.18 does.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PODS = ["kept-guaranteed", "kept-burstable", "unguarded", "aggressor"]


@pytest.fixture
def full(qos_node, qos_kubelet, qos_catalog):
    """Watches the pods under a kubelet with little allocatable memory."""
    pods = [qos_catalog.pod(name) for name in PODS]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        yield watch


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", "v1.27")
@pytest.mark.claim("protection/min-is-kept")
def test_memory_min_protects_every_request(full, qos_evidence):
    """Both pods with a request keep their page cache and re-read none; the one without loses its and re-reads it."""
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
def test_both_tiers_are_kept_while_unprotected_memory_is_left(full, qos_evidence):
    """Guaranteed and Burstable keep their page cache and re-read none, and `low` is not counted."""
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
def test_without_a_policy_every_class_loses_page_cache(full, qos_evidence):
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
def test_dirty_page_cache_is_protected_like_clean(full, qos_evidence):
    """Dirty page cache is protected and reclaimed like clean page cache.

    Until it is written back it cannot be reclaimed. Meanwhile memory.low, but not memory.min, may give way, which the
    kernel counts.
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
def test_page_cache_protected_up_to_the_limit_kills(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Guaranteed program that writes files is killed at its limit: its page cache cannot be reclaimed."""
    with qos_node.watched(qos_catalog.pod("fills-guaranteed"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        *course.oom.is_killed(),
    )


@pytest.fixture
def comes_to_its_end(qos_node, qos_kubelet, qos_catalog):
    """The course of the program that writes more page cache than its limit, where it is not killed."""
    with qos_node.watched(qos_catalog.pod("fills-guaranteed"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until_done()
    return [course.premises, course.rises("memory.events", "max"), *course.gets_through()]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/bare-scopes-let-the-limit-take")
def test_page_cache_below_a_bare_scope_is_reclaimed_at_the_pods_limit(comes_to_its_end, qos_evidence):
    """Reclaim begins at the pod, and the scope right below it has no protection to pass down."""
    qos_evidence.settle(*comes_to_its_end)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("protection/unprotected-limit-kills-nothing")
def test_unprotected_page_cache_is_reclaimed_at_the_limit(comes_to_its_end, qos_evidence):
    """Without memory.min the same program completes."""
    qos_evidence.settle(*comes_to_its_end)
