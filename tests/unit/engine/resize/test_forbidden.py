"""Resizes that the API server refuses, by release."""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import ResizeOutcome, resize_pods
from memqos.model.node import KubeletSettings
from memqos.model.pod import ContainerKind, ResizePolicy
from tests.unit.engine.pods import NODE, amounts, container, equal, pod, resources

RESTART = {"memory": ResizePolicy.RESTART_CONTAINER}
DEBUG = container(name="debug", kind=ContainerKind.EPHEMERAL)
SIDECAR, INIT = ContainerKind.SIDECAR, ContainerKind.INIT
OLD = container({"cpu": "1", "memory": "64Mi"}, {"memory": "128Mi"})
NEW = container({"cpu": "1", "memory": "80Mi"}, {"memory": "128Mi"})


def said(old, new, release, **gates):
    known = {} if release == "1.26" else {"InPlacePodVerticalScaling": True}
    settings = KubeletSettings(feature_gates={**known, **gates})
    [found] = resize_pods([old], [new], Kubelet.of(node=NODE, settings=settings, release=release)).resizes
    assert found.outcome is not ResizeOutcome.FORBIDDEN or found.steps == ()
    return found.message if found.outcome is ResizeOutcome.FORBIDDEN else found.outcome.value


def test_before_in_place_resize():
    assert said(pod(OLD), pod(NEW), "1.26") == (
        "pod updates may not change resources in 1.26: in-place resize begins with 1.27"
    )


@pytest.mark.parametrize(("release", "answer"), [
    ("1.27", "pod updates may not change resources while the gate InPlacePodVerticalScaling is off"),
    ("1.32", "pod updates may not change resources while the gate InPlacePodVerticalScaling is off"),
    ("1.34", "Infeasible"),
    ("1.35", "InProgress"),
])  # fmt: skip
def test_with_the_gate_off(release, answer):
    settings = KubeletSettings(feature_gates={} if release == "1.35" else {"InPlacePodVerticalScaling": False})
    [found] = resize_pods([pod(OLD)], [pod(NEW)], Kubelet.of(node=NODE, settings=settings, release=release)).resizes
    assert answer in {found.message, found.outcome.value}
    if answer == "Infeasible":
        assert found.message == "InPlacePodVerticalScaling is disabled"


@pytest.mark.parametrize(("release", "answer"), [
    ("1.31", "Ignored"), ("1.32", "static pods cannot be resized"), ("1.36", "static pods cannot be resized"),
])  # fmt: skip
def test_static_pods(release, answer):
    assert said(pod(OLD, static=True), pod(NEW, static=True), release) == answer


@pytest.mark.parametrize(("new", "answer"), [
    (pod(NEW, container(name="d")), "containers may not be added or removed on resize"),
    (pod(replace(NEW, name="d")), "containers may not be renamed or reordered on resize"),
    (pod(NEW, init_containers=(container(name="i"),)), "initContainers may not be added or removed on resize"),
    (pod(container({"memory": "128Mi"}, {"memory": "128Mi"})), "resource requests cannot be removed"),
    (pod(container({"cpu": "1", "memory": "64Mi"})), "resource limits cannot be removed"),
    (pod(replace(NEW, image="other")), "only cpu and memory resources are mutable"),
    (pod(container({"cpu": "1", "memory": "64Mi", "hugepages-2Mi": "2Mi"}, {"memory": "128Mi"})),
     "only cpu and memory resources are mutable"),
    (pod(NEW, priority=5), "only cpu and memory resources are mutable"),
    (pod(NEW, ephemeral_containers=(DEBUG,)), "only cpu and memory resources are mutable"),
    (pod(container({"cpu": "1", "memory": "128Mi"}, {"cpu": "1", "memory": "128Mi"})),
     "Pod QOS Class may not change as a result of resizing"),
])  # fmt: skip
def test_changes_of_other_fields(new, answer):
    assert said(pod(OLD), new, "1.36") == answer


def test_changes_accepted_by_the_alpha():
    # Without a limit the kubelet of the alpha does not resize the container.
    assert said(pod(OLD), pod(container({"cpu": "1", "memory": "64Mi"})), "1.31") == "InProgress"


