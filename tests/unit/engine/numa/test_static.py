"""Allocation and release of containers."""

import pytest

from memqos.engine.numa.hints import NOTHING_REUSABLE, Reusable
from memqos.engine.numa.reservation import (
    NOT_WHOLE,
    Allocation,
    Rejection,
    allocate,
    container_started,
    mixes_groups,
    remove_container,
)
from memqos.engine.numa.table import Block
from memqos.engine.numa.topology_manager import NO_AFFINITY, Hint, Mask
from memqos.model.pod import Container, Resources
from tests.unit.engine.numa.builders import (
    GIB,
    MIB,
    amounts,
    container,
    init,
    machine,
    placed,
    plain,
    pod,
    policies,
    sidecar,
)

RULES = policies()


def one(table, own, *, hint=NO_AFFINITY, reusable=NOTHING_REUSABLE, rules=RULES):
    return allocate(own, own.containers[0], table=table, hint=hint, reusable=reusable, policies=rules)


def hint(*zones, preferred=True):
    return Hint(Mask.of(zones), preferred)


def free(table, kind="memory"):
    return [table.numa_nodes[zone].of(kind).free for zone in table.ids]


def test_the_affinity_is_used():
    found = one(machine(4, 4), plain("p", "1Gi"), hint=hint(1))
    assert found.blocks == (Block((1,), "memory", GIB),)
    assert free(found.table) == [4 * GIB, 3 * GIB]
    assert found.reason.rule == "The NUMA nodes are the Topology Manager's affinity."
    assert found.reason.arithmetic == "mask 10: NUMA nodes 1"


def test_without_an_affinity_the_own_best_hint_is_used():
    found = one(machine(4, 4), plain("p", "1Gi"))
    assert found.blocks == (Block((0,), "memory", GIB),)
    assert "own best hint" in found.reason.rule


def test_several_numa_nodes_are_filled_in_ascending_order():
    found = one(machine(4, 4), plain("p", "5Gi"))
    assert found.blocks == (Block((0, 1), "memory", 5 * GIB),)
    assert free(found.table) == [0, 3 * GIB]
    assert [found.table.numa_nodes[zone].cells for zone in (0, 1)] == [(0, 1), (0, 1)]
    assert [found.table.numa_nodes[zone].assignments for zone in (0, 1)] == [1, 1]


def test_each_memory_type_is_one_assignment_in_each_numa_node():
    found = one(machine(4, 4, pages=512), pod("p", container("c", "5Gi", hugepages_2Mi="4Mi")))
    assert [found.table.numa_nodes[zone].assignments for zone in (0, 1)] == [2, 2]
    assert free(found.table, "hugepages-2Mi") == [GIB - 4 * MIB, GIB]


def test_an_affinity_without_room_is_extended():
    found = one(machine(4, 4), plain("p", "5Gi"), hint=hint(1))
    assert found.blocks == (Block((0, 1), "memory", 5 * GIB),)
    assert found.reason.rule == "NUMA nodes 10 have no room; they are extended to the best own hint that includes them."


@pytest.mark.parametrize(
    ("before", "size", "given", "message"),
    [
        (("4Gi", "4Gi"), "1Gi", NO_AFFINITY, "failed to get the default NUMA affinity, no NUMA nodes with enough"),
        (("5Gi",), "1Gi", Hint(None, preferred=True), "failed to find the default preferred hint"),
        (("4Gi",), "5Gi", hint(0), "failed to find NUMA nodes to extend the current topology hint"),
        (("7Gi",), "1Gi", hint(0), "failed to find the extended preferred hint"),
        (("1Gi",), "1Gi", hint(0, 1), "preferred hint violates NUMA node allocation"),
    ],
)
def test_requests_that_cannot_be_placed(before, size, given, message):
    table = placed(machine(4, 4), RULES, *(plain(f"q{n}", one_size) for n, one_size in enumerate(before)))
    found = one(table, plain("p", size), hint=given)
    assert isinstance(found, Rejection)
    assert found.message.startswith(f"[memorymanager] {message}")


def test_before_1_32_a_set_may_mix_groups():
    rules = policies(minor=31)
    table = placed(machine(4, 4), rules, plain("q", "1Gi"))
    found = one(table, plain("p", "1Gi"), hint=hint(0, 1), rules=rules)
    assert found.blocks == (Block((0, 1), "memory", GIB),)
    assert found.table.numa_nodes[0].cells == (0, 1)


def test_an_extension_that_was_not_preferred_may_stay_so():
    table = placed(machine(4, 4), RULES, plain("q", "7Gi"))
    found = one(table, plain("p", "1Gi"), hint=hint(0, preferred=False))
    assert found.blocks == (Block((0, 1), "memory", GIB),)


def test_amounts_must_be_whole():
    half = Resources(requests=amounts(cpu="1", memory="1500m"), limits=amounts(cpu="1", memory="1500m"))
    own = pod("p", Container(name="c", resources=half))
    found = one(machine(4), own)
    assert found.message == NOT_WHOLE


