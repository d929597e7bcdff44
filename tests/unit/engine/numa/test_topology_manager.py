"""The decision of each policy."""

import pytest

from memqos.engine.numa.policies import TopologyPolicy
from memqos.engine.numa.topology_manager import Hint, Mask, Merger, TopologyDecision, topology_decision

TWO = Merger(numa_nodes=Mask.of([0, 1]))
ONE = Merger(numa_nodes=Mask.of([0]))


def hint(zones, *, preferred=True):
    return Hint(None if zones is None else Mask.of(zones), preferred)


WIDE = {"memory": [hint([0, 1])]}
NARROW = {"memory": [hint([0]), hint([1]), hint([0, 1], preferred=False)]}
IMPOSSIBLE = {"memory": []}
OTHER_ZONE = {"cpu": [hint([1])]}


@pytest.mark.parametrize(
    ("policy", "providers", "affinity", "preferred", "admitted"),
    [
        ("none", [IMPOSSIBLE], None, False, True),
        ("best-effort", [NARROW], [0], True, True),
        ("best-effort", [WIDE], [0, 1], True, True),
        ("best-effort", [IMPOSSIBLE], [0, 1], False, True),
        ("best-effort", [WIDE, OTHER_ZONE], [1], False, True),
        ("best-effort", [None], [0, 1], True, True),
        ("restricted", [NARROW, OTHER_ZONE], [1], True, True),
        ("restricted", [WIDE, OTHER_ZONE], [1], False, False),
        ("restricted", [IMPOSSIBLE], [0, 1], False, False),
        ("single-numa-node", [NARROW], [0], True, True),
        ("single-numa-node", [NARROW, OTHER_ZONE], [1], True, True),
        ("single-numa-node", [WIDE], None, False, False),
        ("single-numa-node", [None, {}], None, True, True),
        ("single-numa-node", [IMPOSSIBLE], None, False, False),
    ],
)
def test_policies_decide(policy, providers, affinity, preferred, admitted):
    assert topology_decision(TopologyPolicy(policy), providers, TWO) == TopologyDecision(
        hint(affinity, preferred=preferred), admitted
    )


def test_on_one_numa_node_single_numa_node_gives_no_affinity():
    assert topology_decision(TopologyPolicy.SINGLE_NUMA_NODE, [{"memory": [hint([0])]}], ONE) == TopologyDecision(
        hint(None), admitted=True
    )
    assert topology_decision(TopologyPolicy.RESTRICTED, [{"memory": [hint([0])]}], ONE) == TopologyDecision(
        hint([0]), admitted=True
    )
