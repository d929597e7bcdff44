"""A VerticalPodAutoscaler's webhook. Rows: kubernetes/autoscaler, vertical-pod-autoscaler `TestUpdateResourceRequests`,
`TestGetProportionalResourceLimitCPU`, of August 2026.
"""

import pytest

from memqos.engine.admission.vertical_pod_autoscaler import what_it_may_change, with_recommendation
from memqos.model.cluster import (
    ClusterObjects,
    ContainerPolicy,
    Recommendation,
    UpdateMode,
    VerticalPodAutoscaler,
)
from memqos.model.pod import Controller
from tests.unit.engine.admission.pods import admit, limits, new
from tests.unit.engine.pods import amounts, container, resources

WEB = Controller("Deployment", "web")


def autoscaler(target=None, *, policy=None, mode=UpdateMode.RECREATE, name="v", **more):
    found = None if target is None else (Recommendation(container="c", target=amounts(target)),)
    return VerticalPodAutoscaler(
        name=name, namespace="default", kind="Deployment", target="web", update_mode=mode,
        policies=() if policy is None else (policy,), recommendations=found, **more,
    )  # fmt: skip


def policy(least=None, most=None, name="c", **more):
    return ContainerPolicy(container=name, min_allowed=amounts(least), max_allowed=amounts(most), **more)


def updated(own, vpa, *ranges):
    """The resources of a pod's only container after the webhook."""
    objects = ClusterObjects(autoscalers=(vpa,), limit_ranges=ranges, recommendations=True)
    (found,) = admit(new(own, cluster=objects, controller=WEB)).pods
    return found.containers[0].resources


RANGE = policy({"cpu": "1", "memory": "100Mi"}, {"cpu": "3", "memory": "1Gi"})
TARGET = {"cpu": "2", "memory": "200Mi"}
MORE = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("own", "vpa", "requests", "limited"),
    [
        (container(), autoscaler(TARGET, policy=RANGE), TARGET, None),
        (
            container(),
            autoscaler({"cpu": "3", "memory": "150Mi"}, policy=policy({"cpu": "4", "memory": "300Mi"})),
            {"cpu": "4", "memory": "300Mi"},
            None,
        ),
        (
            container(),
            autoscaler({"cpu": "7", "memory": "2Gi"}, policy=policy(None, {"cpu": "5", "memory": "1Gi"}, name="*")),
            {"cpu": "5", "memory": "1Gi"},
            None,
        ),
        (container({"cpu": "2", "memory": "100Mi"}), autoscaler(TARGET), TARGET, None),
        (container(TARGET, TARGET), autoscaler(TARGET), TARGET, TARGET),
        (
            container({"cpu": "1", "memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"}),
            autoscaler(TARGET),
            TARGET,
            {"cpu": "4", "memory": "400Mi"},
        ),
        (
            container({"cpu": "1", "memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"}),
            autoscaler(TARGET, policy=policy(controls_limits=False)),
            TARGET,
            {"cpu": "2", "memory": "200Mi"},
        ),
        (
            container({"cpu": "1", "memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"}),
            autoscaler({"cpu": "3", "memory": "500Mi"}, policy=policy(controls_limits=False)),
            {"cpu": "2", "memory": "200Mi"},
            {"cpu": "2", "memory": "200Mi"},
        ),
        # Scaled without rounding up: 2000 * 1000 / 1500 thousandths.
        (container({"cpu": "1.5"}, {"cpu": "2"}), autoscaler({"cpu": "1"}), {"cpu": "1"}, {"cpu": "1333m"}),
        # Another container's recommendation changes nothing, nor does an empty one.
        (container(TARGET, TARGET, name="d"), autoscaler({"cpu": "9"}), TARGET, TARGET),
        (container(TARGET, TARGET), autoscaler({"memory": "1Gi"}), MORE, MORE),
    ],
)  # fmt: skip
def test_requests_and_limits(own, vpa, requests, limited):
    assert updated(own, vpa) == resources(requests, limited)


def test_a_limit_that_64_bits_do_not_hold_is_capped():
    found = updated(container({"cpu": "1m"}, {"cpu": "10G"}), autoscaler({"cpu": "10G"}))
    assert found.limits["cpu"].milli_value == 2**63 - 1


def test_a_limit_range_gives_the_usual_limit():
    found = updated(
        container({"memory": "100Mi"}), autoscaler({"memory": "200Mi"}), limits(default={"memory": "100Mi"})
    )
    assert found == resources({"memory": "200Mi"}, {"memory": "200Mi"})


