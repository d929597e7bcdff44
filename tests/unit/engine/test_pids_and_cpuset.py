"""pids.max of pods, kubepods and the reserved cgroups; cpuset.cpus that kubelets from 1.32 on give to kubepods."""

from dataclasses import replace

import pytest

from memqos.engine.answer.explain import knob_reasons
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.knob import ABSENT, MAX, Knob, Number, Text
from memqos.model.node import CgroupVersion, KubeletSettings
from tests.unit.engine.pods import NODE, amounts, container, pod

ONE = pod(container({"cpu": "1"}))
PIDS = replace(NODE, pids=15612)
RESERVED = KubeletSettings(
    system_reserved=amounts({"pid": "1000", "memory": "100Mi"}),
    kube_reserved=amounts({"pid": "612"}),
    system_reserved_cgroup="/sysres",
    kube_reserved_cgroup="/kuberes",
    enforce_node_allocatable=("pods", "system-reserved", "kube-reserved"),
)


def pids(plan):
    return {
        cgroup.path.name or "root": (str(one.written), str(one.value))
        for cgroup in plan.cgroups()
        if (one := cgroup.knobs.get(Knob.PIDS_MAX)) is not None
    }


@pytest.mark.parametrize("limit", [None, -1, 0])
def test_nothing_limits_pods(limit):
    plan = expect([ONE], Kubelet.of(node=NODE, settings=KubeletSettings(pod_pids_limit=limit), release="1.36"))
    assert pids(plan) == {}
    assert knob_reasons(plan, Knob.PIDS_MAX).startswith("pids.max is not planned: podPidsLimit limits no pod")


@pytest.mark.parametrize("version", [CgroupVersion.V1, CgroupVersion.V2])
@pytest.mark.parametrize("release", ["1.22", "1.34"])
def test_pod_pids_limit(version, release):
    settings = KubeletSettings(pod_pids_limit=1024, origin={"podPidsLimit": "k.yaml:4"})
    plan = expect([ONE], Kubelet.of(node=replace(NODE, cgroup_version=version), settings=settings, release=release))
    assert pids(plan) == {
        "burstable": ("absent", "max"), "besteffort": ("absent", "max"), "poduid-p": ("1024", "1024"),
    }  # fmt: skip
    [given] = plan.pods[0].cgroup.knobs[Knob.PIDS_MAX].reason.inputs
    assert (given.name, given.value, given.origin) == ("podPidsLimit", "1024", "k.yaml:4")
    # A container's pids.max is set by the runtime and systemd.
    assert Knob.PIDS_MAX not in plan.pods[0].containers[0].cgroup.knobs


def test_one_process_is_a_limit():
    plan = expect([ONE], Kubelet.of(node=NODE, settings=KubeletSettings(pod_pids_limit=1), release="1.36"))
    assert pids(plan)["poduid-p"] == ("1", "1")


def test_kubepods_has_the_allocatable():
    plan = expect([], Kubelet.of(node=PIDS, settings=RESERVED, release="1.36"))
    assert pids(plan)["kubepods"] == ("14000", "14000")
    assert plan.node.knobs[Knob.PIDS_MAX].reason.arithmetic == "15612 - 1000 - 612 = 14000"
    assert (pids(plan)["sysres"], pids(plan)["kuberes"]) == (("1000", "1000"), ("612", "612"))


def test_kubepods_has_the_capacity_where_pods_are_not_enforced():
    settings = replace(RESERVED, enforce_node_allocatable=("none",))
    plan = expect([], Kubelet.of(node=PIDS, settings=settings, release="1.36"))
    assert pids(plan)["kubepods"] == ("15612", "15612")
    assert plan.node.knobs[Knob.PIDS_MAX].reason.rule == (
        "pids.max is the node's capacity, since enforceNodeAllocatable does not contain pods"
    )


def test_a_recorded_kubelet_gave_kubepods_the_capacity():
    # kubepods.slice of the recorded trees: a machine with threads-max 15612 and nothing reserved.
    assert pids(expect([], Kubelet.of(node=PIDS, release="1.27")))["kubepods"] == ("15612", "15612")


def test_a_reservation_above_the_capacity():
    plan = expect([], Kubelet.of(node=replace(NODE, pids=100), settings=RESERVED, release="1.36"))
    # libcontainer writes 0 as 1: systemd rejects 0.
    assert plan.node.knobs[Knob.PIDS_MAX].written == Number(1)


def test_an_unknown_capacity():
    plan = expect([], Kubelet.of(node=NODE, settings=RESERVED, release="1.36"))
    assert "kubepods" not in pids(plan)
    assert pids(plan)["sysres"] == ("1000", "1000")


@pytest.mark.parametrize("release", ["1.32", "1.36"])
def test_compressible_keys_are_known_from_132_on(release):
    settings = replace(RESERVED, enforce_node_allocatable=("pods", "system-reserved-compressible"))
    assert [
        one.path.name for one in expect([], Kubelet.of(node=PIDS, settings=settings, release=release)).reserved
    ] == ["sysres"]


def test_compressible_keys_limit_no_pids():
    settings = replace(
        RESERVED, enforce_node_allocatable=("pods", "system-reserved-compressible", "kube-reserved-compressible")
    )
    plan = expect([], Kubelet.of(node=PIDS, settings=settings, release="1.36"))
    assert plan.reserved[0].knobs[Knob.PIDS_MAX].written is ABSENT
    assert plan.reserved[0].knobs[Knob.PIDS_MAX].value is MAX


@pytest.mark.parametrize(("release", "policy", "cpus", "text"), [
    ("1.31", None, 4, None),
    ("1.32", None, 4, "0-3"),
    ("1.36", "none", 1, "0"),
    ("1.36", "static", 4, None),
])  # fmt: skip
def test_cpus_of_kubepods_and_the_reserved_cgroups(release, policy, cpus, text):
    settings = replace(RESERVED, cpu_manager_policy=policy)
    plan = expect([ONE], Kubelet.of(node=replace(NODE, cpus=cpus), settings=settings, release=release))
    found = {
        cgroup.level.value: cgroup.knobs[Knob.CPUSET_CPUS].written
        for cgroup in plan.cgroups() if Knob.CPUSET_CPUS in cgroup.knobs
    }  # fmt: skip
    assert found == ({} if text is None else {"node": Text(text), "reserved": Text(text)})
    explained = knob_reasons(plan, Knob.CPUSET_CPUS)
    assert ("cpuset.cpus is all CPUs of the node" in explained) is (text is not None)
