"""The hinted sets of NUMA nodes, and the preferred ones among them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memqos.engine.numa.hints import NOTHING_REUSABLE, Reusable, best, calculate, has_room, regenerate
from memqos.engine.numa.table import Block, MemoryTable, NumaNodeState, NumaTable
from memqos.engine.numa.topology_manager import Hint, Mask, masks_of
from tests.unit.engine.numa.builders import GIB, MIB, machine, placed, plain, policies

NONE = policies()


def shown(hints):
    """Hints as (NUMA nodes, preferred)."""
    return [(one.affinity.numa_nodes, one.preferred) for one in hints]


def hinted(table, size, reusable=NOTHING_REUSABLE, **pages):
    request = {"memory": size * GIB} | {f"hugepages-{name}": amount for name, amount in pages.items()}
    return shown(calculate(table, request, reusable))


def test_every_set_with_room_is_hinted():
    assert hinted(machine(4, 4), 1) == [((0,), True), ((1,), True), ((0, 1), False)]


def test_an_exact_fit_is_enough():
    assert hinted(machine(4, 2), 4) == [((0,), True), ((0, 1), False)]
    assert hinted(machine(4, 2), 6) == [((0, 1), True)]
    assert hinted(machine(4, 2), 7) == []


def test_one_byte_too_few_does_not_fit():
    """Memory that an init container leaves on NUMA node 1 can be reused on exactly that set."""
    table = machine(4, 4)
    for zone in (0, 1):
        table = table.taken((zone,), "memory", 1)
    left = Reusable({((1,), "memory"): 1})
    assert hinted(table, 4, left) == [((1,), True)]


def test_preferred_is_the_least_size_on_empty_numa_nodes():
    """Two NUMA nodes in one group: when empty one would suffice, so no set of two is preferred."""
    table = placed(machine(4, 4), NONE, plain("wide", "5Gi"))
    assert hinted(table, 1) == [((0, 1), False)]


def test_a_numa_node_in_use_alone_is_in_no_set_of_several():
    table = placed(machine(4, 4, 4), NONE, plain("p", "1Gi"))
    assert hinted(table, 1) == [((0,), True), ((1,), True), ((2,), True), ((1, 2), False)]


def test_a_group_is_used_again_only_as_a_whole():
    table = placed(machine(4, 4, 4), NONE, plain("wide", "6Gi"))
    assert hinted(table, 5) == []
    assert hinted(table, 2) == [((2,), True), ((0, 1), False)]


def test_a_group_without_assignments_bars_only_its_single_numa_nodes():
    table = machine(4, 4)
    zones = {zone_id: replace(zone, cells=(0, 1)) for zone_id, zone in table.numa_nodes.items()}
    assert hinted(replace(table, numa_nodes=zones), 1) == [((0, 1), False)]


def test_all_memory_types_must_fit():
    table = machine(4, 4, pages=512)
    request = {"memory": GIB, "hugepages-2Mi": GIB}
    assert shown(calculate(table, request, NOTHING_REUSABLE)) == [((0,), True), ((1,), True), ((0, 1), False)]
    request = {"memory": GIB, "hugepages-2Mi": GIB + 2 * MIB}
    assert shown(calculate(table, request, NOTHING_REUSABLE)) == [((0, 1), True)]


def test_a_type_that_no_numa_node_has_fits_nowhere():
    assert calculate(machine(4), {"memory": GIB, "hugepages-1Gi": GIB}, NOTHING_REUSABLE) == ()


def test_without_memory_in_the_request_there_is_no_hint():
    assert calculate(machine(4), {}, NOTHING_REUSABLE) == ()


def test_reusable_memory_counts_only_on_its_numa_nodes():
    table = placed(machine(4, 4), NONE, plain("p", "3Gi"), plain("q", "3Gi"))
    assert hinted(table, 2) == []
    left = Reusable({((0,), "memory"): GIB, ((0, 1), "memory"): 8 * GIB, ((0,), "hugepages-2Mi"): 0})
    assert hinted(table, 2, left) == [((0,), True)]


def test_numa_nodes_need_not_be_numbered_from_zero():
    table = machine(4, 4, 4)
    zones = {zone_id: table.numa_nodes[zone_id] for zone_id in (0, 2)}
    assert hinted(replace(table, numa_nodes=zones), 5) == [((0, 2), True)]


def test_empty_cells_are_a_group():
    """Upstream's tests have such NUMA nodes: in use, but with no cells."""
    zone = NumaNodeState(id=0, assignments=1, cells=(), memory=machine(4).numa_nodes[0].memory)
    other = machine(4, 4).numa_nodes[1]
    assert hinted(replace(machine(4), numa_nodes={0: zone, 1: other}), 1) == [((0,), True), ((1,), True)]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"memory": 1}, {"memory": (Hint(Mask.of([0, 1]), preferred=True),)}),
        ({"memory": 2}, None),
        ({"memory": 1, "hugepages-2Mi": 1}, None),
        ({"hugepages-2Mi": 1}, None),
    ],
)
def test_a_container_that_holds_memory_is_hinted_on_its_numa_nodes(request_, expected):
    assert regenerate((Block((0, 1), "memory", 1),), request_) == expected


