"""Configurations beyond upstream's table: see tests/vectors/test_kubelet_validation.py."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.errors import ManifestError
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NodeFacts,
    NumaNode,
    ReservationPolicy,
    SwapBehavior,
)
from tests.unit.engine.pods import amounts

NODE = NodeFacts(memory=8 << 30)


@pytest.mark.parametrize(
    ("release", "given", "field", "says"),
    [
        ("1.27", {"throttling_factor": Fraction(3, 2)}, "memoryThrottlingFactor", "1.5 is outside the kubelet's range"),
        ("1.27", {"throttling_factor": Fraction(0)}, "memoryThrottlingFactor", "above 0, at most 1"),
        ("1.37", {"throttling_factor": Fraction(-1)}, "memoryThrottlingFactor", "factor -1"),
        (
            "1.37",
            {"throttling_factor": Fraction(4, 5), "feature_gates": {"MemoryQoS": False}},
            "memoryThrottlingFactor",
            "does not start with a factor (0.8) while the feature gate MemoryQoS is off",
        ),
        ("1.36", {"memory_reservation_policy": ReservationPolicy.TIERED}, "memoryReservationPolicy", "gate MemoryQoS"),
        ("1.27", {"swap_behavior": SwapBehavior.LIMITED}, "memorySwap.swapBehavior", "needs the feature gate NodeSwap"),
        ("1.30", {"swap_behavior": SwapBehavior.UNLIMITED}, "memorySwap.swapBehavior", "does not take 'UnlimitedSwap'"),
        (
            "1.29",
            {"swap_behavior": SwapBehavior.NO_SWAP, "feature_gates": {"NodeSwap": True}},
            "memorySwap.swapBehavior",
            "Known there: LimitedSwap, UnlimitedSwap",
        ),
        ("1.34", {"feature_gates": {"NodeSwap": False}}, "featureGates.NodeSwap", "locked to true"),
        (
            "1.31",
            {"feature_gates": {"PodLevelResources": False}},
            "featureGates.PodLevelResources",
            "the kubelet of 1.31 does not know the gate PodLevelResources, and does not start",
        ),
        ("1.36", {"feature_gates": {"memoryqos": True}}, "featureGates.memoryqos", "unknown feature gate"),
        (
            "1.31",
            {"enforce_node_allocatable": ("system-reserved-compressible",)},
            "enforceNodeAllocatable",
            "is not a key of 1.31",
        ),
        (
            "1.36",
            {"enforce_node_allocatable": ("kube-reserved",)},
            "enforceNodeAllocatable",
            "needs kubeReservedCgroup",
        ),
        (
            "1.36",
            {"enforce_node_allocatable": ("kube-reserved",), "kube_reserved_cgroup": "/k"},
            "kubeReservedCgroup",
            "needs kubeReserved",
        ),
        ("1.36", {"cgroups_per_qos": False}, "enforceNodeAllocatable", "without cgroupsPerQOS"),
        ("1.36", {"system_reserved": amounts({"memory": "9Gi"})}, "systemReserved", "more memory is reserved"),
        # 8Gi less the 100Mi of evictionHard's default is 8092Mi.
        (
            "1.36",
            {"system_reserved": amounts({"memory": "8Gi"})},
            "systemReserved",
            "(systemReserved 8Gi + evictionHard 100Mi = 8694792192) than the node has (8589934592)",
        ),
        ("1.22", {"kube_reserved": amounts({"memory": "8485076993"})}, "kubeReserved", "= 8589934593) than the node"),
        (
            "1.36",
            {
                "system_reserved": amounts({"memory": "2Gi"}),
                "kube_reserved": amounts({"memory": "2Gi"}),
                "eviction_hard": {"memory.available": "75%"},
            },
            "systemReserved",
            "(systemReserved 2Gi + kubeReserved 2Gi + evictionHard 6442450944 = 10737418240)",
        ),
        ("1.36", {"eviction_hard": {"memory.available": "9Gi"}}, "evictionHard", "more memory is reserved"),
        ("1.36", {"kube_reserved": amounts({"cpu": "2"})}, "kubeReserved", "more cpu is reserved"),
        ("1.36", {"qos_reserved": {"memory": 50}}, "qosReserved", "gate QOSReserved"),
        ("1.36", {"cpu_cfs_quota_period_us": 500}, "cpuCFSQuotaPeriod", "between 1ms and 1s"),
        ("1.36", {"cgroup_root": "/a/../b"}, "cgroupRoot", "is not a valid cgroup for the cgroupfs driver"),
        ("1.36", {"system_reserved_cgroup": "/.."}, "systemReservedCgroup", "is not a valid cgroup"),
        (
            "1.36",
            {"kube_reserved_cgroup": "/a--b", "cgroup_driver": CgroupDriver.SYSTEMD},
            "kubeReservedCgroup",
            "is not a valid cgroup for the systemd driver",
        ),
        ("1.35", {"cpu_cfs_quota_period_us": 5000}, "cpuCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod"),
    ],
)
def test_refused(release, given, field, says):
    place = {"origin": {field.partition(".")[0]: "k.yaml:7"}}
    with pytest.raises(ManifestError) as caught:
        expect([], Kubelet.of(node=NODE, settings=KubeletSettings(**given, **place), release=release))
    assert says in str(caught.value)
    assert (caught.value.data["file"], caught.value.data["line"]) == ("k.yaml", 7)
    assert caught.value.data["field"] == field


def test_an_unknown_place():
    with pytest.raises(ManifestError, match=r"^kubelet configuration: memoryThrottlingFactor: "):
        expect([], Kubelet.of(node=NODE, settings=KubeletSettings(throttling_factor=Fraction(2)), release="1.36"))


@pytest.mark.parametrize(
    ("release", "given"),
    [
        ("1.36", {"throttling_factor": Fraction(1)}),
        # A release that does not know the policy ignores the field, as its kubelet does.
        ("1.32", {"memory_reservation_policy": ReservationPolicy.TIERED}),
        ("1.36", {"memory_reservation_policy": ReservationPolicy.NONE}),
        ("1.37", {"memory_reservation_policy": ReservationPolicy.TIERED}),
        ("1.34", {"feature_gates": {"NodeSwap": True}}),
        ("1.22", {"swap_behavior": SwapBehavior.UNSET}),
        ("1.35", {"cpu_cfs_quota_period_us": 100_000}),
        ("1.35", {"cpu_cfs_quota_period_us": 5_000, "feature_gates": {"CustomCPUCFSQuotaPeriod": True}}),
        ("1.36", {"cpu_cfs_quota_period_us": 1_000_000}),
        ("1.36", {"enforce_node_allocatable": ("",)}),
        ("1.36", {"system_reserved": amounts({"memory": "8092Mi", "ephemeral-storage": "1Ti"})}),
        ("1.36", {"system_reserved": amounts({"memory": "8Gi"}), "eviction_hard": {}}),
        ("1.36", {"system_reserved": amounts({"memory": "8Gi"}), "eviction_hard": {"memory.available": "100%"}}),
        ("1.36", {"topology_manager_policy": "restricted", "topology_manager_scope": "pod"}),
        ("1.36", {"single_process_oom_kill": False}),
    ],
)
def test_accepted(release, given):
    assert expect([], Kubelet.of(node=NODE, settings=KubeletSettings(**given), release=release)).release == release


@pytest.mark.parametrize(
    ("fail", "swap", "refused"), [(True, 1, True), (True, 0, False), (False, 1, False), (None, 1, False)]
)
def test_a_node_with_swap(fail, swap, refused):
    node, settings = replace(NODE, swap=swap << 30), KubeletSettings(fail_swap_on=fail)
    if not refused:
        assert expect([], Kubelet.of(node=node, settings=settings, release="1.34")).pods == ()
        return
    with pytest.raises(ManifestError, match=r"of 1\.34 does not start on a node with swap while failSwapOn") as caught:
        expect([], Kubelet.of(node=node, settings=settings, release="1.34"))
    assert caught.value.data["field"] == "failSwapOn"


def test_single_process_oom_kill_cannot_be_false_on_v1():
    node = NodeFacts(memory=8 << 30, cgroup_version=CgroupVersion.V1)
    settings = KubeletSettings(single_process_oom_kill=False)
    with pytest.raises(ManifestError, match="cgroup v1"):
        expect([], Kubelet.of(node=node, settings=settings, release="1.36"))
    assert expect([], Kubelet.of(node=node, settings=settings, release="1.31")).release == "1.31"


HUGE = replace(NODE, pids=32768, numa_nodes=(NumaNode(id=0, memory=8 << 30, hugepages={2 << 20: 8}),))


@pytest.mark.parametrize(
    ("name", "system", "kube", "says"),
    [
        ("hugepages-2Mi", "8Mi", "8Mi", ""),
        (
            "hugepages-2Mi",
            "8Mi",
            "10Mi",
            "8Mi + kubeReserved 10Mi = 18874368) than the node has (16777216)",
        ),
        # The kernel knows the size, and no NUMA node has a page of it.
        ("hugepages-1Gi", "1Gi", "0", "more hugepages-1Gi is reserved (1073741824) than the node has (0)"),
        ("pid", "32768", "1", ""),
        # Without a capacity the kubelet does not check.
        ("hugepages-64Ki", "1Gi", "1Gi", ""),
    ],
)
def test_reservations_of_huge_pages_and_pids(name, system, kube, says):
    settings = KubeletSettings(system_reserved=amounts({name: system}), kube_reserved=amounts({name: kube}))
    if not says:
        assert expect([], Kubelet.of(node=HUGE, settings=settings, release="1.36")).pods == ()
        return
    with pytest.raises(ManifestError, match=re.escape(says)):
        expect([], Kubelet.of(node=HUGE, settings=settings, release="1.36"))


def test_huge_pages_of_a_node_without_numa_nodes_are_not_known():
    settings = KubeletSettings(system_reserved=amounts({"hugepages-2Mi": "8Mi"}))
    assert expect([], Kubelet.of(node=NODE, settings=settings, release="1.36")).pods == ()