@pytest.mark.parametrize(
    ("own", "bounds", "requests", "limited"),
    [
        # The limit is twice the request: it meets the maximum at half of it.
        (container({"memory": "100Mi"}, {"memory": "200Mi"}), {"max": "300Mi"}, "150Mi", "300Mi"),
        (container({"memory": "100Mi"}, {"memory": "200Mi"}), {"min": "250Mi"}, "250Mi", "500Mi"),
        (container(None, {"memory": "200Mi"}), {"max": "250Mi", "min": "1Mi"}, "200Mi", "200Mi"),
    ],
)
def test_a_limit_range_of_containers_bounds_the_target(own, bounds, requests, limited):
    ranges = limits(**{field: {"memory": amount} for field, amount in bounds.items()})
    found = updated(own, autoscaler({"memory": "200Mi"}), ranges)
    assert found == resources({"memory": requests}, {"memory": limited})


def test_a_limit_range_without_the_resource_bounds_nothing():
    found = updated(container({"memory": "100Mi"}), autoscaler({"memory": "200Mi"}), limits(default={"cpu": "1"}))
    assert found == resources({"memory": "200Mi", "cpu": "1"}, {"cpu": "1"})
    ratio = limits(max_limit_request_ratio={"cpu": "2"})
    assert updated(container(*[{"cpu": "1"}] * 2), autoscaler({"cpu": "2"}), ratio) == resources(*[{"cpu": "2"}] * 2)


@pytest.mark.parametrize(
    ("own", "bounds", "requests"),
    [
        # Limits of twice the requests, 400Mi together: they are scaled down to 200Mi.
        (({"memory": "100Mi"}, {"memory": "200Mi"}), {"max": {"memory": "200Mi"}}, "100Mi"),
        (({"memory": "100Mi"}, {"memory": "200Mi"}), {"max": {"memory": "400Mi"}}, "200Mi"),
        (({"memory": "100Mi"}, {"memory": "200Mi"}), {"min": {"memory": "300Mi"}}, "300Mi"),
        (({"memory": "100Mi"},), {"min": {"memory": "100Mi"}}, "200Mi"),
    ],
)
def test_a_limit_range_of_pods_scales_the_target(own, bounds, requests):
    found = updated(
        container(*own), autoscaler({"memory": "200Mi"}), limits("Pod", **bounds, max_limit_request_ratio={})
    )
    assert found.requests["memory"] == amounts({"memory": requests})["memory"]


def test_without_a_limit_there_is_no_boundary():
    bounds = [limits(max={"memory": "100Mi"}, default_request={"memory": "1Mi"}), limits("Pod", max={"memory": "1Gi"})]
    pod = new(container(), container({"memory": "1Mi"}, name="d"), controller=WEB)
    found = with_recommendation(pod, autoscaler({"memory": "200Mi"}), bounds)
    assert [one.resources for one in found.containers] == [resources({"memory": "200Mi"}), resources({"memory": "1Mi"})]


def test_the_oldest_autoscaler_counts():
    young = autoscaler({"memory": "1Gi"}, created="2026-02-01T00:00:00Z", name="a")
    old = autoscaler({"memory": "2Gi"}, created="2026-01-01T00:00:00Z", name="b")
    off = autoscaler({"memory": "3Gi"}, mode=UpdateMode.OFF, name="c")
    objects = ClusterObjects(autoscalers=(young, old, off), recommendations=True)
    (found,) = admit(new(container(), cluster=objects, controller=WEB)).pods
    assert found.containers[0].resources.requests == amounts({"memory": "2Gi"})
    (bare,) = admit(new(container(), cluster=objects)).pods
    assert bare.containers[0].resources == resources()


MAY = (
    "updateMode Recreate: it may change requests and limits of Deployment web's pods, and has no "
    "status.recommendation: the new values are not known"
)


@pytest.mark.parametrize(
    ("vpa", "said"),
    [
        (autoscaler(TARGET, mode=UpdateMode.OFF), "updateMode Off: it changes no pod of Deployment web"),
        (
            autoscaler(policy=policy({"memory": "1Mi"}, {"memory": "2Mi"}, off=True)),
            f"{MAY} (container c: memory from 1Mi, memory to 2Mi, mode Off)",
        ),
        (autoscaler(policy=policy(off=True)), f"{MAY} (container c: mode Off)"),
        (autoscaler(policy=policy(None, {"memory": "2Mi"})), f"{MAY} (container c: memory to 2Mi)"),
        (autoscaler(policy=policy()), MAY),
    ],
)
def test_notes_about_an_autoscaler(vpa, said):
    assert what_it_may_change(vpa) == said


def test_notes_about_a_recommendation():
    assert what_it_may_change(autoscaler({"memory": "1Gi"}, boosts=True)) == (
        "updateMode Recreate: new pods of Deployment web get its recommendation (requests.memory 1Gi of container c, "
        "before its policies), and limits in proportion; --vpa applies it; its startupBoost raises cpu while a "
        "container starts, which is not modelled"
    )