def test_two_blocks_of_one_type_do_not_match_the_request():
    assert regenerate((Block((0,), "memory", 1), Block((1,), "memory", 1)), {"memory": 1}) is None


def test_the_best_hint_is_preferred_then_narrow_then_lowest():
    hints = [Hint(Mask.of(zones), preferred) for zones, preferred in (([0], False), ([1, 2], True), ([0, 3], True))]
    assert best(hints) == Hint(Mask.of([1, 2]), preferred=True)
    assert best(hints[:1]) == Hint(Mask.of([0]), preferred=False)
    assert best([]) is None


def test_room_means_free_memory():
    table = machine(4, 2)
    assert has_room(table, Mask.of([0, 1]), {"memory": 6 * GIB})
    assert not has_room(table, Mask.of([0]), {"memory": 4 * GIB + 1})


def one_by_one(table, request, reusable):
    """The rules set by set, slow and plain."""
    found, smallest = [], len(table.numa_nodes)
    for mask in masks_of(table.ids):
        zones = [table.numa_nodes[zone] for zone in mask.numa_nodes]
        if any(sum(zone.of(kind).allocatable for zone in zones) < size for kind, size in request.items()):
            continue
        smallest = min(smallest, mask.count)
        if mask.count == 1 and len(zones[0].cells) > 1:
            continue
        used = [zone for zone in zones if zone.assignments > 0]
        if mask.count > 1 and any(
            len(zone.cells) == 1 or tuple(sorted(zone.cells)) != mask.numa_nodes for zone in used
        ):
            continue
        if all(
            sum(zone.of(kind).free for zone in zones) + reusable.of(mask.numa_nodes, kind) >= size
            for kind, size in request.items()
        ):
            found.append(mask)
    return tuple(Hint(mask, mask.count == smallest) for mask in found) if request else ()


IDS = (0, 1, 3, 6)
AMOUNTS = st.integers(0, 6)
KINDS = ("memory", "hugepages-2Mi")
CELLS = st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
MEMORY = st.builds(lambda allocatable, free: MemoryTable(allocatable=allocatable, free=free), AMOUNTS, AMOUNTS)
ZONES = st.builds(
    lambda assignments, cells, memory: {"assignments": assignments, "cells": cells, "memory": memory},
    st.integers(0, 2),
    CELLS,
    st.dictionaries(st.sampled_from(KINDS), MEMORY),
)
TABLES = st.lists(ZONES, min_size=1, max_size=4).map(
    lambda zones: NumaTable(
        numa_nodes={zone_id: NumaNodeState(id=zone_id, **zone) for zone_id, zone in zip(IDS, zones, strict=False)}
    )
)
LEFT = st.dictionaries(st.tuples(CELLS, st.sampled_from(KINDS)), AMOUNTS).map(Reusable)


@settings(max_examples=300)
@given(TABLES, st.dictionaries(st.sampled_from(KINDS), AMOUNTS), LEFT)
def test_hints_equal_those_of_the_plain_rules(table, request_, left):
    """Also for tables that no kubelet creates: contradictory cells, more free than allocatable."""
    assert calculate(table, request_, left) == one_by_one(table, request_, left)
