"""The steps of a resize: which, in which order, and what each carries. Numbers are written out."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memqos.engine.resize import ResizeOutcome, StepKind, Usage, resize_pods
from memqos.model.knob import Bytes, CpuMax, Knob, Number
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NumaZone,
    ReservationPolicy,
    RuntimeFlavour,
    SwapBehavior,
)
from memqos.model.pod import ContainerKind, ResizePolicy
from memqos.model.traits import RuntimeTraits
from tests.unit.engine.pods import NODE, amounts, container, equal, pod, resources

MI = 1 << 20
ON = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True}, fail_cgroup_v1=False)
RESTART = ResizePolicy.RESTART_CONTAINER


def one(name, cpu, memory, **more):
    """A container of (request, limit) pairs."""
    return container({"cpu": cpu[0], "memory": memory[0]}, {"cpu": cpu[1], "memory": memory[1]}, name=name, **more)


def planned(old, new, release="1.36", *, settings=ON, node=NODE, **more):
    return resize_pods([old], [new], node=node, settings=settings, release=release, **more)


def told(plan):
    """(kind, resource, container) of every step; the calls that tell the runtime of the pod left out."""
    return [
        (step.kind.value, step.resource, step.container)
        for step in plan.resizes[0].steps if step.kind is not StepKind.UPDATE_SANDBOX
    ]  # fmt: skip


def wrote(step, *knobs):
    return {knob.value: str(step.knobs[knob].written) for knob in knobs if knob in step.knobs}


UPDATE, POD, SANDBOX = "UpdateContainerResources", "pod cgroup", "UpdatePodSandboxResources"
OLD = pod(one("a", ("100m", "200m"), ("64Mi", "128Mi")), one("b", ("100m", "200m"), ("64Mi", "128Mi")))
GROWN = pod(one("a", ("200m", "400m"), ("96Mi", "256Mi")), one("b", ("100m", "200m"), ("64Mi", "128Mi")))


@pytest.mark.parametrize("release", ["1.27", "1.32", "1.36", "1.37"])
def test_a_pod_that_grows_is_written_first(release):
    assert told(planned(OLD, GROWN, release)) == [
        (POD, "memory", ""), (UPDATE, "memory", "a"), (POD, "cpu", ""), (POD, "cpu", ""), (UPDATE, "cpu", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(("release", "request_first"), [("1.31", False), ("1.32", True), ("1.36", True)])
def test_a_pod_that_shrinks_is_written_last(release, request_first):
    plan = planned(GROWN, OLD, release)
    assert told(plan) == [
        (UPDATE, "memory", "a"), (POD, "memory", ""), (UPDATE, "cpu", "a"), (POD, "cpu", ""), (POD, "cpu", ""),
    ]  # fmt: skip
    first, second = [step for step in plan.resizes[0].steps if step.kind is StepKind.POD_CGROUP][1:]
    assert (Knob.CPU_WEIGHT in first.knobs, Knob.CPU_MAX in second.knobs) == (request_first, request_first)


def test_what_is_lowered_goes_before_what_is_raised():
    old = pod(*(one(name, ("100m", "200m"), ("64Mi", "128Mi")) for name in "abcd"))
    sizes = {"a": "256Mi", "b": "96Mi", "c": "256Mi", "d": "80Mi"}
    new = pod(*(one(name, ("100m", "200m"), ("64Mi", size)) for name, size in sizes.items()))
    # 512Mi before, 688Mi after: the pod first; of those lowered the last one named comes first.
    assert told(planned(old, new)) == [(POD, "memory", "")] + [(UPDATE, "memory", name) for name in "dbac"]


def test_values():
    steps = planned(OLD, GROWN, "1.34").resizes[0].steps
    assert [step.kind.value for step in steps] == [
        POD, SANDBOX, UPDATE, POD, SANDBOX, POD, SANDBOX, UPDATE
    ]  # fmt: skip
    memory, _, update, limit, _, share, told_last, last = steps
    assert wrote(memory, *Knob) == {"memory.max": "402653184", "hugetlb.2MB.max": "0", "hugetlb.1GB.max": "0"}
    assert update.message.memory_limit_in_bytes == 268435456
    # The cpu of the first message is what the container had.
    assert (update.message.cpu_shares, update.message.cpu_quota) == (102, 20000)
    assert wrote(limit, Knob.CPU_MAX, Knob.CPU_WEIGHT) == {"cpu.max": "60000 100000"}
    assert wrote(share, Knob.CPU_MAX, Knob.CPU_WEIGHT) == {"cpu.weight": "12"}
    assert (told_last.message.cpu_shares, told_last.message.cpu_quota) == (307, 60000)
    assert told_last.message.memory_limit_in_bytes == 402653184
    assert (last.message.memory_limit_in_bytes, last.message.cpu_shares, last.message.cpu_quota) == (
        268435456, 204, 40000
    )  # fmt: skip
    assert [given.value for given in memory.reason.inputs] == ["268435456 bytes", "402653184 bytes"]


@pytest.mark.parametrize(("release", "kinds"), [
    ("1.32", [POD, UPDATE]), ("1.33", [POD, SANDBOX, UPDATE]), ("1.35", [POD, SANDBOX, UPDATE]),
    ("1.36", [SANDBOX, POD, UPDATE]),
])  # fmt: skip
def test_when_the_runtime_hears_of_the_pod(release, kinds):
    new = pod(one("a", ("100m", "200m"), ("64Mi", "256Mi")), OLD.containers[1])
    assert [step.kind.value for step in planned(OLD, new, release).resizes[0].steps] == kinds


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


def test_shares_that_a_weight_does_not_keep():
    """102 shares are weight 4, which reads as 80: up to 1.36 the kubelet takes that for a change."""
    old = pod(one("a", ("100m", "200m"), ("64Mi", "128Mi")))
    new = pod(one("a", ("100m", "400m"), ("64Mi", "128Mi")))
    assert told(planned(old, new, "1.36")) == [(POD, "cpu", ""), (POD, "cpu", ""), (UPDATE, "cpu", "a")]
    assert told(planned(old, new, "1.37")) == [(POD, "cpu", ""), (UPDATE, "cpu", "a")]


def test_quotas_that_were_rounded_up():
    """From 1.34 on the systemd driver writes whole percents, which a later resize takes for a higher limit."""
    old = pod(one("a", ("100m", "333m"), ("64Mi", "128Mi")))
    new = pod(one("a", ("200m", "333m"), ("64Mi", "128Mi")))
    steps = planned(old, new, "1.36", driver=CgroupDriver.SYSTEMD).resizes[0].steps
    last = steps[-1]
    assert (last.kind, wrote(last, Knob.CPU_MAX)) == (StepKind.POD_CGROUP, {"cpu.max": "34000 100000"})
    assert "the pod's cpu limit shrinks" in last.reason.rule


@pytest.mark.parametrize(("release", "steps"), [
    ("1.32", []),
    ("1.33", [(UPDATE, "memory", "a")]),
    ("1.36", [(UPDATE, "memory", "a")]),
])  # fmt: skip
def test_a_memory_request_alone(release, steps):
    old, new = (pod(one("a", ("1", "1"), (size, "128Mi"))) for size in ("32Mi", "64Mi"))
    plan = planned(old, new, release, settings=replace(ON, feature_gates={**ON.feature_gates, "MemoryQoS": True}))
    assert told(plan) == steps
    assert plan.resizes[0].outcome is ResizeOutcome.IN_PROGRESS


def test_memory_qos_follows_a_resize_from_137_on():
    """128Mi more of request in a Burstable pod: up to 1.36 the pod keeps its old protection, 1.37 writes it."""
    old, new = (pod(container({"cpu": "1", "memory": size})) for size in ("256Mi", "400Mi"))
    settings = replace(
        ON, feature_gates={"MemoryQoS": True}, memory_reservation_policy=ReservationPolicy.TIERED
    )  # fmt: skip
    before, after = (planned(old, new, release, settings=settings) for release in ("1.36", "1.37"))
    assert told(before) == [(UPDATE, "memory", "c")]
    assert before.after.pods[0].cgroup.knobs[Knob.MEMORY_LOW].value == Bytes(256 * MI)
    assert before.after.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_LOW].value == Bytes(400 * MI)
    assert told(after) == [(POD, "memory", ""), (UPDATE, "memory", "c")]
    [write] = [step for step in after.resizes[0].steps if step.kind is StepKind.POD_CGROUP]
    assert wrote(write, Knob.MEMORY_LOW, Knob.MEMORY_MAX) == {"memory.low": "419430400"}
    assert after.after.pods[0].cgroup.knobs[Knob.MEMORY_LOW].value == Bytes(419430400)
    # The classes above follow in their own time, in every release.
    assert before.after.node.knobs[Knob.MEMORY_MIN].value == Bytes(400 * MI)
    shrunk = planned(new, old, "1.37", settings=settings)
    assert told(shrunk) == [(UPDATE, "memory", "c"), (POD, "memory", "")]


def test_memory_high_of_a_container_follows():
    gates = {**ON.feature_gates, "MemoryQoS": True}
    old, new = (pod(one("a", ("1", "1"), ("64Mi", size))) for size in ("128Mi", "256Mi"))
    plan = planned(old, new, "1.34", settings=replace(ON, feature_gates=gates))
    high = [one_.after.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH].value for one_ in (plan,)]
    assert high == [Bytes(248299520)]
    assert plan.after.pods[0].cgroup.knobs[Knob.MEMORY_MIN].value == Bytes(64 * MI)


def test_containers_that_are_made_again():
    old, new = (
        pod(
            one("a", ("100m", "200m"), ("64Mi", "128Mi")),
            one("b", ("100m", "200m"), ("64Mi", size), resize_policy={"memory": RESTART}),
        )
        for size in ("128Mi", "256Mi")
    )
    plan = planned(old, new)
    assert told(plan) == [
        ("StopContainer", "", "b"), (POD, "memory", ""), (POD, "cpu", ""), ("StartContainer", "", "b"),
    ]  # fmt: skip
    stop, *_, start = plan.resizes[0].steps
    assert (stop.message, stop.knobs) == (None, {})
    assert start.message.memory_limit_in_bytes == 256 * MI
    assert plan.after.pods[0].containers[1].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(256 * MI)
    # Only a change of that resource counts.
    cpu = replace(old, containers=(old.containers[0], one("b", ("100m", "300m"), ("64Mi", "128Mi"),
                                                          resize_policy={"memory": RESTART})))  # fmt: skip
    assert (UPDATE, "cpu", "b") in told(planned(old, cpu))


def test_zones_stay_when_a_container_is_made_again():
    settings = replace(
        ON, memory_manager_policy="Static", eviction_hard={}, system_reserved=amounts({"memory": "100Mi"}),
        reserved_memory=((0, amounts({"memory": "100Mi"})),),
        feature_gates={"InPlacePodVerticalScalingExclusiveMemory": True},
    )  # fmt: skip
    node = replace(NODE, zones=(NumaZone(id=0, memory=4 << 30, cpus=(0, 1)), NumaZone(id=1, memory=4 << 30)))
    policy = {"memory": RESTART}
    old, new = (pod(equal("1", size, resize_policy=policy)) for size in ("1Gi", "2Gi"))
    start = planned(old, new, "1.36", settings=settings, node=node).resizes[0].steps[-1]
    assert (start.message.cpuset_mems, start.knobs[Knob.CPUSET_MEMS].written.text) == ("0", "0")


def test_sidecars():
    def with_sidecar(size):
        side = one("s", ("10m", "20m"), ("8Mi", size), kind=ContainerKind.SIDECAR)
        return pod(one("a", ("1", "1"), ("64Mi", "64Mi")), init_containers=(side,))

    assert told(planned(with_sidecar("8Mi"), with_sidecar("16Mi"), "1.36")) == [
        (POD, "memory", ""), (UPDATE, "memory", "s"),
    ]  # fmt: skip


def test_overhead_is_the_runtimes_own_matter():
    old, new = (
        pod(one("a", ("1", "2"), ("64Mi", size)), overhead=amounts({"cpu": "250m", "memory": "32Mi"}))
        for size in ("128Mi", "256Mi")
    )
    plan = planned(old, new)
    told_, write = plan.resizes[0].steps[:2]
    assert write.knobs[Knob.MEMORY_MAX].written == Bytes(288 * MI)
    # The weight of 1280 shares reads as 1260, of which 250m are taken off: 1230m and 981m.
    assert (told_.message.memory_limit_in_bytes, told_.message.cpu_quota) == (256 * MI, 200000)
    assert told_.message.cpu_shares == 1004


# Limits that appear. cgroup v2 says "max", which the kubelet reads as -1: below every limit. v1 says a huge number.
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


# The alpha writes the period along with a pod's shares, and needs limits everywhere.
@pytest.mark.parametrize(("release", "old", "new", "message"), [
    ("1.27", ("128Mi", None), ("256Mi", None), "podResources.Memory is nil for pod p"),
    ("1.31", ("128Mi", None), ("256Mi", None), "podResources.Memory is nil for pod p"),
    ("1.32", ("128Mi", None), ("256Mi", None), ""),
])  # fmt: skip
def test_pods_that_are_limited_in_part(release, old, new, message):
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


# 1.32 takes amounts that the kernel cannot tell apart for the same.
@pytest.mark.parametrize(("release", "steps"), [("1.32", False), ("1.33", True)])
def test_small_amounts(release, steps):
    old = pod(container({"cpu": "1m", "memory": "1Mi"}, {"cpu": "5m", "memory": "2Mi"}))
    new = pod(container({"cpu": "2m", "memory": "1Mi"}, {"cpu": "10m", "memory": "2Mi"}))
    assert bool(planned(old, new, release).resizes[0].steps) is steps
    more = pod(container({"cpu": "3m", "memory": "1Mi"}, {"cpu": "11m", "memory": "2Mi"}))
    assert planned(old, more, release).resizes[0].steps


DECREASE = "cannot decrease memory limits: "


@pytest.mark.parametrize(("release", "used", "message"), [
    ("1.31", Usage(pod=200 * MI), "aborting attempt to set pod memory limit less than current memory usage for pod p"),
    ("1.33", Usage(pod=200 * MI),
     'aborting attempt to set pod memory limit less than current memory usage for pod "p_default(uid-p)"'),
    ("1.31", Usage(pod=200 * MI - 1), ""),
    ("1.34", Usage(), ""),
    ("1.34", Usage(pod=200 * MI, containers={"a": 1}),
     "cannot decrease memory limits: attempting to set pod memory limit (209715200) below current usage (209715200)"),
    ("1.36", Usage(pod=200 * MI - 1, containers={"a": 72 * MI}),
     DECREASE + 'attempting to set container "a" memory limit (75497472) below current usage (209715199)'),
    ("1.36", Usage(containers={"a": 72 * MI}),
     DECREASE + 'attempting to set container "a" memory limit (75497472) below current usage (75497472)'),
    ("1.36", Usage(pod=300 * MI, containers={"a": 300 * MI}),
     DECREASE + "[attempting to set pod memory limit (209715200) below current usage (314572800), "
     + 'attempting to set container "a" memory limit (75497472) below current usage (314572800)]'),
    ("1.36", Usage(pod=100 * MI, containers={"b": 300 * MI}), ""),
])  # fmt: skip
def test_limits_below_what_is_used(release, used, message):
    policy = {"memory": RESTART} if release == "1.33" else {}
    old = pod(one("a", ("1", "1"), ("64Mi", "128Mi"), resize_policy=policy), OLD.containers[1])
    new = pod(one("a", ("1", "1"), ("64Mi", "72Mi"), resize_policy=policy), OLD.containers[1])
    found = planned(old, new, release, usage={"uid-p": used}).resizes[0]
    assert (found.message, found.outcome) == (
        message, ResizeOutcome.ERROR if message else ResizeOutcome.IN_PROGRESS
    )  # fmt: skip
    assert bool(found.steps) is not bool(message)


def test_the_check_of_old_releases_also_stops_what_grows():
    found = planned(OLD, GROWN, "1.32", usage={"uid-p": Usage(pod=500 * MI)}).resizes[0]
    assert found.outcome is ResizeOutcome.ERROR
    assert planned(OLD, GROWN, "1.34", usage={"uid-p": Usage(pod=500 * MI)}).resizes[0].message == ""


def test_cpu_alone_is_held_against_no_memory():
    new = pod(one("a", ("50m", "100m"), ("64Mi", "128Mi")), OLD.containers[1])
    found = planned(OLD, new, "1.36", usage={"uid-p": Usage(pod=999 * MI)}).resizes[0]
    assert found.outcome is ResizeOutcome.IN_PROGRESS


def test_an_added_limit_counts_as_lower_for_its_container():
    request = {"cpu": "1", "memory": "64Mi"}
    old, new = pod(container(request, {"cpu": "2"})), pod(container(request, {"cpu": "2", "memory": "128Mi"}))
    found = planned(old, new, "1.36", usage={"uid-p": Usage(pod=200 * MI, containers={"c": 200 * MI})}).resizes[0]
    assert found.message == (
        'cannot decrease memory limits: attempting to set container "c" memory limit (134217728) below current usage '
        "(209715200)"
    )


LEVEL = {"cpu": "2", "memory": "200Mi"}


def test_pod_level_resources():
    old, new = (
        pod(container({"cpu": "1", "memory": "64Mi"}), resources=resources(LEVEL, {**LEVEL, "memory": limit}))
        for limit in ("300Mi", "400Mi")
    )
    plan = planned(old, new, "1.36")
    # A container without a limit of its own has the pod's.
    assert told(plan) == [(POD, "memory", ""), (UPDATE, "memory", "c"), (POD, "cpu", "")]
    assert plan.after.pods[0].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(400 * MI)
    assert plan.after.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(400 * MI)


def test_pod_level_requests_alone_touch_no_container():
    def of(cpu):
        return pod(one("c", ("1", "2"), ("64Mi", "64Mi")), resources=resources({**LEVEL, "cpu": cpu}, {"cpu": "3"}))

    assert told(planned(of("2"), of("3"), "1.36")) == [(POD, "cpu", "")]


def test_exclusive_cpus_have_no_quota():
    settings = replace(ON, cpu_manager_policy="static", feature_gates={"InPlacePodVerticalScalingExclusiveCPUs": True})
    plan = planned(pod(equal("1", "64Mi")), pod(equal("2", "64Mi")), "1.36", settings=settings)
    assert told(plan) == [(POD, "cpu", ""), (UPDATE, "cpu", "c")]
    assert plan.after.pods[0].cgroup.knobs[Knob.CPU_MAX].value == CpuMax(None, 100000)
    assert plan.after.pods[0].cgroup.knobs[Knob.CPU_WEIGHT].value == Number(79)


def test_a_pod_beside_it_stays_as_it_was():
    other = pod(one("o", ("1", "1"), ("1Mi", "1Mi")), name="other")
    plan = resize_pods([OLD, other], [GROWN], node=NODE, settings=ON, release="1.36")
    assert plan.after.pod("uid-other") == plan.before.pod("uid-other")
    assert plan.before.qos[0].knobs[Knob.CPU_WEIGHT].value == Number(8)
    assert plan.after.qos[0].knobs[Knob.CPU_WEIGHT].value == Number(12)
    assert plan.after.pod("uid-p").sandbox_resources == plan.before.pod("uid-p").sandbox_resources


@pytest.mark.parametrize(("release", "driver", "past"), [
    ("1.31", CgroupDriver.SYSTEMD, True), ("1.31", CgroupDriver.CGROUPFS, False), ("1.32", CgroupDriver.SYSTEMD, False),
])  # fmt: skip
def test_the_alpha_writes_past_systemd(release, driver, past):
    first = planned(OLD, GROWN, release, driver=driver).resizes[0].steps[0]
    assert [one_.rule.startswith("it is written past systemd") for one_ in first.reason.because] == [True] * past


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


# CRI-O drops `unified` of updates before 1.36, and takes the memory limit for memory and swap together.
@pytest.mark.parametrize(("flavour", "release", "high", "swap"), [
    (RuntimeFlavour.CONTAINERD, "1.35", "248299520", "67108864"),
    (RuntimeFlavour.CRIO, "1.35", "127504384", "0"),
    (RuntimeFlavour.CRIO, "1.36", "248299520", "67108864"),
])  # fmt: skip
def test_runtimes_take_updates_in_different_ways(flavour, release, high, swap):
    settings = replace(ON, feature_gates={"MemoryQoS": True}, swap_behavior=SwapBehavior.LIMITED)
    old, new = (pod(one("a", ("1", "1"), ("64Mi", size))) for size in ("128Mi", "256Mi"))
    node = replace(NODE, swap=NODE.memory)
    traits = RuntimeTraits(name="runtime", flavour=flavour, hugetlb=True)
    plan = planned(old, new, release, settings=settings, node=node, traits=traits)
    [update] = [step for step in plan.resizes[0].steps if step.container]
    assert "memory.high" in update.message.unified
    knobs = plan.after.pods[0].containers[0].cgroup.knobs
    assert (str(knobs[Knob.MEMORY_HIGH].value), str(knobs[Knob.MEMORY_SWAP_MAX].value)) == (high, swap)
    assert (Knob.HUGETLB_2MB_MAX in update.knobs) is (flavour is RuntimeFlavour.CONTAINERD)


LIMITS = st.integers(1, 64)


@given(
    sizes=st.lists(st.tuples(LIMITS, LIMITS), min_size=1, max_size=6),
    release=st.sampled_from(["1.27", "1.31", "1.32", "1.34", "1.36", "1.37"]),
    version=st.sampled_from([CgroupVersion.V1, CgroupVersion.V2]),
)
def test_containers_fit_below_their_pod_at_every_moment(sizes, release, version):
    def of(index):
        return pod(*(
            one(f"c{number}", ("1m", f"{pair[index]}0m"), ("1Mi", f"{pair[index]}Mi"))
            for number, pair in enumerate(sizes)
        ))  # fmt: skip

    plan = planned(of(0), of(1), release, node=replace(NODE, cgroup_version=version))
    v2 = version is CgroupVersion.V2
    limit = Knob.MEMORY_MAX if v2 else Knob.MEMORY_LIMIT_IN_BYTES
    quota = Knob.CPU_MAX if v2 else Knob.CPU_CFS_QUOTA_US

    def number(cgroup, knob):
        value = cgroup.knobs[knob].value
        return value.quota if isinstance(value, CpuMax) else value.count

    held = {
        (knob, name): number(cgroup, knob)
        for knob in (limit, quota)
        for name, cgroup in (("", plan.before.pods[0].cgroup),
                             *((one_.name, one_.cgroup) for one_ in plan.before.pods[0].containers))
    }  # fmt: skip
    for step in plan.resizes[0].steps:
        for knob in (limit, quota):
            if knob in step.knobs and (step.container or step.kind is StepKind.POD_CGROUP):
                held[knob, step.container] = number(step, knob)
            assert sum(value for (what, name), value in held.items() if what is knob and name) <= held[knob, ""]
    wanted = {f"c{index}": pair[1] * MI for index, pair in enumerate(sizes)}
    assert {name: value for (what, name), value in held.items() if what is limit and name} == wanted
    assert held[limit, ""] == sum(wanted.values())


@pytest.mark.parametrize("release", ["1.36", "1.37"])
@given(sizes=st.lists(st.tuples(LIMITS, LIMITS), min_size=1, max_size=4))
@example(sizes=[(14, 13)])
def test_a_resized_pod_holds_what_a_fresh_one_would(release, sizes):
    # All but the pod's cpu.weight, which may stay as it was: see the next test.
    def of(index):
        return pod(*(
            one(f"c{number}", (f"{pair[index]}0m", f"{pair[index]}0m"), ("512Ki", f"{pair[index]}Mi"))
            for number, pair in enumerate(sizes)
        ))  # fmt: skip

    resized, fresh = planned(of(0), of(1), release).after, planned(of(1), of(1), release).before
    pod_path = fresh.pods[0].cgroup.path
    values = [
        {
            (cgroup.path, knob): one_.value
            for cgroup in plan.cgroups()
            for knob, one_ in cgroup.knobs.items()
            if (cgroup.path, knob) != (pod_path, Knob.CPU_WEIGHT)
        }
        for plan in (resized, fresh)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("release", ["1.27", "1.36", "1.37"])
def test_a_weight_that_reads_as_the_desired_shares_is_left_alone(release):
    """140m are 143 shares and weight 6, which reads back as 133 shares: those of 130m, whose weight would be 5."""
    old, new = (pod(one("a", (cpu, cpu), ("64Mi", "64Mi"))) for cpu in ("140m", "130m"))
    plan = planned(old, new, release)
    fresh = planned(new, new, release).before
    held = [one_.pods[0].cgroup.knobs[Knob.CPU_WEIGHT].value for one_ in (plan.before, plan.after, fresh)]
    assert held == [Number(6), Number(6), Number(5)]
