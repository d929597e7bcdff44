"""The checkpoint memory_manager_state: its text and its checksum."""

import json

import pytest

from memqos.engine.numa.state import CheckpointError, fnv1a_32, parse, picture
from memqos.engine.numa.table import Block, MemoryTable, NumaNodeState, NumaTable
from tests.checkpoints import checkpoint_text
from tests.unit.engine.numa.builders import MANAGED, container, init, machine, placed, plain, pod, policies

ZONE = NumaNodeState(
    id=0,
    assignments=1,
    cells=(0,),
    memory={"memory": MemoryTable(total=9, system_reserved=1, allocatable=8, reserved=3, free=5)},
)
SMALL = NumaTable(numa_nodes={0: ZONE}, assignments={"u": {"c": (Block((0,), "memory", 3),)}})


@pytest.mark.parametrize(("data", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_fnv1a(data, value):
    assert fnv1a_32(data) == value


def test_the_text_that_is_hashed():
    assert picture("Static", SMALL, with_pods=False) == (
        "(*state.MemoryManagerCheckpoint){PolicyName:(string)Static MachineState:(state.NUMANodeMap)map[0:<*>"
        "{NumberOfAssignments:(int)1 MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[memory:<*>"
        "{TotalMemSize:(uint64)9 SystemReserved:(uint64)1 Allocatable:(uint64)8 Reserved:(uint64)3 Free:(uint64)5}] "
        "Cells:([]int)[0]}] Entries:(state.ContainerMemoryAssignments)map[u:map[c:[{NUMAAffinity:([]int)[0] "
        "Type:(v1.ResourceName)memory Size:(uint64)3}]]] Checksum:(checksum.Checksum)0}"
    )


def test_numa_nodes_are_sorted_as_numbers_in_the_hashed_text_and_as_texts_in_the_file():
    zones = {one: NumaNodeState(id=one, cells=(one,)) for one in (10, 2)}
    text = picture("Static", NumaTable(numa_nodes=zones), with_pods=False)
    assert text.index("2:<*>") < text.index("10:<*>")
    assert list(json.loads(checkpoint_text("Static", NumaTable(numa_nodes=zones)))["machineState"]) == ["10", "2"]


def test_a_file_as_the_kubelet_writes_it():
    text = checkpoint_text("Static", SMALL)
    assert text == (
        '{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":9,'
        '"systemReserved":1,"allocatable":8,"reserved":3,"free":5}},"cells":[0]}},"entries":{"u":{"c":'
        '[{"numaAffinity":[0],"type":"memory","size":3}]}},"checksum":' + str(json.loads(text)["checksum"]) + "}"
    )
    checkpoint = parse(text)
    assert checkpoint.policy == "Static"
    assert checkpoint.table == SMALL
    assert checkpoint.intact(with_pods=False)


def test_a_table_without_pods_has_no_entries():
    assert "entries" not in json.loads(checkpoint_text("Static", machine(4)))


def test_both_formats_are_read_by_the_newer_kubelet_and_one_by_the_older():
    rules = policies("restricted", "pod", gates=MANAGED)
    table = placed(machine(8), rules, pod("p", init("i", "1Gi"), container("c", "2Gi"), total="4Gi"))
    newer = parse(checkpoint_text("Static", table, with_pods=True))
    assert newer.table == table
    assert newer.intact(with_pods=True)
    assert not newer.intact(with_pods=False)
    older = parse(checkpoint_text("Static", placed(machine(8), policies(), plain("p", "1Gi"))))
    assert older.intact(with_pods=True)
    assert older.intact(with_pods=False)


@pytest.mark.parametrize("with_pods", [True, False])
def test_a_changed_byte_changes_the_checksum(with_pods):
    text = checkpoint_text("Static", SMALL, with_pods=with_pods)
    assert not parse(text.replace('"size":3', '"size":4')).intact(with_pods=with_pods)
    assert parse(text).intact(with_pods=with_pods)


def test_a_file_without_a_checksum_is_accepted():
    given = json.loads(checkpoint_text("Static", SMALL))
    del given["checksum"]
    assert parse(json.dumps(given)).intact(with_pods=False)


def test_missing_and_unknown_fields_are_ignored():
    found = parse('{"machineState":{"0":{"memoryMap":{"memory":{}}}},"entries":{"u":null,"v":{"c":null,"d":[]}},"x":1}')
    assert found.policy == ""
    assert found.table.numa_nodes == {0: NumaNodeState(id=0, memory={"memory": MemoryTable()})}
    assert found.table.assignments == {"u": {}, "v": {"d": ()}}


def test_the_largest_numbers_and_empty_blocks():
    assert parse('{"checksum":"18446744073709551615"}').checksum == 2**64 - 1
    assert parse('{"entries":{"u":{"c":[{}]}}}').table.blocks("u", "c") == (Block((), "", 0),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "the file is not an object"),
        ('{"machineState":[]}', "machineState is not an object"),
        ('{"machineState":{"x":{}}}', "machineState is not a whole number"),
        ('{"machineState":{"0":{"cells":3}}}', r"machineState\.0\.cells is not a list"),
        ('{"machineState":{"0":{"cells":[true]}}}', r"machineState\.0\.cells is not a whole number"),
        ('{"machineState":{"0":{"numberOfAssignments":-1}}}', "numberOfAssignments is not a whole number from 0 on"),
        ('{"machineState":{"0":{"memoryMap":{"memory":{"free":1.5}}}}}', r"memoryMap\.memory\.free is not a whole"),
        ('{"machineState":{"0":{"memoryMap":{"memory":{"free":18446744073709551616}}}}}', "free is not a whole"),
        ('{"entries":{"u":{"c":{}}}}', r"entries\.u\.c is not a list"),
        ('{"entries":{"u":{"c":[1]}}}', r"entries\.u\.c is not an object"),
        ('{"checksum":"9999999999999999999999"}', "checksum is not a whole number"),
    ],
)
def test_texts_that_are_not_a_checkpoint(text, words):
    with pytest.raises(CheckpointError, match=words):
        parse(text)
