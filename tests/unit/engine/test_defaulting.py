"""API defaulting of amounts, as a plan shows it."""

from dataclasses import replace

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.defaulting import in_whole_millis, seen_by, with_requests
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import NODE, amounts, container, pod, resources


@pytest.mark.parametrize(
    ("given", "kept"),
    [("100.5m", "101m"), ("100m", "100m"), ("1.0001", "1001m"), ("1u", "1m"), ("64Mi", "64Mi"), ("0", "0")],
)
def test_amounts_are_rounded_up_to_whole_millis(given, kept):
    both = {"cpu": given, "memory": "1Gi"}
    one = pod(container(both), init_containers=(container(None, both),), resources=resources(None, both))
    found = in_whole_millis(one)
    expected = amounts({"cpu": kept, "memory": "1Gi"})
    assert found.containers[0].resources.requests == found.init_containers[0].resources.limits == expected
    assert found.resources.limits == expected


def test_a_limit_becomes_the_request_as_it_was_written():
    found = with_requests(container(None, {"cpu": "0.0001"}, origin={"limits.cpu": "a.yaml:3"}))
    assert found.resources == resources({"cpu": "100u"}, {"cpu": "100u"})
    assert found.origin == {"limits.cpu": "a.yaml:3", "requests.cpu": "a.yaml:3, from the limit"}


def test_a_defaulted_pod_does_not_change():
    one = container({"memory": "1Gi"}, {"memory": "2Gi"})
    assert with_requests(one) is one
    whole = pod(one, resources=resources({"memory": "2Gi"}))
    assert in_whole_millis(whole) is whole
    bare = pod(one)
    assert seen_by(bare, kubelet("1.36", {})) is bare


def test_a_sidecar_is_an_init_container_in_releases_without_sidecars():
    one = pod(container(), init_containers=(container({"memory": "1Gi"}, kind=ContainerKind.SIDECAR, name="s"),))
    for release, kind in (("1.27", ContainerKind.INIT), ("1.29", ContainerKind.SIDECAR)):
        assert seen_by(one, kubelet(release, {})).init_containers[0].kind is kind


def test_a_pod_level_request_is_filled_from_init_containers_too():
    """Their requests come from their limits first."""
    own = resources({}, {"memory": "2Gi"})
    one = pod(container({"memory": "64Mi"}), init_containers=(container(None, {"memory": "1Gi"}, name="i"),))
    found = seen_by(replace(one, resources=own), kubelet("1.34", {"PodLevelResources": True}))
    assert found.resources.requests == amounts({"memory": "1Gi"})


def test_overhead_is_kept_in_whole_millis():
    one = pod(container({"memory": "1Mi"}), overhead=amounts({"cpu": "0.0001", "memory": "1Mi"}))
    assert in_whole_millis(one).overhead == amounts({"cpu": "1m", "memory": "1Mi"})


def test_overhead_is_rounded_too():
    plan = expect(
        [pod(container(None, {"memory": "1Mi"}), overhead={"memory": Quantity.parse("0.0001")})],
        Kubelet.of(node=NODE, release="1.36"),
    )
    # A thousandth of a byte more than 1Mi is one byte more.
    assert str(plan.pods[0].cgroup.knobs[Knob.MEMORY_MAX].written) == "1048577"


@pytest.mark.parametrize(
    ("gate", "memory", "weight"),
    [
        (False, "1073741824", "20"),  # 1 + (512 - 2) * 9999 / 262142
        (True, "1073741824", "79"),  # 1 + (2048 - 2) * 9999 / 262142
    ],
)
def test_without_the_gate_pod_level_memory_counts_for_burstable_and_cpu_does_not(gate, memory, weight):
    one = pod(
        container({"cpu": "500m", "memory": "64Mi"}),
        resources=resources({"cpu": "2", "memory": "1Gi"}),
    )
    settings = KubeletSettings(feature_gates={"MemoryQoS": True, "PodLevelResources": gate})
    burstable = expect([one], Kubelet.of(node=NODE, settings=settings, release="1.32")).qos[0]
    assert str(burstable.knobs[Knob.MEMORY_MIN].written) == memory
    assert str(burstable.knobs[Knob.CPU_WEIGHT].written) == weight


@pytest.mark.parametrize(
    ("release", "own", "limit"),
    [
        # 1.32 has only cpu and memory at pod level; 1.33 sets the limit although a request is given.
        ("1.32", ({}, {"hugepages-2Mi": "8Mi", "memory": "1Gi"}), "4194304"),
        ("1.33", ({}, {"hugepages-2Mi": "8Mi", "memory": "1Gi"}), "8388608"),
        ("1.33", ({"hugepages-2Mi": "8Mi", "memory": "1Gi"}, {}), "8388608"),
        ("1.34", ({"hugepages-2Mi": "8Mi", "memory": "1Gi"}, {}), "8388608"),
        ("1.33", ({"memory": "1Gi"}, {}), "4194304"),
    ],
)
def test_huge_pages_at_pod_level(release, own, limit):
    one = pod(container({"memory": "64Mi"}, {"hugepages-2Mi": "4Mi"}), resources=resources(*own))
    settings = KubeletSettings(feature_gates={"PodLevelResources": True})
    plan = expect([one], Kubelet.of(node=NODE, settings=settings, release=release))
    assert str(plan.pods[0].cgroup.knobs[Knob.HUGETLB_2MB_MAX].written) == limit


@pytest.mark.parametrize(("release", "counts"), [("1.33", True), ("1.34", False)])
def test_a_huge_page_request_at_pod_level_gets_no_default_limit(release, counts):
    one = pod(container(None, {"hugepages-2Mi": "4Mi"}), resources=resources({"hugepages-2Mi": "8Mi"}))
    seen = seen_by(one, kubelet(release, {"PodLevelResources": True}))
    assert ("hugepages-2Mi" in seen.resources.limits) is counts


def test_pod_level_requests_sum_the_written_amounts():
    one = pod(
        container({"cpu": "1n"}), container({"cpu": "1.9999"}, name="d"), resources=resources(None, {"memory": "1Gi"})
    )
    seen = seen_by(one, kubelet("1.36", {}))
    assert seen.resources.requests["cpu"] == Quantity.parse("2")
    assert [str(each.resources.requests["cpu"].milli_value) for each in seen.containers] == ["1", "2000"]


def kubelet(release, gates):
    return Kubelet.of(node=NODE, settings=KubeletSettings(feature_gates=gates), release=release)
