"""Sharing among a plan's cgroups: it changes only the reasons."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.knob import Knob, Text
from memqos.model.node import CgroupVersion, NumaNode, SwapBehavior
from memqos.model.pod import CRITICAL_PRIORITY, ContainerKind, Pod
from tests.unit.engine.anything import FACTORS, PODS, POLICIES, RELEASES
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod, resources

NODES = st.sampled_from([NODE, replace(NODE, cgroup_version=CgroupVersion.V1), replace(NODE, swap_controller=False)])


def files(cgroup):
    return cgroup.path, cgroup.container, [(knob, one.written, one.value) for knob, one in cgroup.knobs.items()]


def asked(one):
    return [(own.name, own.kind, own.resources, own.oom_score_adj, files(own.cgroup)) for own in one.containers]


def shown(plan):
    """Everything but the reasons."""
    pods = [
        (one.name, one.uid, one.qos, files(one.cgroup), asked(one), one.sandbox_resources, one.sandbox_overhead)
        for one in plan.pods
    ]
    return [files(cgroup) for cgroup in plan.cgroups()], pods


@given(PODS, NODES, RELEASES, FACTORS, POLICIES)
def test_reasons_change_no_value(pods, node, release, factor, policy):
    policy = policy if node.cgroup_version is CgroupVersion.V2 else None
    settings = replace(ON, throttling_factor=factor, memory_reservation_policy=policy, fail_cgroup_v1=False)
    # The same pods again: their containers have the same requests.
    several = [*pods, *(replace(one, uid=f"other-{one.uid}", name=f"other-{one.name}") for one in pods)]
    explained, bare = (
        expect(several, Kubelet.of(node=node, settings=settings, release=release), reasons=reasons)
        for reasons in (True, False)
    )
    assert shown(bare) == shown(explained)


GATES = {"1.28": {"SidecarContainers": True}, "1.32": {"PodLevelResources": True}}
LIMITED = container({"memory": "1Gi", "cpu": "500m"}, {"memory": "2Gi"}, name="c")
SMALL = container({"memory": "10Mi"}, name="other")
SIDECAR = replace(SMALL, name="beside", kind=ContainerKind.SIDECAR)
ALIKE = {
    "the same": {},
    "another name for its container": {"containers": (replace(LIMITED, name="another"),)},
    "static": {"static": True},
    "critical": {"priority": CRITICAL_PRIORITY + 1000},
    "node critical": {"priority": CRITICAL_PRIORITY + 1000, "priority_class_name": "system-node-critical"},
    "a class that says nothing": {"priority_class_name": "system-node-critical"},
    "pod-level limits": {"resources": resources(limits={"memory": "3Gi", "cpu": "1"})},
    "pod-level requests": {"resources": resources({"memory": "3Gi"})},
    "overhead": {"overhead": amounts({"memory": "64Mi", "cpu": "250m"})},
    "a larger limit": {"containers": (container({"memory": "1Gi", "cpu": "500m"}, {"memory": "3Gi"}),)},
    "a request alone": {"containers": (container({"memory": "1Gi", "cpu": "500m"}),)},
    "Guaranteed": {"containers": (equal("500m", "1Gi"),)},
    "beside another": {"containers": (LIMITED, SMALL)},
    "behind a sidecar": {"init_containers": (replace(LIMITED, kind=ContainerKind.SIDECAR),)},
    "small, behind a small sidecar": {"init_containers": (SIDECAR,), "containers": (SMALL,)},
    "large, behind a small sidecar": {"init_containers": (SIDECAR,)},
    "behind an init container": {"init_containers": (replace(LIMITED, kind=ContainerKind.INIT),)},
    "with an ephemeral one": {"ephemeral_containers": (container(name="e", kind=ContainerKind.EPHEMERAL),)},
}


@pytest.mark.parametrize("release", ["1.22", "1.28", "1.32", "1.36", "1.37"])
@pytest.mark.parametrize("cgroups_per_qos", [True, False])
def test_pods_that_are_nearly_alike_are_planned_as_if_alone(release, cgroups_per_qos):
    """Each pod is planned as if alone on its node; only sums over pods differ."""
    settings = replace(
        ON,
        feature_gates={"MemoryQoS": True, "NodeSwap": True, **GATES.get(release, {})},
        cgroups_per_qos=cgroups_per_qos,
        swap_behavior=SwapBehavior.LIMITED,
        enforce_node_allocatable=(),
    )
    base = {"containers": (LIMITED,)}
    several = [
        Pod(name=f"p{number:02}", uid=f"u{number}", **{**base, **more}) for number, more in enumerate(ALIKE.values())
    ]
    together = expect(several, Kubelet.of(node=NODE, settings=settings, release=release), reasons=False)
    assert [one.name for one in together.pods] == [one.name for one in several]
    for one, planned in zip(several, together.pods, strict=True):
        alone = expect([one], Kubelet.of(node=NODE, settings=settings, release=release), reasons=False)
        assert shown(alone)[1] == shown(replace(together, pods=(planned,)))[1]


def test_pods_that_are_alike_share_their_plan():
    several = [pod(equal("1", memory), name=name) for name, memory in (("a", "1Gi"), ("b", "1Gi"), ("c", "2Gi"))]
    plan = expect(several, Kubelet.of(node=NODE, settings=ON, release="1.36"), reasons=False)
    files_of = [one.cgroup.knobs for one in plan.pods]
    assert files_of[0] is files_of[1]
    assert files_of[0] is not files_of[2]


@pytest.mark.parametrize("reasons", [True, False])
def test_equal_requests_with_different_numa_nodes_are_not_shared(reasons):
    """The Memory Manager's NUMA nodes are part of the request to the runtime."""
    node = replace(NODE, memory=4 << 30, numa_nodes=(NumaNode(id=0, memory=2 << 30), NumaNode(id=1, memory=2 << 30)))
    settings = replace(
        ON,
        memory_manager_policy="Static",
        topology_manager_policy="single-numa-node",
        eviction_hard={},
        system_reserved=amounts({"memory": "512Mi"}),
        reserved_memory=((0, amounts({"memory": "512Mi"})),),
    )
    two = [pod(equal("1", "1Gi"), name=name) for name in ("a", "b")]
    plan = expect(two, Kubelet.of(node=node, settings=settings, release="1.36"), reasons=reasons)
    assert [one.containers[0].resources.cpuset_mems for one in plan.pods] == ["0", "1"]
    assert [one.containers[0].cgroup.knobs[Knob.CPUSET_MEMS].written for one in plan.pods] == [Text("0"), Text("1")]
