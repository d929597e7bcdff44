"""Protection when the whole machine runs short of memory, not kubepods: reclaim begins at the root.

    cgroup                 protection, by the revision               before          then
    the machine            none                                      448 Mi free
    system.slice, others   all that they use: nothing to take
    kubepods, no shortage  memory.min of both sums, or nothing;
                           memory.low from 1.37 on
      pod kept-guaranteed  64 Mi memory.min, or nothing              48 Mi of cache
      pod kept-burstable   64 Mi memory.min or low, or nothing       48 Mi of cache
      pod unguarded        nothing, since it is BestEffort           48 Mi of cache
      pod aggressor        nothing                                   nothing         takes what is free, and of the
                                                                                     memory that others can lose all
                                                                                     but half of an equal part

The model (`memqos.engine.cgroup.protection`, with the root cgroup as the root of reclaim) computes the effective
protection from the planned values and the usage: a container's protection counts only as far as those of its pod, its
class and kubepods do. The kernel uses its default LRU, the multi-generational one where it has it. With
memory_recursiveprot the unclaimed part of kubepods' memory.min is distributed by usage, so the aggressor gets a part of
it and the others less. The order of reclaim is unspecified, so the shortage is larger than what all pods but one can
lose. Huge pages reserve most of the machine's memory; the shortage begins at the low watermark of each memory zone. The
aggressor has a limit, because 1.27 lets a pod without one swap, which would free the memory instead. A fully protected
container may lose a batch of 64 pages (MEMCG_CHARGE_BATCH) for each CPU: pages charged ahead count as usage until
reclaim returns them (mm/memcontrol.c, drain_all_stock).
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PODS = ["kept-guaranteed", "kept-burstable", "unguarded", "aggressor"]


@pytest.fixture(scope="module")
def scarce_node(qos_node):
    """A machine with little free memory."""
    with qos_node.scarce():
        yield qos_node


@pytest.fixture(scope="module")
def pressure(scarce_node, qos_scene, qos_kubelet, qos_catalog):
    """The pods after one of them took all that the machine had left, and more; all tests use it."""
    pods = [qos_catalog.pod(name) for name in PODS]
    with (
        qos_scene(qos_kubelet),
        scarce_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES, steered=True) as watch,
    ):
        yield watch.press("aggressor", whole_node=True, all_lose=True)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/node-min-is-kept")
def test_memory_min_protects_every_request_when_the_machine_is_short(pressure, qos_evidence):
    """Every request is memory.min at each level up to kubepods: both pods with a request keep their page cache."""
    qos_evidence.settle(*pressure.premises, pressure.keeps("kept-guaranteed"), pressure.keeps("kept-burstable"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered", "v1.37-tiered")
@pytest.mark.claim("protection/node-guaranteed-is-kept")
def test_guaranteed_keeps_all_when_the_machine_is_short(pressure, qos_evidence):
    """Its memory.min is fully effective: that of kubepods covers it."""
    qos_evidence.settle(*pressure.premises, pressure.keeps("kept-guaranteed"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/node-low-needs-kubepods")
def test_memory_low_has_no_effect_without_kubepods(pressure, qos_evidence):
    """Burstable loses page cache that its memory.low covers; `low` is not counted: its effective memory.low is 0."""
    qos_evidence.settle(
        *pressure.premises,
        pressure.gives_way("kept-burstable"),
        pressure.stays("kept-burstable", "memory.events", "low"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("protection/node-low-and-generations")
def test_memory_low_is_reclaimed_by_the_multi_generational_lru(pressure, qos_evidence):
    """The same pod under the next release: page cache that memory.low covers is still reclaimed, and counts `low`."""
    qos_evidence.settle(
        *pressure.premises,
        *pressure.breaks_low("kept-burstable"),
        pressure.keeps("kept-guaranteed"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered", "v1.37-tiered")
@pytest.mark.claim("protection/node-unprotected-goes-first")
def test_unprotected_page_cache_is_reclaimed_first_on_the_machine(pressure, qos_evidence):
    """BestEffort loses page cache while others keep theirs."""
    qos_evidence.settle(*pressure.premises, pressure.gives_way("unguarded"), pressure.keeps("kept-guaranteed"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("protection/node-none-protects-nothing")
def test_without_a_policy_every_class_loses_page_cache_on_the_machine(pressure, qos_evidence):
    """Guaranteed and Burstable lose page cache as BestEffort does."""
    qos_evidence.settle(
        *pressure.premises,
        pressure.gives_way("kept-guaranteed"),
        pressure.gives_way("kept-burstable"),
        pressure.gives_way("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered", "v1.37-tiered", "v1.36-none")
@pytest.mark.claim("protection/node-cache-is-no-reason-to-kill")
def test_nothing_is_killed_while_page_cache_can_be_reclaimed(pressure, qos_evidence):
    """Every pod that loses page cache keeps running, and the neighbour gets all the memory that it asked for."""
    qos_evidence.settle(
        *pressure.premises,
        *pressure.lives("kept-guaranteed"),
        *pressure.lives("kept-burstable"),
        *pressure.lives("unguarded"),
        *pressure.lives("aggressor"),
    )
