"""Differences in the steps of a resize by release, runtime and cgroup version."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.releases.release import Variant
from memqos.engine.resize import ResizeOutcome, StepKind
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Bytes, Knob
from memqos.model.node import CgroupDriver, CgroupVersion, ReservationPolicy, SwapBehavior
from tests.unit.engine.pods import NODE, container, pod, resources
from tests.unit.engine.resize.plans import GROWN, MI, OLD, ON, POD, UPDATE, one, planned, told, wrote


# A resize names no huge pages, and libcontainer's driver then writes 0 for every size.
@pytest.mark.parametrize(("release", "left"), [("1.31", 2 * MI), ("1.32", 0), ("1.36", 0)])
def test_huge_pages_are_lost(release, left):
    both = {"hugepages-2Mi": "2Mi"}
    old, new = (
        pod(container({"cpu": "1", "memory": "1Mi", **both}, {"cpu": "1", "memory": size, **both}))
        for size in ("100Mi", "200Mi")
    )
    plan = planned(old, new, release)
    assert plan.before.pods[0].cgroup.knobs[Knob.HUGETLB_2MB_MAX].value == Bytes(2 * MI)
    assert plan.after.pods[0].cgroup.knobs[Knob.HUGETLB_2MB_MAX].value == Bytes(left)
    [update] = [step for step in plan.resizes[0].steps if step.container]
    assert dict(update.message.hugepage_limits) == {"2MB": 0, "1GB": 0}


def test_shares_differ_after_conversion_to_a_weight():
    """102 shares are weight 4, which reads as 80: up to 1.36 the kubelet treats that as a change."""
    old = pod(one("a", ("100m", "200m"), ("64Mi", "128Mi")))
    new = pod(one("a", ("100m", "400m"), ("64Mi", "128Mi")))
    assert told(planned(old, new, "1.36")) == [(POD, "cpu", ""), (POD, "cpu", ""), (UPDATE, "cpu", "a")]
    assert told(planned(old, new, "1.37")) == [(POD, "cpu", ""), (UPDATE, "cpu", "a")]


def test_rounded_quotas():
    """From 1.34 on the systemd driver writes whole percents, which a later resize treats as a higher limit."""
    old = pod(one("a", ("100m", "333m"), ("64Mi", "128Mi")))
    new = pod(one("a", ("200m", "333m"), ("64Mi", "128Mi")))
    steps = planned(old, new, "1.36", driver=CgroupDriver.SYSTEMD).resizes[0].steps
    last = steps[-1]
    assert (last.kind, wrote(last, Knob.CPU_MAX)) == (StepKind.POD_CGROUP, {"cpu.max": "34000 100000"})
    assert "the pod's cpu limit shrinks" in last.reason.rule


TIERED = replace(ON, feature_gates={"MemoryQoS": True}, memory_reservation_policy=ReservationPolicy.TIERED)


def burstable(memory, limit=None):
    return pod(container({"cpu": "1", "memory": memory}, {"memory": limit} if limit else {}))


def protects(old, new, release, variant, settings=TIERED):
    """The steps, the pod's memory writes, and the pod's final memory.low."""
    plan = planned(old, new, release, settings=settings, variant=variant)
    writes = [
        wrote(step, Knob.MEMORY_MAX, Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH)
        for step in plan.resizes[0].steps if step.kind is StepKind.POD_CGROUP
    ]  # fmt: skip
    return told(plan), writes, str(plan.after.pods[0].cgroup.knobs[Knob.MEMORY_LOW].value)


# kubernetes#142572, measured on v1.37.0: 268435456 stays. The write of 419430400 is that of
# TestDoPodResizeActionRequestOnlyMemoryResizeUpdatesPodMemoryLow, which came with the code after 1.37.0.
@pytest.mark.parametrize(("release", "variant", "steps", "writes", "low"), [
    ("1.36", Variant.SHIPPED, [(UPDATE, "memory", "c")], [], "268435456"),
    ("1.37", Variant.SHIPPED, [(UPDATE, "memory", "c")], [], "268435456"),
    ("1.36", Variant.MENDED, [(UPDATE, "memory", "c")], [], "268435456"),
    ("1.37", Variant.MENDED, [(POD, "memory", ""), (UPDATE, "memory", "c")], [{"memory.low": "419430400"}],
     "419430400"),
    ("1.36", Variant.DOCUMENTED, [(UPDATE, "memory", "c"), (POD, "memory", "")], [{"memory.low": "419430400"}],
     "419430400"),
    ("1.37", Variant.DOCUMENTED, [(UPDATE, "memory", "c"), (POD, "memory", "")], [{"memory.low": "419430400"}],
     "419430400"),
])  # fmt: skip
def test_a_memory_request_alone(release, variant, steps, writes, low):
    old, new = burstable("256Mi"), burstable("400Mi")
    assert protects(old, new, release, variant) == (steps, writes, low)
    plan = planned(old, new, release, settings=TIERED, variant=variant)
    assert plan.after.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_LOW].value == Bytes(419430400)
    # The QoS classes are updated later, in every release.
    assert plan.after.node.knobs[Knob.MEMORY_MIN].value == Bytes(419430400)


def test_less_protection_is_written_after_the_containers():
    old, new = burstable("400Mi"), burstable("256Mi")
    assert protects(old, new, "1.37", Variant.MENDED) == (
        [(UPDATE, "memory", "c"), (POD, "memory", "")], [{"memory.low": "268435456"}], "268435456"
    )  # fmt: skip


# One write, at the place of the limit's, whatever the request does.
@pytest.mark.parametrize("variant", [Variant.SHIPPED, Variant.MENDED])
@pytest.mark.parametrize(("old", "new", "first", "write"), [
    (("256Mi", "512Mi"), ("400Mi", "1Gi"), POD, {"memory.max": "1073741824", "memory.low": "419430400"}),
    (("400Mi", "512Mi"), ("256Mi", "1Gi"), POD, {"memory.max": "1073741824", "memory.low": "268435456"}),
    (("256Mi", "1Gi"), ("400Mi", "512Mi"), UPDATE, {"memory.max": "536870912", "memory.low": "419430400"}),
])  # fmt: skip
def test_a_limit_change_includes_the_protection(variant, old, new, first, write):
    steps, writes, low = protects(burstable(*old), burstable(*new), "1.37", variant)
    assert (sorted(steps), steps[0][0]) == ([(UPDATE, "memory", "c"), (POD, "memory", "")], first)
    assert (writes, low) == ([write], write["memory.low"])
    # Before 1.37 only the limit is written, and by the text the reconciliation writes the protection.
    assert protects(burstable(*old), burstable(*new), "1.36", Variant.SHIPPED)[1] == [
        {"memory.max": write["memory.max"]}
    ]
    _, documented, last = protects(burstable(*old), burstable(*new), "1.37", Variant.DOCUMENTED)
    assert documented == [{"memory.max": write["memory.max"]}, {"memory.low": write["memory.low"]}]
    assert last == write["memory.low"]


def test_memory_high_of_a_pod_is_in_the_same_write():
    """A pod-level request that changes alone: memory.high = request + (limit - request) * 0.5."""
    settings = replace(ON, feature_gates={"MemoryQoS": True}, throttling_factor=Fraction(1, 2))

    def of(request):
        return pod(container(), resources=resources({"cpu": "1", "memory": request}, {"memory": "512Mi"}))

    assert protects(of("128Mi"), of("256Mi"), "1.37", Variant.SHIPPED, settings)[1] == []
    steps, writes, _ = protects(of("128Mi"), of("256Mi"), "1.37", Variant.MENDED, settings)
    assert (steps, writes) == ([(POD, "memory", "")], [{"memory.high": "402653184"}])


def test_the_fix_has_no_effect_without_protection():
    off = replace(ON, feature_gates={"MemoryQoS": False})
    for settings in (off, replace(ON, feature_gates={"MemoryQoS": True})):
        steps, writes, _ = protects(burstable("256Mi"), burstable("400Mi"), "1.37", Variant.MENDED, settings)
        assert (steps, writes) == ([(UPDATE, "memory", "c")], [])


# Added limits. cgroup v2 has "max", which the kubelet reads as -1: below every limit. v1 has a huge number.
@pytest.mark.parametrize(("version", "order"), [
    (CgroupVersion.V2, [(POD, "memory", ""), (UPDATE, "memory", "c")]),
    (CgroupVersion.V1, [(UPDATE, "memory", "c"), (POD, "memory", "")]),
])  # fmt: skip
def test_a_limit_is_added(version, order):
    request = {"cpu": "1", "memory": "64Mi"}
    old, new = pod(container(request, {"cpu": "2"})), pod(container(request, {"cpu": "2", "memory": "128Mi"}))
    assert told(planned(old, new, "1.34", node=replace(NODE, cgroup_version=version))) == order


def test_cgroup_v1():
    plan = planned(OLD, GROWN, "1.34", node=replace(NODE, cgroup_version=CgroupVersion.V1))
    writes = [wrote(step, *Knob) for step in plan.resizes[0].steps if step.kind is StepKind.POD_CGROUP]
    huge = {"hugetlb.2MB.limit_in_bytes": "0", "hugetlb.1GB.limit_in_bytes": "0"}
    assert writes == [
        {"memory.limit_in_bytes": "402653184", **huge},
        {"cpu.cfs_quota_us": "60000", "cpu.cfs_period_us": "100000", **huge},
        {"cpu.shares": "307", **huge},
    ]
    last = plan.resizes[0].steps[-1]
    assert wrote(last, Knob.CPU_SHARES, Knob.CPU_CFS_QUOTA_US, Knob.MEMORY_LIMIT_IN_BYTES) == {
        "cpu.shares": "204", "cpu.cfs_quota_us": "40000", "memory.limit_in_bytes": "268435456",
    }  # fmt: skip
    assert plan.resizes[0].steps[1].message.cpu_shares == 204
    unlimited = pod(container({"cpu": "1"}))
    quiet = planned(
        unlimited, pod(container({"cpu": "2"})), "1.34", node=replace(NODE, cgroup_version=CgroupVersion.V1)
    )
    assert told(quiet) == [(POD, "cpu", ""), (UPDATE, "cpu", "c")]


# The alpha writes the period with a pod's shares, and needs limits everywhere.
@pytest.mark.parametrize(("release", "old", "new", "message"), [
    ("1.27", ("128Mi", None), ("256Mi", None), "podResources.Memory is nil for pod p"),
    ("1.31", ("128Mi", None), ("256Mi", None), "podResources.Memory is nil for pod p"),
    ("1.32", ("128Mi", None), ("256Mi", None), ""),
])  # fmt: skip
def test_partly_limited_pods(release, old, new, message):
    def of(first, _):
        return pod(
            container({"cpu": "1", "memory": "64Mi"}, {"cpu": "1", "memory": first}, name="a"),
            container({"cpu": "1", "memory": "64Mi"}, {"cpu": "1"}, name="b"),
        )

    found = planned(of(*old), of(*new), release).resizes[0]
    assert (found.message, found.outcome) == (
        message, ResizeOutcome.ERROR if message else ResizeOutcome.IN_PROGRESS
    )  # fmt: skip


def test_the_alpha_needs_cpu_limits():
    def of(cpu):
        return pod(
            container({"cpu": "1", "memory": "64Mi"}, {"cpu": cpu, "memory": "64Mi"}, name="a"),
            container({"cpu": "1", "memory": "64Mi"}, {"memory": "64Mi"}, name="b"),
        )

    found = planned(of("1"), of("2"), "1.29").resizes[0]
    assert found.message == "podResources.CPUQuota or podResources.CPUShares is nil for pod p"
    assert planned(of("1"), of("2"), "1.32").resizes[0].outcome is ResizeOutcome.IN_PROGRESS


# 1.32 treats amounts that the kernel cannot distinguish as equal.
@pytest.mark.parametrize(("release", "steps"), [("1.32", False), ("1.33", True)])
def test_small_amounts(release, steps):
    old = pod(container({"cpu": "1m", "memory": "1Mi"}, {"cpu": "5m", "memory": "2Mi"}))
    new = pod(container({"cpu": "2m", "memory": "1Mi"}, {"cpu": "10m", "memory": "2Mi"}))
    assert bool(planned(old, new, release).resizes[0].steps) is steps
    more = pod(container({"cpu": "3m", "memory": "1Mi"}, {"cpu": "11m", "memory": "2Mi"}))
    assert planned(old, more, release).resizes[0].steps


@pytest.mark.parametrize(("release", "driver", "past"), [
    ("1.31", CgroupDriver.SYSTEMD, True), ("1.31", CgroupDriver.CGROUPFS, False), ("1.32", CgroupDriver.SYSTEMD, False),
])  # fmt: skip
def test_the_alpha_writes_past_systemd(release, driver, past):
    first = planned(OLD, GROWN, release, driver=driver).resizes[0].steps[0]
    assert [one_.rule.startswith("it is written without systemd") for one_ in first.reason.because] == [True] * past


@pytest.mark.parametrize(("release", "period"), [("1.31", {"cpu.cfs_period_us": "100000"}), ("1.32", {})])
def test_the_alpha_writes_the_period_with_the_shares(release, period):
    plan = planned(OLD, GROWN, release, node=replace(NODE, cgroup_version=CgroupVersion.V1))
    shares = [step for step in plan.resizes[0].steps if not step.container and Knob.CPU_SHARES in step.knobs]
    assert [wrote(step, Knob.CPU_SHARES, Knob.CPU_CFS_PERIOD_US) for step in shares] == [
        {"cpu.shares": "307", **period}
    ]


def test_memory_high_is_cleared_by_a_resize_in_137_with_the_gate_off():
    new = pod(one("a", ("100m", "200m"), ("64Mi", "256Mi")), OLD.containers[1])
    for release, high in (("1.36", None), ("1.37", "max")):
        settings = replace(ON, feature_gates={"MemoryQoS": False})
        [update] = [step for step in planned(OLD, new, release, settings=settings).resizes[0].steps if step.container]
        assert update.message.unified.get("memory.high") == high


# CRI-O drops `unified` of updates before 1.36, and sets memory+swap to the memory limit.
@pytest.mark.parametrize("release", ["1.35", "1.36"])
@pytest.mark.parametrize(("cri", "version", "high", "swap"), [
    ("containerd", "2.1.9", "248299520", "67108864"),
    ("cri-o", "1.35.9", "127504384", "0"),
    ("cri-o", "1.36.0", "248299520", "67108864"),
])  # fmt: skip
def test_updates_differ_by_runtime(cri, version, release, high, swap):
    settings = replace(ON, feature_gates={"MemoryQoS": True}, swap_behavior=SwapBehavior.LIMITED)
    old, new = (pod(one("a", ("1", "1"), ("64Mi", size))) for size in ("128Mi", "256Mi"))
    node = replace(NODE, swap=NODE.memory)
    runtimes = Runtimes(cri=traits_of(cri, version), oci=traits_of("runc", "1.1.15"), hugetlb=True)
    plan = planned(old, new, release, settings=settings, node=node, runtimes=runtimes)
    [update] = [step for step in plan.resizes[0].steps if step.container]
    assert "memory.high" in update.message.unified
    knobs = plan.after.pods[0].containers[0].cgroup.knobs
    assert (str(knobs[Knob.MEMORY_HIGH].value), str(knobs[Knob.MEMORY_SWAP_MAX].value)) == (high, swap)
    assert (Knob.HUGETLB_2MB_MAX in update.knobs) is (cri == "containerd")
