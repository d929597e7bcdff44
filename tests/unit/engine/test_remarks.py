"""Remarks on a plan: assumptions, unread input, problems on a real node."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NodeFacts,
    ReservationPolicy,
    SettingsNote,
)
from memqos.model.pod import Resources
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import NODE, amounts, container, pod


def plan_of(*pods, release="1.36", node=NODE, **settings):
    return expect(pods, Kubelet.of(node=node, release=release, settings=KubeletSettings(**settings)))


def told(*pods, **more):
    return [(one.about, one.origin, one.what) for one in plan_of(*pods, **more).remarks]


def test_defaults_have_no_remark():
    assert told(pod(container({}, {"memory": "512Mi"}, name="app"))) == []


def test_notes_of_a_configuration_are_passed_on():
    note = SettingsNote("--frobnicate", "flags.txt:1", "memqos does not know it")
    assert told(notes=(note,)) == [("--frobnicate", "flags.txt:1", "memqos does not know it")]


@pytest.mark.parametrize(("release", "says"), [
    ("1.27", "the kubelet of 1.27 has no --config-dir, which came with 1.28"),
    ("1.29", "only with KUBELET_CONFIG_DROPIN_DIR_ALPHA in its environment"),
    ("1.30", ""),
])  # fmt: skip
def test_drop_ins_by_release(release, says):
    found = told(release=release, drop_ins=("10-user.conf",))
    assert len(found) == bool(says)
    assert all(says in what and origin == "10-user.conf" for _, origin, what in found)


@pytest.mark.parametrize(("name", "says"), [
    ("FooBar", '"unrecognized feature gate: FooBar")'),
    ("PodLevelResource", "did you mean 'PodLevelResources'?"),
])  # fmt: skip
def test_unknown_gates(name, says):
    [(about, origin, what)] = told(feature_gates={name: True}, origin={f"featureGates.{name}": "k.yaml:4"})
    assert (about, origin) == (f"featureGates.{name}", "k.yaml:4")
    assert says in what


def test_unrelated_gates_have_no_remark():
    assert told(feature_gates={"RotateKubeletServerCertificate": True, "AllAlpha": False, "MemoryQoS": False}) == []


def test_a_factor_without_its_gate():
    factor = {"throttling_factor": Fraction(9, 10), "origin": {"memoryThrottlingFactor": "k.yaml:3"}}
    [(about, origin, what)] = told(release="1.34", **factor)
    assert (about, origin) == ("memoryThrottlingFactor", "k.yaml:3")
    assert what == "the factor has no effect: MemoryQoS is off (1.34), so no memory.high is written"
    assert told(release="1.34", feature_gates={"MemoryQoS": True}, **factor) == []
    assert told(release="1.34", effective=True, **factor) == []
    v1 = replace(NODE, cgroup_version=CgroupVersion.V1)
    [(_, _, what)] = told(release="1.34", node=v1, feature_gates={"MemoryQoS": True}, **factor)
    assert "MemoryQoS does nothing on cgroup v1" in what


def test_reserved_cgroups_must_exist():
    found = told(
        enforce_node_allocatable=("pods", "kube-reserved"),
        kube_reserved=amounts({"memory": "1Gi"}),
        kube_reserved_cgroup="/runtime",
        system_reserved_cgroup="/system",
        origin={"kubeReservedCgroup": "k.yaml:9"},
    )
    assert found == [(
        "kubeReservedCgroup",
        "k.yaml:9",
        "the kubelet does not create /runtime, and does not start without it: it must exist beforehand",
    )]  # fmt: skip


def test_reserved_cgroups_have_the_path_that_systemd_gives_them():
    found = told(
        cgroup_driver=CgroupDriver.SYSTEMD,
        enforce_node_allocatable=("pods", "kube-reserved", "system-reserved"),
        kube_reserved=amounts({"memory": "1Gi"}),
        kube_reserved_cgroup="/system.slice/kubelet.service",
        system_reserved=amounts({"memory": "1Gi"}),
        system_reserved_cgroup="/system",
    )
    assert [what.partition(",")[0] for _, _, what in found] == [
        "the kubelet does not create /system.slice",
        "the kubelet does not create /kubelet.service.slice",
    ]


def test_the_root_must_exist():
    origin = {"cgroupRoot": "k.yaml:4"}
    [found] = told(cgroup_root="/kubelet", origin=origin)
    assert found == (
        "cgroupRoot", "k.yaml:4",
        "the kubelet does not create /kubelet, and does not start without it: it must exist beforehand",
    )  # fmt: skip
    [(_, _, what)] = told(cgroup_root="/kubelet/", cgroup_driver=CgroupDriver.SYSTEMD)
    assert what == "the kubelet does not create /kubelet.slice, and does not start without it: it must exist beforehand"
    [(_, _, what)] = told(cgroup_root="/pods.slice", cgroup_driver=CgroupDriver.SYSTEMD)
    assert what == (
        "the kubelet does not create /pods.slice.slice, and does not start without it: it must exist beforehand; "
        "cgroupRoot names a slice without its ending"
    )
    [(_, _, what)] = told(cgroup_root="/pods.slice")
    assert what.startswith("the kubelet does not create /pods.slice, ")
    assert what.endswith("beforehand")
    assert told(cgroup_root="/") == told(cgroup_root="") == []
    assert told(cgroup_root="/kubelet", cgroups_per_qos=False, enforce_node_allocatable=()) == []


def test_limits_too_small_to_start():
    small = pod(container({}, {"memory": "128m"}, name="app"))
    [(about, _, what)] = told(small)
    assert about.startswith("limits.memory of container app of pod default/")
    assert what == ("128m is 1 byte: no container starts with so little; m means thousandths of a byte, Mi is meant")
    [(_, _, what)] = told(pod(container({}, {"memory": "512k"}, name="app")))
    assert what == "512k is 512000 bytes: no container starts with so little"
    assert told(pod(container({}, {"memory": "1Mi"}, name="app"))) == []
    level = replace(
        pod(container(name="app")),
        resources=Resources(limits=amounts({"memory": "256m"})),
        origin={"resources.limits.memory": "pods.yaml:7"},
    )
    assert [found[:2] for found in told(level)] == [(f"limits.memory of pod default/{level.name}", "pods.yaml:7")]
    assert told(level, release="1.31")[:1] == []


def node_of(**allocatable):
    offered = {name: Quantity.parse(amount) for name, amount in allocatable.items()}
    return NodeFacts(memory=8039796 << 10, cpus=4, allocatable=offered, origin="node.json")


def test_a_node_with_this_configuration():
    settings = {"kube_reserved": amounts({"cpu": "70m", "memory": "1Gi"})}
    assert told(node=node_of(cpu="3930m", memory="6888820Ki"), **settings) == []
    assert told(node=node_of(memory="6888820Ki"), **settings) == []
    huge = {"cpu": "3930m", "memory": "5840244Ki", "hugepages-2Mi": "1Gi"}
    assert told(node=node_of(**huge), **settings) == []


def test_a_node_with_another_configuration():
    [(about, origin, what)] = told(node=node_of(cpu="4", memory="6888564Ki"), kube_reserved=amounts({"memory": "1Gi"}))
    assert (about, origin) == ("status.allocatable.memory", "node.json")
    assert what.startswith("the Node reports 6888564Ki, this configuration leaves 6888820Ki: the node runs with")


def test_the_amount_that_is_left_has_the_unit_of_the_node():
    [(_, _, what)] = told(node=node_of(memory="6888564Ki"), kube_reserved=amounts({"memory": "1G"}))
    assert what.startswith("the Node reports 6888564Ki, this configuration leaves 7127893504: the node runs with")
    [(_, _, what)] = told(node=node_of(memory="7053889536"), kube_reserved=amounts({"memory": "1Gi"}))
    assert what.startswith("the Node reports 7053889536, this configuration leaves 7054151680: the node runs with")


@pytest.mark.parametrize(("kernel", "is_old"), [
    ("5.10.225-213.878.amzn2.x86_64", True),
    ("4.18.0-553.el8_10.x86_64", True),
    ("3.10.0-1160.el7.x86_64", True),
    ("5.4.0-1103-azure", True),
    ("4.19.112+", True),
    ("6.1.115-126.197.amzn2023.x86_64", False),
    ("5.14.0-427.50.1.el9_4.x86_64", False),
    ("5.15.0-1089-azure", False),
    ("", False),
])  # fmt: skip
def test_the_cgroup_version_of_a_node_with_an_old_kernel(kernel, is_old):
    node = replace(node_of(cpu="4"), kernel=kernel)
    found = told(release="1.34", node=node)
    assert [about for about, _, _ in found] == (["status.nodeInfo.kernelVersion"] if is_old else [])
    assert all(what.endswith("v2 is assumed; --cgroup v1 plans the files of v1") for _, _, what in found)
    assert told(release="1.34", node=replace(node, cgroup_version=CgroupVersion.V1)) == []
    assert told(release="1.34", node=replace(node, allocatable=None)) == []
    # The kubelet of 1.35 does not start on v1 unless failCgroupV1 is false.
    assert told(release="1.35", node=node) == []
    assert len(told(release="1.35", node=node, fail_cgroup_v1=False)) == is_old


def claiming(*names):
    return replace(pod(container(name="app")), claims=names)


def test_counted_claims_are_named_and_not_planned():
    gate = {"feature_gates": {"DRANodeAllocatableResources": True}}
    claims = claiming("gpu", "gpu-x7 (memory 2Gi)")
    plan = plan_of(claims, claiming(), release="1.37", **gate)
    assert list(plan.unmodelled) == [claims.uid]
    assert plan.has(claims.uid)
    assert not plan.has("another")
    assert plan.unmodelled[claims.uid].startswith("the pod has resource claims (gpu, gpu-x7 (memory 2Gi)): with the")
    assert plan.unmodelled[claims.uid] in [one.what for one in plan.remarks]
    assert plan_of(claims, release="1.37", feature_gates={"AllAlpha": True}).unmodelled


def test_claims_that_do_not_count():
    plan = plan_of(claiming("gpu"), release="1.37")
    assert plan.unmodelled == {}
    assert "do not count in its cgroups: the feature gate DRANodeAllocatableResources is off" in plan.remarks[0].what
    gate = {"feature_gates": {"DRANodeAllocatableResources": True}}
    assert plan_of(claiming("gpu"), release="1.36", **gate).unmodelled == {}
    assert told(claiming("gpu"), release="1.36") == []


def test_a_factor_with_the_gate_off_from_137_on():
    """k#140007: the former default passes, with any other factor the kubelet does not start."""
    off = {"feature_gates": {"MemoryQoS": False}, "release": "1.37"}
    [remark] = plan_of(throttling_factor=Fraction("0.90"), **off).remarks
    assert "no effect" in remark.what
    assert plan_of(memory_reservation_policy=ReservationPolicy.NONE, **off).remarks == ()


@pytest.mark.parametrize("gate", ["InPlacePodVerticalScalingMemoryBackedVolumes", "AllAlpha"])
def test_resizes_of_volumes_are_not_modelled(gate):
    told_ = [
        one.what
        for one in plan_of(release="1.37", feature_gates={gate: True}).remarks
        if one.about == f"featureGates.{gate}"
    ]
    assert [text.partition(". ")[0] for text in told_] == ["resizes of memory-backed volumes are not modelled"]
    assert told(release="1.37", feature_gates={gate: False}) == []
