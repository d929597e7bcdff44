"""What a plan shares among its cgroups: it differs from one with all reasons in the reasons alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.expect import expect
from memqos.model.knob import Knob, Text
from memqos.model.node import CgroupVersion, NumaZone
from tests.unit.engine.anything import FACTORS, PODS, POLICIES, RELEASES
from tests.unit.engine.pods import NODE, ON, amounts, equal, pod

NODES = st.sampled_from([NODE, replace(NODE, cgroup_version=CgroupVersion.V1), replace(NODE, swap_controller=False)])


def shown(plan):
    """Everything but the reasons."""
    return [
        (cgroup.path, cgroup.container, [(knob, one.written, one.value) for knob, one in cgroup.knobs.items()])
        for cgroup in plan.cgroups()
    ]


@given(PODS, NODES, RELEASES, FACTORS, POLICIES)
def test_reasons_change_no_value(pods, node, release, factor, policy):
    policy = policy if node.cgroup_version is CgroupVersion.V2 else None
    settings = replace(ON, throttling_factor=factor, memory_reservation_policy=policy, fail_cgroup_v1=False)
    # The same pods once more: their containers ask for the same.
    several = [*pods, *(replace(one, uid=f"other-{one.uid}", name=f"other-{one.name}") for one in pods)]
    explained, bare = (
        expect(several, node=node, settings=settings, release=release, reasons=reasons) for reasons in (True, False)
    )
    assert shown(bare) == shown(explained)


@pytest.mark.parametrize("reasons", [True, False])
def test_containers_that_ask_for_the_same_are_apart_where_their_zones_are(reasons):
    """The Memory Manager's zones are part of what the runtime is sent."""
    node = replace(NODE, memory=4 << 30, zones=(NumaZone(id=0, memory=2 << 30), NumaZone(id=1, memory=2 << 30)))
    settings = replace(
        ON,
        memory_manager_policy="Static",
        topology_manager_policy="single-numa-node",
        eviction_hard={},
        system_reserved=amounts({"memory": "512Mi"}),
        reserved_memory=((0, amounts({"memory": "512Mi"})),),
    )
    two = [pod(equal("1", "1Gi"), name=name) for name in ("a", "b")]
    plan = expect(two, node=node, settings=settings, release="1.36", reasons=reasons)
    assert [one.containers[0].resources.cpuset_mems for one in plan.pods] == ["0", "1"]
    assert [one.containers[0].cgroup.knobs[Knob.CPUSET_MEMS].written for one in plan.pods] == [Text("0"), Text("1")]
