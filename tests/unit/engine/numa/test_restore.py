"""A kubelet that starts with a checkpoint."""

import json
from dataclasses import replace

import pytest

from memqos.engine.numa.policies import Policies
from memqos.engine.numa.state import StartRefusal, TableDifference, restore, table_differences
from memqos.engine.numa.table import Block, NumaTable
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings
from tests.checkpoints import checkpoint_text
from tests.unit.engine.numa.builders import GIB, MANAGED, container, machine, placed, plain, pod, policies

RULES = policies()
FRESH = machine(4, 4)


def test_without_a_file_the_table_is_fresh():
    assert restore(None, FRESH, RULES) is FRESH


def test_a_table_survives_a_restart():
    table = placed(FRESH, RULES, plain("p", "1Gi"), plain("q", "2Gi"))
    assert restore(checkpoint_text("Static", table), FRESH, RULES) == table


def test_distances_are_the_machines_not_the_files():
    fresh = replace(FRESH, distances={0: (10, 20), 1: (20, 10)})
    table = placed(FRESH, RULES, plain("p", "1Gi"))
    assert restore(checkpoint_text("Static", table), fresh, RULES).distances == {0: (10, 20), 1: (20, 10)}


def test_a_group_is_compared_by_its_sums():
    """Releasing memory moved it between the NUMA nodes of the group; only the sums must be equal."""
    table = placed(FRESH, RULES, plain("p", "5Gi", "2Gi"))
    from_the_middle = placed(FRESH, RULES, plain("q", "5Gi"), plain("r", "2Gi"))
    assert restore(checkpoint_text("Static", table), FRESH, RULES) == table
    zone = from_the_middle.numa_nodes[0]
    moved = replace(
        from_the_middle,
        numa_nodes={**from_the_middle.numa_nodes, 0: zone.moved("memory", -GIB, counted=0, cells=zone.cells)},
    )
    other = moved.numa_nodes[1]
    moved = replace(moved, numa_nodes={**moved.numa_nodes, 1: other.moved("memory", GIB, counted=0, cells=other.cells)})
    assert moved.numa_nodes != from_the_middle.numa_nodes
    assert restore(checkpoint_text("Static", moved), FRESH, RULES) == moved


def refused(text, fresh=FRESH, rules=RULES):
    outcome = restore(text, fresh, rules)
    assert isinstance(outcome, StartRefusal)
    return outcome


def test_a_changed_machine():
    """A few MiB more after a reboot are enough (kubernetes/kubernetes issue 131253)."""
    table = placed(FRESH, RULES, plain("p", "1Gi"))
    found = refused(checkpoint_text("Static", table), machine(5, 4))
    assert found.message == "[memorymanager] the expected machine state is different from the real one"
    assert found.differences == (
        TableDifference(numa_node=0, kind="memory", field="total", recorded=4 * GIB, expected=5 * GIB),
        TableDifference(numa_node=0, kind="memory", field="allocatable", recorded=4 * GIB, expected=5 * GIB),
        TableDifference(numa_node=0, kind="memory", field="free of the group", recorded=3 * GIB, expected=4 * GIB),
    )
    assert str(found.differences[0]) == "NUMA node 0 memory total: recorded 4294967296, expected 5368709120"
    assert [one.value for one in found.reason.inputs] == [str(one) for one in found.differences]


def test_numa_nodes_cells_types_and_assignments_are_compared():
    table = placed(FRESH, RULES, plain("p", "5Gi"))
    alone = placed(machine(8, 4, 1), RULES, plain("p", "5Gi"))
    found = {(one.numa_node, one.field): (one.recorded, one.expected) for one in table_differences(table, alone)}
    assert found[2, "present"] == (False, True)
    assert found[0, "cells"] == ((0, 1), (0,))
    assert found[1, "assignments"] == (1, 0)
    pages = table_differences(machine(4), machine(4, pages=1))
    assert "NUMA node 0 hugepages-2Mi total: recorded 0, expected 2097152" in map(str, pages)
    fewer = replace(machine(4), numa_nodes={0: replace(machine(4).numa_nodes[0], memory={})})
    assert str(table_differences(fewer, machine(4))[0]) == (
        "NUMA node 0 memory types: recorded (), expected ('hugepages-2Mi', 'memory')"
    )


def test_cells_may_name_numa_nodes_that_the_machine_lacks():
    zone = replace(machine(4).numa_nodes[0], cells=(0, 9))
    [found] = table_differences(replace(machine(4), numa_nodes={0: zone}), machine(4))
    assert str(found) == "NUMA node 0 cells: recorded (0, 9), expected (0,)"


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block((7,), "memory", 1), "(pod: p, container: c0) the memory assignment uses the NUMA that does not exist"),
        (Block((0,), "hugepages-1Gi", 1), "uses memory resource that does not exist"),
    ],
)
def test_blocks_that_the_machine_cannot_hold(block, words):
    table = placed(FRESH, RULES, plain("p", "1Gi"))
    found = refused(checkpoint_text("Static", table.holding("p", "c0", (block,))))
    assert words in found.message
    assert found.differences == ()


def test_numa_nodes_can_be_missing_but_not_under_blocks():
    assert restore(checkpoint_text("Static", NumaTable(numa_nodes={})), FRESH, RULES) is FRESH
    held = NumaTable(numa_nodes={}, assignments={"p": {"c": (Block((0,), "memory", 1),)}})
    assert refused(checkpoint_text("Static", held)).message == (
        "[memorymanager] machine state can not be empty when it has memory assignments"
    )


def test_another_policy():
    found = refused(checkpoint_text("None", NumaTable(numa_nodes={})))
    assert 'configured policy "Static" differs from state checkpoint policy "None"' in found.message


def test_the_policy_none_compares_nothing():
    none = Policies.of(KubeletSettings(), Release(36))
    assert restore(checkpoint_text("None", NumaTable(numa_nodes={})), FRESH, none) == NumaTable(numa_nodes={})


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_file_that_is_not_a_checkpoint(text):
    found = refused(text)
    assert found.message.startswith("could not restore state from checkpoint: ")
    assert found.message.endswith("please drain this node and delete the memory manager checkpoint file")


def test_a_changed_file():
    text = checkpoint_text("Static", placed(FRESH, RULES, plain("p", "1Gi"))).replace("1073741824", "1073741825")
    assert "checkpoint is corrupted" in refused(text).message


def test_a_pod_that_was_placed_as_a_whole_counts_once():
    rules = policies("restricted", "pod", gates=MANAGED)
    table = placed(FRESH, rules, pod("p", container("c", "1Gi"), container("d"), total="4Gi"))
    text = checkpoint_text("Static", table, with_pods=True)
    assert restore(text, FRESH, rules) == table
    assert "checkpoint is corrupted" in refused(text).message


def test_without_the_gate_pod_entries_are_not_seen():
    rules = policies("restricted", "pod", gates=MANAGED)
    table = placed(FRESH, rules, pod("p", container("c", "4Gi"), total="4Gi"))
    unsigned = json.loads(checkpoint_text("Static", table, with_pods=True)) | {"checksum": 0}
    found = restore(json.dumps(unsigned), FRESH, RULES)
    assert found == replace(table, pod_blocks={})
