from dataclasses import replace

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import plan_tree
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import table_after
from memqos.engine.numa.admit import admit, start
from memqos.engine.numa.policies import Policies
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.knob import ABSENT, Knob, Text
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, NumaNode
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import container, equal, pod

GI = 1 << 30
NODE = NodeFacts(
    memory=4 * GI, cpus=4, numa_nodes=tuple(NumaNode(id=one, memory=GI, distances=(10, 20, 20, 20)) for one in range(4))
)
STATIC = KubeletSettings(
    memory_manager_policy="Static",
    eviction_hard={},
    system_reserved={"memory": Quantity.parse("100Mi")},
    reserved_memory=((0, {"memory": Quantity.parse("100Mi")}),),
)


def planned(*pods, settings=STATIC, node=NODE, table=None):
    return expect(pods, Kubelet.of(node=node, settings=settings, release="1.36"), table=table)


def mems(plan):
    return {
        (pod.name, one.name): str(one.cgroup.knobs[Knob.CPUSET_MEMS].written)
        for pod in plan.pods for one in pod.containers
    }  # fmt: skip


def guaranteed(name, memory):
    return pod(equal("1", memory), name=name)


def test_containers_of_guaranteed_pods_are_pinned_and_others_not():
    plan = planned(guaranteed("a", "600Mi"), pod(container({"memory": "100Mi"}), name="b"))
    assert mems(plan) == {("a", "c"): "0", ("b", "c"): "absent"}
    first, second = (one.containers[0] for one in plan.pods)
    assert (first.resources.cpuset_mems, second.resources.cpuset_mems) == ("0", "")
    left = second.cgroup.knobs[Knob.CPUSET_MEMS]
    assert (left.written, left.value) == (ABSENT, Text(""))
    assert left.reason.rule.startswith("cpuset.mems is not written")
    pinned = first.cgroup.knobs[Knob.CPUSET_MEMS].reason
    assert (pinned.rule, pinned.revision) == (
        "cpuset.mems lists the NUMA nodes of the container's memory blocks, ascending.", "memory-manager v1.36",
    )  # fmt: skip


def test_the_order_of_pods_is_the_order_of_admission():
    """Each takes the first NUMA node with room: 924Mi in NUMA node 0, 1024Mi in the others."""
    one, other = guaranteed("a", "600Mi"), guaranteed("b", "500Mi")
    assert mems(planned(one, other)) == {("a", "c"): "0", ("b", "c"): "1"}
    assert mems(planned(other, one)) == {("b", "c"): "0", ("a", "c"): "1"}


def test_an_ended_pod_frees_its_numa_node():
    """600Mi each, in the first of four NUMA nodes with room; a refused pod holds nothing."""
    one, two, huge = guaranteed("a", "600Mi"), guaranteed("b", "600Mi"), guaranteed("huge", "5Gi")
    kubelet = Kubelet.of(node=NODE, settings=STATIC, release="1.36")

    def after(*ended):
        return table_after([one, huge, two], kubelet, ended=[pod.uid for pod in ended])

    assert mems(planned(two, table=after(one))) == {("b", "c"): "1"}
    assert mems(planned(two, guaranteed("next", "600Mi"), table=after(one))) == {("b", "c"): "1", ("next", "c"): "0"}
    assert [zone.assignments for zone in after().numa_nodes.values()] == [1, 1, 0, 0]
    assert [zone.assignments for zone in after(one, two, huge).numa_nodes.values()] == [0, 0, 0, 0]


def test_several_numa_nodes_read_as_a_range():
    """3Gi need NUMA nodes 1 to 3 (node 0 reserves 100Mi); the message lists them, the kernel shows a range."""
    plan = planned(guaranteed("wide", "3Gi"))
    own = plan.pods[0].containers[0]
    assert own.resources.cpuset_mems == "1,2,3"
    assert (own.cgroup.knobs[Knob.CPUSET_MEMS].written, own.cgroup.knobs[Knob.CPUSET_MEMS].value) == (
        Text("1,2,3"), Text("1-3"),
    )  # fmt: skip


SINGLE = replace(STATIC, topology_manager_policy="single-numa-node")


def test_a_refused_pod_is_not_in_the_plan():
    settings = replace(SINGLE, feature_gates={"MemoryQoS": True})
    plan = planned(guaranteed("big", "2Gi"), guaranteed("small", "1Gi"), settings=settings)
    assert [one.name for one in plan.pods] == ["small"]
    [refusal] = plan.refusals
    assert (refusal.pod, refusal.name, refusal.reason_name) == ("uid-big", "default/big", "TopologyAffinityError")
    # Its requests do not count in the sums above.
    tiered = replace(settings, throttling_factor=None)
    [alone] = [planned(guaranteed("small", "1Gi"), settings=tiered).node]
    assert plan.node.knobs == alone.knobs
    [shown] = plan_document(plan)["refusals"]
    assert (shown["name"], shown["reason_name"]) == ("default/big", "TopologyAffinityError")
    assert "pod default/big is refused: TopologyAffinityError: Resources cannot be" in plan_tree(plan)


def test_held_memory_stays():
    policies = Policies.of(STATIC, Release.parse("1.36"))
    table = admit(guaranteed("a", "900Mi"), table=start(NODE, STATIC, policies), policies=policies).table
    pods = guaranteed("b", "500Mi"), guaranteed("a", "900Mi")
    assert mems(planned(*pods)) == {("b", "c"): "0", ("a", "c"): "1"}
    assert mems(planned(*pods, table=table)) == {("a", "c"): "0", ("b", "c"): "1"}


@pytest.mark.parametrize("settings", [KubeletSettings(), replace(STATIC, memory_manager_policy="None")])
def test_without_the_policy_no_numa_nodes_are_planned(settings):
    plan = planned(guaranteed("a", "9Gi"), settings=settings)
    own = plan.pods[0].containers[0]
    assert Knob.CPUSET_MEMS not in own.cgroup.knobs
    assert (own.resources.cpuset_mems, plan.refusals) == ("", ())


def test_only_containers_have_the_knob():
    plan = planned(guaranteed("a", "600Mi"))
    assert [one.level for one in plan.cgroups() if Knob.CPUSET_MEMS in one.knobs] == ["container"]


def test_cgroup_v1_copies_the_parents_numa_nodes():
    on = replace(STATIC, fail_cgroup_v1=False)
    plan = planned(guaranteed("a", "600Mi"), pod(container({"memory": "1Mi"}), name="b"), settings=on,
                   node=replace(NODE, cgroup_version=CgroupVersion.V1))  # fmt: skip
    found = {one.name: one.containers[0] for one in plan.pods}
    assert found["a"].resources.cpuset_mems == "0"
    knobs = {name: one.cgroup.knobs[Knob.CPUSET_MEMS] for name, one in found.items()}
    assert {name: (str(one.written), str(one.value)) for name, one in knobs.items()} == {
        "a": ("0", "0"), "b": ("absent", "0-3"),
    }  # fmt: skip


def test_a_reservation_that_does_not_add_up():
    with pytest.raises(ManifestError, match=r"the NUMA nodes reserve 100Mi .* the node reserves 200Mi"):
        planned(settings=replace(STATIC, kube_reserved={"memory": Quantity.parse("100Mi")}))
