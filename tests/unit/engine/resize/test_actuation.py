"""The steps of a resize, their order and their values. Numbers are literal."""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import ResizeOutcome, StepKind, resize_pods
from memqos.engine.resize.outcome import resize_reasons, resize_text
from memqos.model.knob import ABSENT, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver, NumaNode
from memqos.model.pod import ContainerKind
from tests.unit.engine.pods import NODE, amounts, container, equal, pod, resources
from tests.unit.engine.resize.plans import GROWN, MI, OLD, ON, POD, RESTART, SANDBOX, UPDATE, one, planned, told, wrote


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


SMALL = one("a", ("100m", "200m"), ("64Mi", "128Mi"))
MORE_CPU, MORE_MEMORY = one("a", ("200m", "200m"), ("64Mi", "128Mi")), one("a", ("100m", "200m"), ("64Mi", "256Mi"))
CUSTOM = {**ON.feature_gates, "CustomCPUCFSQuotaPeriod": True}


@pytest.mark.parametrize(
    ("driver", "release", "settings", "resized", "then"),
    [
        # Seen with kubelet 1.36.2 and systemd 257: a write of cpu.weight or memory.max alone.
        (CgroupDriver.SYSTEMD, "1.36", {}, (SMALL, MORE_CPU), "max 100000"),
        (CgroupDriver.SYSTEMD, "1.36", {}, (MORE_CPU, SMALL), "max 100000"),
        (CgroupDriver.SYSTEMD, "1.36", {}, (SMALL, MORE_MEMORY), "max 100000"),
        (CgroupDriver.CGROUPFS, "1.36", {}, (SMALL, MORE_CPU), "max 10000"),
        # Up to 1.31 the kubelet writes the files past systemd.
        (CgroupDriver.SYSTEMD, "1.31", {}, (SMALL, MORE_CPU), "max 10000"),
        (CgroupDriver.SYSTEMD, "1.36", {"cpu_cfs_quota_period_us": None}, (SMALL, MORE_CPU), "max 100000"),
        (CgroupDriver.SYSTEMD, "1.36", {"cpu_cfs_quota": True}, (SMALL, MORE_CPU), "2000 10000"),
    ],
)
def test_systemd_takes_the_period_from_an_unlimited_quota(driver, release, settings, resized, then):
    given = {"cpu_cfs_quota": False, "cpu_cfs_quota_period_us": 10000, "feature_gates": CUSTOM, **settings}
    plan = planned(*map(pod, resized), release, settings=replace(ON, **given), driver=driver)
    after = plan.after.pods[0].cgroup.knobs[Knob.CPU_MAX]
    assert str(after.value) == then
    rewritten = then == "max 100000" and given["cpu_cfs_quota_period_us"] == 10000
    assert ("cpu.max=max 100000" in resize_text(plan)) == rewritten
    assert ("systemd writes the slice's cpu.max as well" in resize_reasons(plan, Knob.CPU_MAX)) == rewritten
    assert (after.written is ABSENT) == rewritten


def test_lowered_amounts_go_before_raised_ones():
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
    # The first message has the container's old cpu.
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
def test_when_the_runtime_receives_the_pods_size(release, kinds):
    new = pod(one("a", ("100m", "200m"), ("64Mi", "256Mi")), OLD.containers[1])
    assert [step.kind.value for step in planned(OLD, new, release).resizes[0].steps] == kinds


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


def test_memory_high_of_a_container_follows():
    gates = {**ON.feature_gates, "MemoryQoS": True}
    old, new = (pod(one("a", ("1", "1"), ("64Mi", size))) for size in ("128Mi", "256Mi"))
    plan = planned(old, new, "1.34", settings=replace(ON, feature_gates=gates))
    high = [one_.after.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH].value for one_ in (plan,)]
    assert high == [Bytes(248299520)]
    assert plan.after.pods[0].cgroup.knobs[Knob.MEMORY_MIN].value == Bytes(64 * MI)


def test_recreated_containers():
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


def test_numa_nodes_stay_when_a_container_is_recreated():
    settings = replace(
        ON, memory_manager_policy="Static", eviction_hard={}, system_reserved=amounts({"memory": "100Mi"}),
        reserved_memory=((0, amounts({"memory": "100Mi"})),),
        feature_gates={"InPlacePodVerticalScalingExclusiveMemory": True},
    )  # fmt: skip
    node = replace(NODE, numa_nodes=(NumaNode(id=0, memory=4 << 30, cpus=(0, 1)), NumaNode(id=1, memory=4 << 30)))
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


def test_overhead_is_not_sent_with_containers():
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


def test_another_pod_does_not_change():
    other = pod(one("o", ("1", "1"), ("1Mi", "1Mi")), name="other")
    plan = resize_pods([OLD, other], [GROWN], Kubelet.of(node=NODE, settings=ON, release="1.36"))
    assert plan.after.pod("uid-other") == plan.before.pod("uid-other")
    assert plan.before.qos[0].knobs[Knob.CPU_WEIGHT].value == Number(8)
    assert plan.after.qos[0].knobs[Knob.CPU_WEIGHT].value == Number(12)
    assert plan.after.pod("uid-p").sandbox_resources == plan.before.pod("uid-p").sandbox_resources
