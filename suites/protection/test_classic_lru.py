"""Protection when the whole machine runs short, with the classic LRU instead of the multi-generational one.

    cgroup                 protection                                before          then
    the machine            none                                      448 Mi free
    system.slice, others   all that they use: nothing to take
    kubepods, no shortage  memory.min of both sums, memory.low of
                           Burstable's from 1.37 on
      pod kept-guaranteed  64 Mi memory.min                          48 Mi of cache
      pod kept-burstable   64 Mi memory.low                          48 Mi of cache
      pod unguarded        nothing, since it is BestEffort           48 Mi of cache
      pod neighbour        nothing                                   nothing         takes what is free, and of the
                                                                                     memory that others can lose all
                                                                                     but half of an equal part

The classic LRU reclaims nothing that memory.low covers while other memory can be reclaimed (mm/vmscan.c,
shrink_node_memcgs and do_try_to_free_pages). The model computes the effective protection, as for the whole-node
tests; a fully protected container may lose a batch of 64 pages (MEMCG_CHARGE_BATCH) for each CPU. On a kernel with
both, the tests switch to the classic LRU while they run (/sys/kernel/mm/lru_gen/enabled).
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PODS = ["kept-guaranteed", "kept-burstable", "unguarded", "neighbour"]


@pytest.fixture(scope="module")
def scarce_node(qos_node):
    """A machine with little free memory and the classic LRU."""
    with qos_node.scarce(), qos_node.reclaiming(generations=False):
        yield qos_node


@pytest.fixture(scope="module")
def pressure(scarce_node, qos_scene, qos_kubelet, qos_catalog):
    """The pods after one of them took all that the machine had left, and more; all tests use it."""
    pods = [qos_catalog.pod(name) for name in PODS]
    with (
        qos_scene(qos_kubelet),
        scarce_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES, steered=True) as watch,
    ):
        yield watch.press("neighbour", whole_node=True, all_lose=True)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("protection/node-low-is-kept")
def test_memory_low_is_effective_if_kubepods_has_it(pressure, qos_evidence):
    """Unprotected memory is reclaimed, and Burstable keeps what its memory.low covers."""
    qos_evidence.settle(*pressure.premises, pressure.keeps("kept-burstable"), pressure.gives_way("unguarded"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/node-low-needs-kubepods-here-too")
def test_memory_low_has_no_effect_without_kubepods_under_the_classic_lru(pressure, qos_evidence):
    """In 1.36 Burstable loses page cache that its memory.low covers, without a `low` event, under this LRU too."""
    qos_evidence.settle(
        *pressure.premises,
        pressure.gives_way("kept-burstable"),
        pressure.stays("kept-burstable", "memory.events", "low"),
        pressure.keeps("kept-guaranteed"),
    )
