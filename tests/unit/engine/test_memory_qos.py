"""Edge cases of the memory-qos revisions beyond the pods of the golden texts."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.node import KubeletSettings
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod

FACTOR = replace(ON, throttling_factor=Fraction(8, 10))


def high(one, release, settings=FACTOR, **more):
    plan = expect([one], Kubelet.of(node=NODE, settings=settings, release=release, **more))
    return plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH]


@pytest.mark.parametrize(("request_", "written"), [("799999", Bytes(800000)), ("800000", ABSENT), ("800001", ABSENT)])
def test_122_writes_memory_high_only_above_the_request(request_, written):
    found = high(pod(container({"memory": request_}, {"memory": "1000000"})), "1.22")
    assert found.written == written


@pytest.mark.parametrize(("variant", "written"), [(Variant.SHIPPED, ABSENT), (Variant.DOCUMENTED, Bytes(6871945216))])
@pytest.mark.parametrize("release", ["1.27", "1.36"])
def test_neither_request_nor_limit_as_shipped_and_as_documented(release, variant, written):
    # 0.8 of 8Gi, down to a page.
    assert high(pod(container()), release, variant=variant).written == written


def test_an_input_without_a_place():
    both = high(pod(container({"memory": "1Gi"}, {"memory": "2Gi"})), "1.36").reason.inputs
    assert [(one.name, one.value, one.origin) for one in both[:2]] == [
        ("requests.memory", "1073741824", "given"),
        ("limits.memory", "2147483648", "given"),
    ]
    none = high(pod(container({"cpu": "1"})), "1.27", variant=Variant.DOCUMENTED).reason.inputs
    assert [(one.value, one.origin) for one in none[:2]] == [("none", "not given"), ("none", "not given")]


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.36", "1.37"])
def test_a_reservation_without_memory_protects_none(release):
    settings = KubeletSettings(
        feature_gates={"MemoryQoS": True},
        kube_reserved=amounts({"cpu": "500m"}),
        kube_reserved_cgroup="/kube",
        enforce_node_allocatable=("pods", "kube-reserved"),
    )
    (cgroup,) = expect([], Kubelet.of(node=NODE, settings=settings, release=release)).reserved
    assert cgroup.knobs[Knob.MEMORY_MIN].written is ABSENT


@pytest.mark.parametrize("release", ["1.22", "1.27"])
def test_zero_sums_are_not_written(release):
    plan = expect([pod(container())], Kubelet.of(node=NODE, settings=FACTOR, release=release))
    for cgroup in (plan.node, plan.qos[0], plan.pods[0].cgroup):
        assert cgroup.knobs[Knob.MEMORY_MIN].written is ABSENT
    one_byte = expect([pod(container({"memory": "1"}))], Kubelet.of(node=NODE, settings=FACTOR, release=release))
    for cgroup in (one_byte.node, one_byte.qos[0], one_byte.pods[0].cgroup):
        assert cgroup.knobs[Knob.MEMORY_MIN].written == Bytes(1)


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.35"])
def test_kubepods_is_protected_for_all_its_pods_together(release):
    pods = [
        pod(equal("100m", "10Mi"), name="a"),
        pod(equal("100m", "20Mi"), name="b"),
        pod(container({"memory": "40Mi"}), name="c"),
        pod(container({"memory": "80Mi"}), name="d"),
    ]
    plan = expect(pods, Kubelet.of(node=NODE, settings=FACTOR, release=release))
    found = [cgroup.knobs[Knob.MEMORY_MIN].written for cgroup in (plan.node, plan.qos[0])]
    assert found == [Bytes(150 << 20), Bytes(120 << 20)]
