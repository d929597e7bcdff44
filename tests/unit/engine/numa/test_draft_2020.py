"""The draft of 2020, with the numbers of its own text."""

import pytest

from memqos.engine.numa.draft_2020 import DraftAdmitted, affinity, draft_admit, draft_start
from memqos.engine.plan import Refusal
from memqos.errors import UsageError
from memqos.model.node import NodeFacts, NumaNode
from memqos.model.pod import Container, QosClass, Resources
from tests.unit.engine.numa.builders import GIB, MIB, amounts, container, init, plain, pod

SOCKETS = NodeFacts(memory=80 * GIB, numa_nodes=tuple(NumaNode(id=n, memory=40 * GIB) for n in (0, 1)))


def node(safety=5 * GIB, facts=SOCKETS):
    return draft_start(facts, safety_zone=safety, node_reservation=10 * GIB)


def admitted(table, own, qos=QosClass.GUARANTEED):
    found = draft_admit(own, qos=qos, table=table)
    assert isinstance(found, DraftAdmitted)
    return found


def test_allocatable_is_the_total_less_the_safety_zone():
    assert [(zone.id, zone.allocatable) for zone in node().numa_nodes.values()] == [
        (0, {"memory": 35 * GIB}),
        (1, {"memory": 35 * GIB}),
    ]


def test_huge_pages_come_off_memory_and_have_no_safety_zone():
    facts = NodeFacts(
        memory=40 * GIB, numa_nodes=(NumaNode(id=0, memory=40 * GIB, hugepages={1 << 30: 4, 2 * MIB: 512}),)
    )
    assert node(facts=facts).numa_nodes[0].allocatable == {
        "memory": 30 * GIB,
        "hugepages-1Gi": 4 * GIB,
        "hugepages-2Mi": GIB,
    }


@pytest.mark.parametrize("safety", [5 * GIB + 1, -1])
def test_safety_zones_are_within_the_nodes_reservation(safety):
    with pytest.raises(UsageError, match=r"in 2 NUMA nodes makes .* must be from 0 to the 10Gi that the node reserves"):
        node(safety)


def test_the_safety_zone_is_optional():
    assert node(0).numa_nodes[0].allocatable == {"memory": 40 * GIB}


def test_a_safety_zone_must_fit():
    small = NodeFacts(memory=GIB, numa_nodes=(NumaNode(id=0, memory=GIB),))
    with pytest.raises(UsageError, match="NUMA node 0 has 1Gi, which its huge pages and the safety zone exceed"):
        node(2 * GIB, small)


def test_an_exact_fit_is_refused():
    """More must be free than requested, unlike in every release."""
    assert affinity(node(), {"memory": 35 * GIB}) == ()
    assert affinity(node(), {"memory": 35 * GIB - 1}) == (0, 1)
    assert affinity(node(), {"memory": 0, "hugepages-1Gi": 0}) == ()


def test_reserved_memory_is_not_free():
    first = admitted(node(), plain("p", "30Gi"))
    assert first.cpuset_mems == {"c0": "0"}
    assert first.table.numa_nodes[0].reserved == {"memory": 30 * GIB}
    second = admitted(first.table, plain("q", "10Gi"))
    assert second.cpuset_mems == {"c0": "1"}


def test_a_container_never_spans_numa_nodes():
    found = draft_admit(plain("p", "1Gi", "36Gi"), qos=QosClass.GUARANTEED, table=node())
    assert isinstance(found, Refusal)
    assert found.reason_name == "TopologyAffinityError"
    assert found.reason.arithmetic == (
        "NUMA node 0: 37580963840 - 1073741824 > 38654705664 of memory does not hold; "
        "NUMA node 1: 37580963840 - 0 > 38654705664 of memory does not hold"
    )


def test_only_guaranteed_pods_are_placed():
    table = node()
    found = admitted(table, pod("p", container("c", "1Gi", limit="2Gi")), QosClass.BURSTABLE)
    assert (found.table, found.cpuset_mems) == (table, {})
    assert [(name, reason.inputs[0].value) for name, reason in found.reasons.items()] == [("c", "Burstable")]


def test_every_container_counts_and_huge_pages_too():
    facts = NodeFacts(memory=40 * GIB, numa_nodes=(NumaNode(id=3, memory=40 * GIB, hugepages={2 * MIB: 8}),))
    own = pod("p", init("i", "1Gi"), container("c", "1Gi", hugepages_2Mi="8Mi"), container("d"))
    found = admitted(node(facts=facts), own)
    assert found.cpuset_mems == {"i": "3", "c": "3", "d": "3"}
    assert found.table.numa_nodes[3].reserved == {"memory": 2 * GIB, "hugepages-2Mi": 8 * MIB}
    assert found.reasons["c"].arithmetic.endswith("NUMA node 3: 16777216 - 0 > 8388608 of hugepages-2Mi holds")
    assert found.table.assignments["p"]["d"] == (3, {"memory": 0})


def test_huge_pages_that_no_numa_node_has():
    resources = amounts(cpu="1", memory="1Gi", **{"hugepages-2Mi": "2Mi"})
    own = pod("p", Container(name="c", resources=Resources(requests=resources, limits=resources)))
    found = draft_admit(own, qos=QosClass.GUARANTEED, table=node())
    assert isinstance(found, Refusal)
    assert "NUMA node 0: 0 - 0 > 2097152 of hugepages-2Mi does not hold" in found.reason.arithmetic
