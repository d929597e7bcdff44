"""A node's table before any pod."""

import pytest

from memqos.engine.numa.policies import Policies
from memqos.engine.numa.reservation import empty_table, first_table
from memqos.engine.numa.table import MemoryTable, NumaNodeState
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError, UsageError
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from tests.unit.engine.numa.builders import GIB, MIB, amounts

TWO = NodeFacts(
    memory=8 * GIB,
    numa_nodes=(NumaNode(id=0, memory=4 * GIB, hugepages={2 * MIB: 512}), NumaNode(id=1, memory=4 * GIB)),
)


def settings(*reserved, node="1Gi", **more):
    return KubeletSettings(
        memory_manager_policy="Static",
        system_reserved=amounts(memory=node),
        eviction_hard={},
        reserved_memory=tuple((zone, amounts(memory=size)) for zone, size in reserved),
        **more,
    )


def table(facts, configuration):
    return first_table(facts, configuration, Policies.of(configuration, Release(36)))


def test_allocatable_is_the_total_less_reserved_and_huge_pages():
    found = table(TWO, settings((0, "256Mi"), (1, "768Mi")))
    pages = MemoryTable(total=GIB, allocatable=GIB, free=GIB)
    memory = MemoryTable(total=4 * GIB, system_reserved=256 * MIB, allocatable=2816 * MIB, free=2816 * MIB)
    assert found.numa_nodes[0] == NumaNodeState(
        id=0, cells=(0,), memory={"hugepages-2Mi": pages, "hugepages-1Gi": MemoryTable(), "memory": memory}
    )
    assert found.numa_nodes[1].of("memory").allocatable == 3328 * MIB
    assert found.numa_nodes[1].of("hugepages-2Mi") == MemoryTable()
    assert found.ids == (0, 1)


def test_reserved_huge_pages_are_not_allocatable():
    configuration = KubeletSettings(
        memory_manager_policy="Static",
        system_reserved=amounts(memory="1Gi", hugepages_2Mi="64Mi"),
        eviction_hard={},
        reserved_memory=((0, amounts(memory="1Gi", hugepages_2Mi="64Mi")),),
    )
    assert table(TWO, configuration).numa_nodes[0].of("hugepages-2Mi").allocatable == 960 * MIB


def test_a_machine_without_numa_nodes_is_one_numa_node():
    found = table(NodeFacts(memory=2 * GIB), settings((0, "1Gi")))
    assert found.ids == (0,)
    assert found.numa_nodes[0].of("memory").allocatable == GIB


def test_a_numa_node_without_memory_has_no_allocatable():
    facts = NodeFacts(memory=4 * GIB, numa_nodes=(NumaNode(id=0, memory=4 * GIB), NumaNode(id=1, memory=0)))
    assert table(facts, settings((0, "1Gi"))).numa_nodes[1].of("memory") == MemoryTable()


def test_with_the_policy_none_nothing_is_reserved():
    found = table(TWO, KubeletSettings(reserved_memory=((5, amounts(memory="1Gi")),)))
    assert found.numa_nodes[1].of("memory").allocatable == 4 * GIB
    with pytest.raises(ManifestError, match="not a type of memory"):
        table(TWO, KubeletSettings(reserved_memory=((0, amounts(cpu="1")),)))


def test_static_needs_some_reserved_memory():
    configuration = KubeletSettings(memory_manager_policy="Static", eviction_hard={})
    with pytest.raises(ManifestError, match="needs memory to be reserved in at least one NUMA node"):
        table(TWO, configuration)


@pytest.mark.parametrize(
    ("zone", "size", "words"),
    [
        (
            1,
            "5Gi",
            r"NUMA node 1 has 4Gi of memory, which is less than what reservedMemory \(5Gi\) and huge pages \(0\) take",
        ),
        (0, "3584Mi", r"NUMA node 0 has 4Gi of memory, .* \(3584Mi\) and huge pages \(1Gi\) take of it. Reserve less"),
    ],
)
def test_a_numa_node_that_reserves_more_than_it_has(zone, size, words):
    with pytest.raises(UsageError, match=words):
        table(TWO, settings((zone, size), node=size))


def test_the_kubelets_own_table_wraps_around():
    found = empty_table([NumaNode(id=0, memory=GIB)], {0: {"memory": GIB + 1}}, ())
    assert found.numa_nodes[0].of("memory").allocatable == 2**64 - 1


def machine_of(count, first=0):
    return NodeFacts(memory=GIB, numa_nodes=tuple(NumaNode(id=first + n, memory=GIB) for n in range(count)))


@pytest.mark.parametrize(("count", "first"), [(17, 0), (1, 64)])
def test_too_many_numa_nodes(count, first):
    with pytest.raises(UsageError, match="memoryManagerPolicy Static looks at every set of NUMA nodes"):
        table(machine_of(count, first), settings((first, "1Gi")))
    with pytest.raises(UsageError, match="topologyManagerPolicy restricted looks at every set of NUMA nodes"):
        table(machine_of(count, first), KubeletSettings(topology_manager_policy="restricted"))
    assert len(table(machine_of(count, first), KubeletSettings()).numa_nodes) == count


def test_the_largest_number_of_numa_nodes():
    assert len(table(machine_of(16, 48), settings((48, "1Gi"))).numa_nodes) == 16


def test_the_topology_manager_limits_the_numa_nodes():
    nine = machine_of(9)
    assert len(table(nine, settings((0, "1Gi"))).numa_nodes) == 9
    with pytest.raises(ManifestError, match="the policy restricted takes at most 8 NUMA nodes; this machine has 9"):
        table(nine, settings((0, "1Gi"), topology_manager_policy="restricted"))
    raised = settings(
        (0, "1Gi"),
        topology_manager_policy="restricted",
        topology_manager_policy_options={"max-allowable-numa-nodes": "9"},
    )
    assert len(table(nine, raised).numa_nodes) == 9


def test_closest_numa_nodes_need_distances():
    configuration = settings(
        (0, "1Gi"),
        topology_manager_policy="best-effort",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    )
    with pytest.raises(UsageError, match="NUMA node 0 does not give its distance to every other NUMA node"):
        table(TWO, configuration)
    zones = tuple(NumaNode(id=n, memory=4 * GIB, distances=(10, 20)) for n in (0, 1))
    assert table(NodeFacts(memory=8 * GIB, numa_nodes=zones), configuration).distances == {0: (10, 20), 1: (10, 20)}
