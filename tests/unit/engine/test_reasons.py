"""Reasons for missing values."""

from fractions import Fraction

import pytest

from memqos.engine.answer.document import FORMAT, plan_document
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.knob import ABSENT, Knob
from memqos.model.node import KubeletSettings, ReservationPolicy, SwapBehavior
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod, resources


def reason(one, release="1.36", settings=ON, knob=Knob.MEMORY_HIGH, *, level="container"):
    plan = expect([one], Kubelet.of(node=NODE, settings=settings, release=release))
    found = plan.pods[0].containers[0].cgroup if level == "container" else plan.pods[0].cgroup
    return found.knobs[knob].reason


@pytest.mark.parametrize(
    ("one", "release", "settings", "says"),
    [
        (pod(equal("1", "1Gi")), "1.27", ON, "the request equals the limit"),
        (pod(), "1.27", ON, "a missing request and a missing limit count as equal"),
        (pod(container({"memory": "1Gi"}, {"memory": "1073745920"})), "1.36", ON, "not above the request"),
        (pod(container({"memory": "9Gi"})), "1.36", ON, "not above the request"),
        (pod(equal("1", "1Gi")), "1.22", ON, "not above the request"),
        (pod(container({"memory": "1Gi"}, {"memory": "2Gi"})), "1.37", KubeletSettings(), "Factor is not set"),
        (pod(container({"memory": "1Gi"}, {"memory": "2Gi"})), "1.36", KubeletSettings(), "neither kubelet nor"),
    ],
)
def test_no_memory_high(one, release, settings, says):
    assert says in reason(one, release, settings).rule


def test_no_amount_for_the_factor():
    full = KubeletSettings(
        feature_gates={"MemoryQoS": True}, system_reserved=amounts({"memory": "8Gi"}), eviction_hard={}
    )
    assert "no throttling factor, or no amount to apply it to" in reason(pod(), "1.22", full).rule


@pytest.mark.parametrize(
    ("one", "knob", "says"),
    [
        (
            pod(container({"memory": "1Gi"}), equal("1", "1Gi", name="d")),
            Knob.MEMORY_MAX,
            "container 'c' has no memory",
        ),
        (
            pod(container({"memory": "1Gi"}), equal("1", "1Gi", name="d")),
            Knob.CPU_MAX,
            "container 'c' has no cpu limit",
        ),
        (pod(), Knob.MEMORY_MAX, "a BestEffort pod has no limits"),
        (pod(equal("1", "1Gi")), Knob.MEMORY_MAX, "of a Guaranteed pod"),
        (pod(container(None, {"memory": "1Gi"})), Knob.MEMORY_MAX, "the whole pod counts as limited"),
        (pod(equal("500m", "1Gi")), Knob.CPU_MAX, "quota per period"),
        (pod(equal("500m", "1Gi")), Knob.CPU_WEIGHT, "cpu.shares converted by the linear formula"),
        (pod(), Knob.CPU_WEIGHT, "2 for a BestEffort pod"),
        (pod(), Knob.HUGETLB_2MB_MAX, "every page size of the node"),
    ],
)
def test_pod_limits(one, knob, says):
    assert says in reason(one, knob=knob, level="pod").rule


def test_a_rounded_quota_is_named():
    settings = KubeletSettings()
    one = pod(equal("333m", "1Gi"))
    plan = expect([one], Kubelet.of(node=NODE, settings=settings, release="1.36", driver=None))
    assert plan.pods[0].cgroup.knobs[Knob.CPU_MAX].reason.rounding == ""
    unlimited = expect([one], Kubelet.of(node=NODE, settings=KubeletSettings(cpu_cfs_quota=False), release="1.36"))
    assert "not enforced" in unlimited.pods[0].cgroup.knobs[Knob.CPU_MAX].reason.rule


def test_inputs_of_a_pod_limit_name_every_part():
    one = pod(
        container(None, {"memory": "1Gi"}, origin={"limits.memory": "a.yaml:3"}),
        overhead=amounts({"memory": "1Mi"}),
        resources=resources(None, {"memory": "2Gi"}),
        origin={"overhead.memory": "a.yaml:9", "resources.limits.memory": "a.yaml:7"},
    )
    (because,) = reason(one, knob=Knob.MEMORY_MAX, level="pod").because
    assert [(given.name, given.value, given.origin) for given in because.inputs] == [
        ("c limits.memory", "1Gi", "a.yaml:3"),
        ("resources.limits.memory", "2Gi", "a.yaml:7"),
        ("overhead.memory", "1Mi", "a.yaml:9"),
    ]
    assert because.rule == "the pod-level limit stands for the whole pod"