@pytest.mark.parametrize(("old", "new", "answer"), [
    ({"memory": "128Mi"}, {"memory": "100Mi"},
     "memory limits cannot be decreased unless resizePolicy is RestartContainer"),
    ({"cpu": "2"}, {"cpu": "2", "memory": "100Mi"},
     "memory limits cannot be added unless resizePolicy is RestartContainer"),
    ({"memory": "128Mi"}, {"memory": "200Mi"}, "InProgress"),
    ({"cpu": "2"}, {"cpu": "3"}, "InProgress"),
])  # fmt: skip
def test_lower_limits_in_133(old, new, answer):
    request = {"cpu": "1", "memory": "64Mi"}
    before, after = (pod(container(request, limits)) for limits in (old, new))
    assert said(before, after, "1.33") == answer
    assert said(before, after, "1.34") == "InProgress"
    assert said(before, pod(replace(after.containers[0], resize_policy=RESTART)), "1.33") == "InProgress"


@pytest.mark.parametrize(("kind", "release", "policy", "answer"), [
    (SIDECAR, "1.32", {}, "resources for non-sidecar init containers are immutable"),
    (SIDECAR, "1.33", {}, "InProgress"),
    (INIT, "1.35", {}, "resources for non-sidecar init containers are immutable"),
    (INIT, "1.36", {}, "InProgress"),
    (INIT, "1.36", RESTART, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"),
])  # fmt: skip
def test_init_containers(kind, release, policy, answer):
    old, new = (
        pod(OLD, init_containers=(container({"memory": size}, kind=kind, name="i", resize_policy=policy),))
        for size in ("8Mi", "9Mi")
    )
    assert said(old, new, release) == answer


def test_ephemeral_containers_have_no_resources():
    old, new = (
        pod(OLD, ephemeral_containers=(container({"memory": size}, kind=ContainerKind.EPHEMERAL, name="e"),))
        for size in ("8Mi", "9Mi")
    )
    assert said(old, new, "1.36") == "resources for non-sidecar init containers are immutable"


POD_LEVEL_GATE = "InPlacePodLevelResourcesVerticalScaling"
LEVEL = resources({"cpu": "2", "memory": "200Mi", "hugepages-2Mi": "2Mi"}, {"memory": "300Mi"})


@pytest.mark.parametrize(("release", "gate", "new", "answer"), [
    ("1.32", None, LEVEL, "pods with pod-level resources cannot be resized"),
    ("1.34", None, LEVEL, "pods with pod-level resources cannot be resized"),
    ("1.35", False, LEVEL,
     f"resize of pods with pod-level resources is forbidden while the gate {POD_LEVEL_GATE} is off"),
    ("1.36", True, None, "pod-level resources cannot be removed"),
    ("1.36", True, replace(LEVEL, requests=amounts({"cpu": "2"})), "pod-level resource requests cannot be removed"),
    ("1.36", True, replace(LEVEL, limits={}), "pod-level resource limits cannot be removed"),
    ("1.36", True, replace(LEVEL, requests={**LEVEL.requests, **amounts({"hugepages-2Mi": "4Mi"})}),
     "only cpu and memory resources are mutable at pod-level"),
    ("1.36", True, replace(LEVEL, limits=amounts({"memory": "400Mi"})), "InProgress"),
])  # fmt: skip
def test_pod_level_resources(release, gate, new, answer):
    gates = {"PodLevelResources": True}
    if gate is not None:
        gates["InPlacePodLevelResourcesVerticalScaling"] = gate
    old = pod(OLD, resources=LEVEL)
    wanted = replace(old, resources=new, containers=(NEW,) if new is LEVEL else old.containers)
    assert said(old, wanted, release, **gates) == answer


def test_a_guaranteed_pod_stays_one():
    assert said(pod(equal("1", "1Gi")), pod(equal("2", "2Gi")), "1.36") == "InProgress"


@pytest.mark.parametrize(("limit", "answer"), [
    ("400Mi", "InProgress"), ("401Mi", "Pod QOS Class may not change as a result of resizing"),
])  # fmt: skip
def test_pod_level_resources_decide_the_class(limit, answer):
    gates = {"PodLevelResources": True, "InPlacePodLevelResourcesVerticalScaling": True}
    before = {"cpu": "2", "memory": "300Mi"}
    old = pod(OLD, resources=resources(before, before))
    new = pod(OLD, resources=resources({"cpu": "2", "memory": "400Mi"}, {"cpu": "2", "memory": limit}))
    assert said(old, new, "1.36", **gates) == answer


def test_the_resize_policy_of_an_init_container_may_change():
    """The policy alone does not change the resources, which are immutable there."""
    old, new = (
        pod(own, init_containers=(container({"memory": "8Mi"}, kind=INIT, name="i", resize_policy=policy),))
        for own, policy in ((OLD, {}), (NEW, RESTART))
    )
    assert said(old, new, "1.35") == "InProgress"


def test_a_static_pod_by_its_running_state():
    assert said(pod(OLD, static=True), pod(NEW), "1.36") == "static pods cannot be resized"
