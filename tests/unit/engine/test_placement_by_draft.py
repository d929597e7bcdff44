"""Placement by the Memory Manager's draft of 2020, compared with kubelets, from the same configuration."""

from dataclasses import replace

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.admit import start
from memqos.engine.numa.policies import Policies
from memqos.engine.releases.release import Release, Variant
from memqos.errors import ManifestError, UsageError
from memqos.model.knob import ABSENT, Knob
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import container, equal, pod

GI = 1 << 30
NODE = NodeFacts(
    memory=2 * GI, cpus=2, numa_nodes=tuple(NumaNode(id=one, memory=GI, distances=(10, 20)) for one in (0, 1))
)
LIKE = ((0, {"memory": Quantity.parse("130Mi")}), (1, {"memory": Quantity.parse("130Mi")}))
STATIC = KubeletSettings(
    memory_manager_policy="Static",
    topology_manager_policy="single-numa-node",
    system_reserved={"memory": Quantity.parse("160Mi")},
    reserved_memory=LIKE,
)


def planned(*pods, variant=Variant.DRAFT, settings=STATIC, node=NODE, **more):
    return expect(pods, Kubelet.of(node=node, settings=settings, release="1.36", variant=variant), **more)


def mems(plan):
    return {
        (pod.name, one.name): str(one.cgroup.knobs[Knob.CPUSET_MEMS].written)
        for pod in plan.pods for one in pod.containers
    }  # fmt: skip


def mems_planned(plan):
    return {cgroup.container for cgroup in plan.cgroups() if Knob.CPUSET_MEMS in cgroup.knobs}


def behind(init, app, name="p"):
    """A Guaranteed pod of an init and an app container."""
    first = replace(equal("1", init), name="i", kind=ContainerKind.INIT)
    return pod(equal("1", app), name=name, init_containers=(first,))


def alone(name, memory):
    return pod(equal("1", memory), name=name)


def test_an_init_containers_memory_is_not_used_again():
    own = behind("500Mi", "500Mi")
    assert mems(planned(own, variant=Variant.SHIPPED)) == {("p", "i"): "0", ("p", "c"): "0"}
    assert mems(planned(own)) == {("p", "i"): "0", ("p", "c"): "1"}
    [placed] = planned(own).pods
    assert [one.resources.cpuset_mems for one in placed.containers] == ["0", "1"]
    reason = placed.containers[1].cgroup.knobs[Knob.CPUSET_MEMS].reason
    assert reason.revision == "memory-manager draft 2020"
    assert reason.arithmetic == (
        "NUMA node 0: 937426944 - 524288000 > 524288000 of memory does not hold; "
        "NUMA node 1: 937426944 - 0 > 524288000 of memory holds"
    )


def test_everything_else_is_as_shipped():
    plans = [planned(behind("100Mi", "500Mi"), variant=variant) for variant in (Variant.SHIPPED, Variant.DRAFT)]
    values = [[(knob, one.value) for cgroup in plan.cgroups() for knob, one in cgroup.knobs.items()] for plan in plans]
    assert values[0] == values[1]
    shipped, drafted = (dict(plan.revisions) for plan in plans)
    assert drafted == shipped | {"memory-manager": "memory-manager draft 2020"}
    assert shipped["memory-qos"] == "memory-qos v1.36 shipped"


def test_an_exact_fit_and_a_pod_larger_than_a_numa_node_are_refused():
    for memory in ("894Mi", "1Gi"):
        [refusal] = planned(alone("a", memory)).refusals
        assert (refusal.name, refusal.reason_name) == ("default/a", "TopologyAffinityError")
        assert refusal.reason.revision == "memory-manager draft 2020"
    spread = replace(STATIC, topology_manager_policy=None)
    assert mems(planned(alone("a", "1Gi"), variant=Variant.SHIPPED, settings=spread)) == {("a", "c"): "0,1"}
    assert planned(alone("a", "1Gi"), settings=spread).pods == ()
    assert mems(planned(alone("a", "894Mi"), variant=Variant.SHIPPED)) == {("a", "c"): "0"}