@pytest.mark.parametrize(
    ("settings", "release", "says"),
    [
        (KubeletSettings(swap_behavior=SwapBehavior.LIMITED), "1.36", "its request's share of the memory"),
        (KubeletSettings(), "1.36", "NoSwap"),
        (KubeletSettings(feature_gates={"NodeSwap": False}), "1.30", "gate NodeSwap off"),
        (KubeletSettings(), "1.22", "a memory limit without a swap limit means no swap"),
        (KubeletSettings(feature_gates={"NodeSwap": True}), "1.22", "memory_swap_limit_in_bytes is the memory limit"),
        (KubeletSettings(feature_gates={"NodeSwap": True}), "1.28", "every behaviour but LimitedSwap"),
        (
            KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.UNLIMITED),
            "1.22",
            "memory_swap_limit_in_bytes -1",
        ),
    ],
)
def test_swap(settings, release, says):
    one = pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))
    found = reason(one, release, settings, Knob.MEMORY_SWAP_MAX)
    assert says in found.rule
    if release == "1.22" and not settings.feature_gates:
        assert "sends nothing about swap" in found.because[0].rule


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            KubeletSettings(feature_gates={"QOSReserved": True}, qos_reserved={"memory": 50}),
            "8589934592 - 1073741824 * 50 / 100 = 8053063680",
        ),
    ],
)
def test_qos_reserved(settings, says):
    plan = expect(
        [pod(equal("1", "1Gi")), pod(container({"memory": "2Gi"}), name="b")],
        Kubelet.of(node=NODE, settings=settings, release="1.36"),
    )
    burstable, besteffort = plan.qos
    assert burstable.knobs[Knob.MEMORY_MAX].reason.arithmetic == says
    assert (
        besteffort.knobs[Knob.MEMORY_MAX].reason.arithmetic
        == f"{says}; 8053063680 - 2147483648 * 50 / 100 = 6979321856"
    )


@pytest.mark.parametrize(
    ("memory", "says"),
    [("8Gi", "a limit of 0 is not written"), ("9Gi", "the kernel refuses a limit below 0")],
)
def test_qos_reserved_of_everything(memory, says):
    settings = KubeletSettings(feature_gates={"QOSReserved": True}, qos_reserved={"memory": 100})
    plan = expect([pod(equal("1", memory))], Kubelet.of(node=NODE, settings=settings, release="1.36"))
    for cgroup in plan.qos:
        limit = cgroup.knobs[Knob.MEMORY_MAX]
        assert limit.written is ABSENT
        assert says in limit.reason.rule


def test_node_without_enforcement_says_so():
    plan = expect(
        [], Kubelet.of(node=NODE, settings=KubeletSettings(enforce_node_allocatable=("none",)), release="1.36")
    )
    assert "node's capacity" in plan.node.knobs[Knob.MEMORY_MAX].reason.rule


def test_document():
    one = pod(container({"memory": "64Mi"}, {"memory": "200Mi"}), overhead=amounts({"memory": "1Mi"}))
    settings = KubeletSettings(
        feature_gates={"MemoryQoS": True},
        memory_reservation_policy=ReservationPolicy.TIERED,
        throttling_factor=Fraction(9, 10),
    )
    document = plan_document(expect([one], Kubelet.of(node=NODE, settings=settings, release="1.36")))
    assert document["memqos_format"] == FORMAT == 1
    assert (document["release"], document["variant"], document["driver"]) == ("1.36", "shipped", "cgroupfs")
    (found,) = document["pods"]
    assert (found["name"], found["qos"], found["cgroup"]) == ("p", "Burstable", "/kubepods/burstable/poduid-p")
    assert found["containers"][0]["cri"]["unified"] == {
        "memory.low": "67108864",
        "memory.high": "195452928",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }
    assert found["sandbox"]["overhead"]["memory_limit_in_bytes"] == 1 << 20
    levels = [cgroup["level"] for cgroup in document["cgroups"]]
    assert levels == ["node", "qos", "qos", "pod", "container"]
    node, *_, own = document["cgroups"]
    assert (node["qos"], node["pod"], node["container"]) == (None, None, None)
    assert (own["pod"], own["container"], own["qos"]) == ("uid-p", "c", "Burstable")
    assert own["knobs"]["memory.low"]["written"] == own["knobs"]["memory.low"]["value"] == "67108864"
    assert own["knobs"]["memory.min"] == own["knobs"]["memory.min"] | {"written": None, "value": "0"}
    assert own["knobs"]["memory.high"]["reason"]["arithmetic"].startswith("67108864 + (209715200 - 67108864) * 0.9")
    pod_max = next(cgroup for cgroup in document["cgroups"] if cgroup["level"] == "pod")["knobs"]["memory.max"]
    assert pod_max["reason"]["because"][0]["revision"] == "pod sums v1.32"
    assert document["refusals"] == []


def test_an_unwritten_file_is_absent():
    plan = expect([pod()], Kubelet.of(node=NODE, release="1.36"))
    assert plan.node.knobs[Knob.MEMORY_HIGH].written is ABSENT
    assert plan.node.knobs[Knob.MEMORY_HIGH].reason.revision == "kernel cgroup v2"
