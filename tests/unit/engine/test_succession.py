"""Leftovers of disabling, upgrading and rolling back, by release."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.answer.succession import is_kept, succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.knob import ABSENT, MAX, Bytes, Knob
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.quantity import Quantity
from tests.unit.engine.leaving import left_behind
from tests.unit.engine.pods import container, equal, pod

MI = 1 << 20
NODE = NodeFacts(memory=4096 * MI, cpus=2)
ON = KubeletSettings(feature_gates={"MemoryQoS": True}, throttling_factor=Fraction(9, 10))
OFF = KubeletSettings(feature_gates={"MemoryQoS": False})
GATE_OFF = {"feature_gates": {"MemoryQoS": False}, "memory_reservation_policy": None}
TIERED = replace(ON, memory_reservation_policy=ReservationPolicy.TIERED)
PODS = (
    pod(container({"memory": "64Mi"}, {"memory": "200Mi"}), name="b"),
    pod(equal("100m", "64Mi"), name="g"),
)
HIGH = (64 * MI + int((200 - 64) * MI * 0.9)) // 4096 * 4096


def planned(settings, release, pods=PODS, *, reasons=True):
    return expect(pods, Kubelet.of(node=NODE, settings=settings, release=release), reasons=reasons)


def left(before, after, **more):
    return {
        (cgroup.level.value, cgroup.pod or cgroup.path.name, expected.knob.value): str(expected.value)
        for cgroup, expected in left_behind(before, after, **more)
    }


IN_PODS_TIERED = {
    ("pod", "uid-b", "memory.low"): str(64 * MI),
    ("container", "uid-b", "memory.low"): str(64 * MI),
    ("pod", "uid-g", "memory.min"): str(64 * MI),
    ("container", "uid-g", "memory.min"): str(64 * MI),
}
CONTAINER_HIGH = {("container", "uid-b", "memory.high"): str(HIGH)}


def test_disabling_leaves_everything_up_to_135():
    for release in ("1.27", "1.35"):
        assert left(planned(ON, release), planned(OFF, release)) == CONTAINER_HIGH | {
            ("node", "kubepods", "memory.min"): str(128 * MI),
            ("qos", "burstable", "memory.min"): str(64 * MI),
            ("pod", "uid-b", "memory.min"): str(64 * MI),
            ("container", "uid-b", "memory.min"): str(64 * MI),
            ("pod", "uid-g", "memory.min"): str(64 * MI),
            ("container", "uid-g", "memory.min"): str(64 * MI),
        }


def test_disabling_leaves_everything_in_136():
    assert left(planned(TIERED, "1.36"), planned(OFF, "1.36")) == IN_PODS_TIERED | CONTAINER_HIGH | {
        ("node", "kubepods", "memory.min"): str(128 * MI),
        ("qos", "burstable", "memory.low"): str(64 * MI),
    }


def test_the_policy_none_of_136_writes_zeros_above_the_pods():
    assert left(planned(TIERED, "1.36"), planned(ON, "1.36")) == IN_PODS_TIERED


def test_disabling_resets_the_levels_above_the_pods_in_137():
    assert left(planned(TIERED, "1.37"), planned(OFF, "1.37")) == IN_PODS_TIERED | CONTAINER_HIGH


def test_a_recreated_container_is_planned_anew():
    before, after = planned(TIERED, "1.37"), planned(OFF, "1.37")
    remade = {("uid-b", "c"), ("uid-g", "c")}
    assert left(before, after, remade=remade) == {
        ("pod", "uid-b", "memory.low"): str(64 * MI),
        ("pod", "uid-g", "memory.min"): str(64 * MI),
    }
    [burstable, _] = succession(before, after, remade=remade).pods
    assert burstable.containers[0].cgroup.knobs[Knob.MEMORY_HIGH].written is MAX


def test_upgrading_leaves_a_stale_minimum_on_burstable():
    """1.35 protected Burstable pods with memory.min, which 1.36 no longer writes."""
    found = left(planned(ON, "1.35"), planned(TIERED, "1.36"))
    assert found["qos", "burstable", "memory.min"] == str(64 * MI)
    assert ("node", "kubepods", "memory.min") not in found
    # The running pod lacks its memory.low, and keeps memory.min.
    assert found["pod", "uid-b", "memory.low"] == "0"
    assert found["pod", "uid-b", "memory.min"] == str(64 * MI)


def test_a_sum_that_drops_to_zero_is_not_written_up_to_135():
    assert left(planned(ON, "1.35"), planned(ON, "1.35", pods=())) == {
        ("node", "kubepods", "memory.min"): str(128 * MI),
        ("qos", "burstable", "memory.min"): str(64 * MI),
    }
    assert left(planned(TIERED, "1.36"), planned(TIERED, "1.36", pods=())) == {}


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.36", "1.37"])
@pytest.mark.parametrize("settings", [ON, OFF, TIERED])
def test_a_restart_without_a_change_leaves_nothing(release, settings):
    settings = replace(settings, memory_reservation_policy=None) if release < "1.36" else settings
    plan = planned(settings, release)
    assert left(plan, plan) == {}
    assert succession(plan, plan) == plan


def test_a_value_that_stays_has_a_reason():
    before, after = planned(TIERED, "1.36"), planned(OFF, "1.36")
    node = succession(before, after).node.knobs[Knob.MEMORY_MIN]
    assert (node.written, node.value) == (ABSENT, Bytes(128 * MI))
    assert node.reason.rule == "the kubelet does not overwrite the value that it wrote before"
    assert node.reason.because == (before.node.knobs[Knob.MEMORY_MIN].reason,)
    upgraded = succession(planned(ON, "1.35"), planned(TIERED, "1.36")).pods[0].cgroup.knobs[Knob.MEMORY_LOW]
    assert upgraded.reason.revision == "memory-qos v1.36 shipped"
    assert upgraded.reason.rule.startswith("the kubelet writes a pod's cgroup when it creates it")
    bare = succession(planned(TIERED, "1.36", reasons=False), planned(OFF, "1.36", reasons=False))
    assert (bare.node.knobs[Knob.MEMORY_MIN].value, bare.node.knobs[Knob.MEMORY_MIN].reason.rule) == (
        Bytes(128 * MI),
        "",
    )
    assert bare.node.knobs[Knob.MEMORY_MIN].written is ABSENT


def test_a_value_says_whether_an_earlier_kubelet_wrote_it():
    before, after = planned(TIERED, "1.36"), planned(ON, "1.36")
    kept = {
        (cgroup.level.value, expected.knob.value): is_kept(expected.reason)
        for cgroup, expected in left_behind(before, after)
    }
    assert kept == {
        ("pod", "memory.low"): True,
        ("container", "memory.low"): True,
        ("pod", "memory.min"): True,
        ("container", "memory.min"): True,
    }
    assert not any(is_kept(expected.reason) for expected in after.pods[0].cgroup.knobs.values())
    assert not is_kept(None)


def test_running_containers_keep_their_message_and_score():
    before, after = planned(TIERED, "1.36"), planned(OFF, "1.37")
    [burstable, _] = succession(before, after).pods
    assert burstable.containers[0].resources == before.pods[0].containers[0].resources
    assert burstable.containers[0].oom_score_adj == before.pods[0].containers[0].oom_score_adj


def test_reserved_cgroups_that_are_no_longer_enforced_keep_their_values():
    enforced = replace(
        TIERED,
        system_reserved={"memory": Quantity.parse("100Mi")},
        system_reserved_cgroup="/sys",
        enforce_node_allocatable=("pods", "system-reserved"),
    )
    free = replace(enforced, enforce_node_allocatable=("pods",))
    found = left(planned(enforced, "1.36"), planned(free, "1.36"))
    # A file with the kernel's default is not a leftover.
    assert found == {
        ("reserved", "sys", "memory.max"): str(100 * MI),
        ("reserved", "sys", "memory.min"): str(100 * MI),
        ("reserved", "sys", "cpuset.cpus"): "0-1",
        ("reserved", "sys", "hugetlb.2MB.max"): "0",
        ("reserved", "sys", "hugetlb.1GB.max"): "0",
    }
    [kept] = succession(planned(enforced, "1.36"), planned(free, "1.36")).reserved
    assert kept.knobs[Knob.MEMORY_MAX].reason.rule == "the kubelet does not overwrite the value that it wrote before"
    assert left(planned(free, "1.36"), planned(enforced, "1.36")) == {}
    fresh = planned(enforced, "1.36").reserved
    assert succession(planned(free, "1.36"), planned(enforced, "1.36")).reserved == fresh
    # With the gate off its memory.min is no longer written: it stays, and the cgroup is listed once.
    [still] = succession(planned(enforced, "1.36"), planned(replace(enforced, **GATE_OFF), "1.36")).reserved
    assert still.knobs[Knob.MEMORY_MIN].value == Bytes(100 * MI)


def test_only_the_recreated_container_is_planned_anew():
    found = left(planned(TIERED, "1.37"), planned(OFF, "1.37"), remade={("uid-b", "c")})
    assert ("container", "uid-b", "memory.low") not in found
    assert found["container", "uid-g", "memory.min"] == str(64 * MI)


def test_a_running_container_keeps_the_score_of_a_node_that_has_grown():
    grown = replace(NODE, memory=2 * NODE.memory)
    before = planned(TIERED, "1.36", PODS[:1])
    after = expect(PODS[:1], Kubelet.of(node=grown, settings=TIERED, release="1.36"))
    was, fresh, now = (plan.pods[0].containers[0] for plan in (before, after, succession(before, after)))
    assert (was.oom_score_adj, fresh.oom_score_adj, now.oom_score_adj) == (985, 993, 985)
    assert now.oom_score_adj_reason == was.oom_score_adj_reason != fresh.oom_score_adj_reason


def test_interface_files_missing_before_are_planned_anew():
    plain = replace(NODE, hugepage_sizes=())
    before = expect(PODS, Kubelet.of(node=plain, settings=TIERED, release="1.36"))
    assert Knob.HUGETLB_2MB_MAX not in before.pods[0].cgroup.knobs
    after = planned(TIERED, "1.36")
    found = succession(before, after)
    for cgroup, fresh in zip(found.cgroups(), after.cgroups(), strict=True):
        assert cgroup.knobs.get(Knob.HUGETLB_2MB_MAX) == fresh.knobs.get(Knob.HUGETLB_2MB_MAX)


def test_levels_above_pods_have_no_old_value_for_files_of_another_cgroup_version():
    before = expect(PODS, Kubelet.of(node=replace(NODE, cgroup_version=CgroupVersion.V1), settings=OFF, release="1.30"))
    after = planned(OFF, "1.30")
    assert Knob.MEMORY_HIGH not in before.node.knobs
    assert after.node.knobs[Knob.MEMORY_HIGH].written is ABSENT
    found = succession(before, after)
    assert (found.node, found.qos) == (after.node, after.qos)


def test_new_and_moved_pods_are_planned_anew():
    alone = planned(TIERED, "1.36", pods=PODS[:1])
    found = succession(alone, planned(TIERED, "1.36"))
    assert found.pod("uid-g") == planned(TIERED, "1.36").pod("uid-g")
    moved = (pod(equal("100m", "64Mi"), name="b"),)
    assert succession(alone, planned(OFF, "1.36", pods=moved)).pods == planned(OFF, "1.36", pods=moved).pods


def test_a_pod_keeps_its_limit_of_processes_when_the_new_configuration_names_none():
    """EnsureExists writes pids.max only when it creates a pod's cgroup."""
    limited = planned(replace(ON, pod_pids_limit=4096), "1.36")
    after = succession(limited, planned(ON, "1.36"))
    kept = [one.cgroup.knobs[Knob.PIDS_MAX] for one in after.pods]
    assert {(one.written, str(one.value)) for one in kept} == {(ABSENT, "4096")}
    assert "this one already existed" in kept[0].reason.rule
    again = succession(after, planned(ON, "1.36"))
    assert [str(one.cgroup.knobs[Knob.PIDS_MAX].value) for one in again.pods] == ["4096"] * len(kept)
    unlimited = succession(planned(replace(ON, pod_pids_limit=-1), "1.36"), planned(ON, "1.36"))
    assert not any(Knob.PIDS_MAX in one.cgroup.knobs for one in unlimited.pods)
    fresh = succession(planned(ON, "1.36", ()), planned(ON, "1.36"))
    assert not any(Knob.PIDS_MAX in one.cgroup.knobs for one in fresh.pods)