def test_admitted_pods_use_memory_and_refused_ones_do_not():
    plan = planned(alone("a", "500Mi"), alone("b", "1Gi"), alone("c", "500Mi"), alone("d", "500Mi"))
    assert mems(plan) == {("a", "c"): "0", ("c", "c"): "1"}
    assert [one.name for one in plan.refusals] == ["default/b", "default/d"]


def test_a_pod_without_room_on_the_node_holds_nothing():
    busy = pod(equal("5", "500Mi"), name="busy")
    plan = planned(busy, alone("a", "500Mi"), alone("b", "100Mi"), fit=True)
    assert (mems(plan), [one.name for one in plan.refusals]) == (
        {("a", "c"): "0", ("b", "c"): "0"}, ["default/busy"],
    )  # fmt: skip


def test_other_pods_are_not_placed_and_have_a_reason():
    [own] = planned(pod(container({"memory": "100Mi"}), name="b")).pods
    left = own.containers[0].cgroup.knobs[Knob.CPUSET_MEMS]
    assert left.written is ABSENT
    assert (
        left.reason.rule == "cpuset.mems is not written: only containers of Guaranteed pods are placed on a NUMA node."
    )


def test_without_the_policy_static_nothing_is_placed():
    off = replace(STATIC, memory_manager_policy=None)
    assert mems_planned(planned(alone("a", "1Gi"), settings=off)) == set()


def test_a_machine_without_numa_facts_is_one_numa_node():
    one = replace(STATIC, reserved_memory=((0, {"memory": Quantity.parse("260Mi")}),))
    assert mems(planned(alone("a", "1Gi"), settings=one, node=NodeFacts(memory=2 * GI, cpus=2))) == {("a", "c"): "0"}


def test_the_safety_zone_is_optional():
    assert mems(planned(alone("a", "1023Mi"), settings=replace(STATIC, reserved_memory=None))) == {("a", "c"): "0"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reserved_memory": LIKE[:1]}, "is the same in every NUMA node, not 130Mi in NUMA node 0, 0 in NUMA node 1"),
        ({"reserved_memory": ((7, {"memory": Quantity.parse("1Mi")}),)}, "there is no NUMA node 7"),
        ({"reserved_memory": ((0, {"hugepages-2Mi": Quantity.parse("2Mi")}),)}, "has no huge pages"),
        ({"reserved_memory": ((0, {"cpu": Quantity.parse("1")}),)}, "'cpu' of NUMA node 0 is not a type of memory"),
        ({"topology_manager_scope": "pod"}, "container by container, and has no scope 'pod'"),
        ({"topology_manager_policy": "restricted"}, "requires single-numa-node, not 'restricted'"),
    ],
)
def test_configurations_that_the_draft_does_not_support(changes, says):
    with pytest.raises(ManifestError, match=says):
        planned(alone("a", "1Mi"), settings=replace(STATIC, **changes))


def test_an_entry_without_limits_reserves_nothing():
    assert planned(alone("a", "1Mi"), settings=replace(STATIC, reserved_memory=((0, {}),))).pods


def test_a_safety_zone_above_the_reservation_is_refused():
    more = tuple((zone, {"memory": Quantity.parse("131Mi")}) for zone in (0, 1))
    with pytest.raises(UsageError, match="must be from 0 to the 260Mi that the node reserves"):
        planned(alone("a", "1Mi"), settings=replace(STATIC, reserved_memory=more))


def test_the_draft_rejects_a_kubelets_table():
    table = start(NODE, STATIC, Policies.of(STATIC, Release.parse("1.36")))
    with pytest.raises(UsageError, match="cannot start from a kubelet's table"):
        planned(alone("a", "1Mi"), table=table)


def test_the_document_has_the_variant_draft():
    assert plan_document(planned(alone("a", "1Mi")))["variant"] == "draft"