def test_a_container_that_holds_memory_keeps_it():
    table = one(machine(4, 4), plain("p", "1Gi"), hint=hint(1)).table
    again = one(table, plain("p", "2Gi"), hint=hint(0))
    assert again.table is table
    assert again.blocks == (Block((1,), "memory", GIB),)


def test_an_init_container_leaves_its_memory_to_the_next():
    own = pod("p", init("i", "3Gi"), container("c", "2Gi"))
    first = allocate(
        own, own.init_containers[0], table=machine(4, 4), hint=NO_AFFINITY, reusable=NOTHING_REUSABLE, policies=RULES
    )
    assert first.reusable == Reusable({((0,), "memory"): 3 * GIB})
    second = one(first.table, own, hint=hint(0), reusable=first.reusable)
    assert free(second.table) == [GIB, 4 * GIB]
    assert second.reusable.of((0,), "memory") == GIB
    assert second.table.assignments["p"] == {
        "i": (Block((0,), "memory", GIB),),
        "c": (Block((0,), "memory", 2 * GIB),),
    }


def test_memory_is_not_reused_on_other_numa_nodes():
    own = pod("p", init("i", "3Gi"), container("c", "2Gi"))
    left = Reusable({((0,), "memory"): 3 * GIB})
    found = one(machine(4, 4), own, hint=hint(1), reusable=left)
    assert free(found.table) == [4 * GIB, 2 * GIB]


def test_earlier_blocks_shrink_only_by_the_reused_part():
    table = machine(8)
    own = pod("p", init("i", "1Gi"), init("j", "2Gi"), sidecar("s", "1Gi"), container("c", "1Gi"))
    reusable = NOTHING_REUSABLE
    for each in own.init_containers + own.containers:
        found = allocate(own, each, table=table, hint=NO_AFFINITY, reusable=reusable, policies=RULES)
        assert isinstance(found, Allocation)
        table, reusable = found.table, found.reusable
    sizes = {name: blocks[0].size // GIB for name, blocks in table.assignments["p"].items()}
    # j reuses all of i (2 in all), s reuses 1 of j, c the other 1; nothing is taken twice.
    assert sizes == {"i": 0, "j": 0, "s": 1, "c": 1}
    assert free(table) == [6 * GIB]


def test_a_kubelet_without_sidecar_support_reuses_their_memory():
    old = policies(minor=27)
    own = pod("p", sidecar("s", "2Gi"), container("c", "1Gi"))
    assert free(placed(machine(4), old, own)) == [2 * GIB]
    assert free(placed(machine(4), RULES, own)) == [GIB]


def test_a_kubelet_of_1_28_reuses_the_memory_of_sidecars():
    own = pod("p", sidecar("s", "2Gi"), container("c", "1Gi"))
    known = {"SidecarContainers": True}
    assert free(placed(machine(4), policies(minor=28, gates=known), own)) == [2 * GIB]
    assert free(placed(machine(4), policies(minor=29), own)) == [GIB]


def test_a_container_is_removed_once():
    table = placed(machine(4, 4), RULES, plain("p", "5Gi"), plain("q", "1Gi"))
    gone = remove_container(table, "p", "c0")
    assert gone.assignments == {"q": table.assignments["q"]}
    assert remove_container(gone, "p", "c0") is gone


def test_the_last_assignment_dissolves_a_group():
    table = placed(machine(4, 4), RULES, plain("p", "5Gi", "1Gi"))
    once = remove_container(table, "p", "c0")
    assert [once.numa_nodes[zone].cells for zone in (0, 1)] == [(0, 1), (0, 1)]
    twice = remove_container(once, "p", "c1")
    assert twice.numa_nodes == machine(4, 4).numa_nodes
    assert twice.assignments == {}


def test_memory_is_given_back_in_ascending_order():
    """Not in the order of the taking: the rest of a group may be in another NUMA node than before."""
    table = placed(machine(4, 4), RULES, plain("p", "5Gi", "2Gi"))
    assert free(table) == [0, GIB]
    once = remove_container(table, "p", "c1")
    assert free(once) == [2 * GIB, GIB]


def test_regular_init_containers_end_when_the_next_container_starts():
    own = pod("p", init("i", "1Gi"), sidecar("s", "1Gi"), init("j", "3Gi"), container("c", "1Gi"))
    table = placed(machine(8), RULES, own)
    assert list(table.assignments["p"]) == ["i", "s", "j", "c"]
    assert list(container_started(table, own, "i", RULES).assignments["p"]) == ["i", "s", "j", "c"]
    assert list(container_started(table, own, "s", RULES).assignments["p"]) == ["s", "j", "c"]
    after = container_started(table, own, "c", RULES)
    assert list(after.assignments["p"]) == ["s", "c"]
    assert free(after) == [6 * GIB]


def test_groups():
    table = placed(machine(4, 4, 4), RULES, plain("wide", "5Gi"))
    assert not mixes_groups(table, Mask.of([0]))
    assert not mixes_groups(table, Mask.of([0, 1]))
    assert mixes_groups(table, Mask.of([0, 1, 2]))
    assert mixes_groups(table, Mask.of([1, 2]))
    assert not mixes_groups(machine(4, 4), Mask.of([0, 1]))
