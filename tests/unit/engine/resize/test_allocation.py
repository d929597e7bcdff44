"""Infeasible and deferred resizes, and the order of several."""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.engine.resize import ResizeOutcome, resize_pods
from memqos.errors import UsageError
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode, SwapBehavior
from memqos.model.pod import ResizePolicy
from tests.unit.engine.pods import amounts, container, equal, pod

NODE = NodeFacts(memory=4 << 30, swap=1 << 30, cpus=4)
ON = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True}, eviction_hard={})
STATIC = replace(ON, cpu_manager_policy="static")


def resized(old, new, release="1.36", settings=ON, others=()):
    plan = resize_pods([old, *others], [new], Kubelet.of(node=NODE, settings=settings, release=release))
    return plan.resizes[0]


def requesting(cpu, memory, name="p", **more):
    return pod(container({"cpu": cpu, "memory": memory}), name=name, **more)


OTHER = requesting("2", "2Gi", "other")


@pytest.mark.parametrize(("release", "outcome", "message"), [
    ("1.27", "Infeasible", ""),
    ("1.32", "Infeasible", "Node didn't have enough capacity: memory, requested: 5368709120, capacity: 4294967296"),
    ("1.35", "Infeasible", "Node didn't have enough capacity: memory, requested: 5368709120, capacity: 4294967296"),
    ("1.36", "Deferred",
     "Node didn't have enough resource: memory, requested: 5368709120, used: 2147483648, capacity: 4294967296"),
])  # fmt: skip
def test_more_than_the_node_has(release, outcome, message):
    found = resized(requesting("1", "1Gi"), requesting("1", "5Gi"), release, others=(OTHER,))
    assert (found.outcome.value, found.message, found.steps) == (outcome, message, ())


@pytest.mark.parametrize(("release", "message"), [
    ("1.31", ""), ("1.36", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"),
])  # fmt: skip
def test_more_than_the_unused_part(release, message):
    found = resized(requesting("1", "1Gi"), requesting("3", "3Gi"), release, others=(OTHER,))
    assert (found.outcome, found.message) == (ResizeOutcome.DEFERRED, message)
    assert {one.name: one.value for one in found.reason.inputs} == {
        "cpu requested": "3000", "cpu of other pods": "2000", "cpu allocatable": "4000",
        "memory requested": "3221225472", "memory of other pods": "2147483648", "memory allocatable": "4294967296",
    }  # fmt: skip


# Up to 1.33 an impossible size is compared with Node.status.allocatable, without eviction thresholds.
@pytest.mark.parametrize(("release", "outcome"), [("1.33", "Infeasible"), ("1.34", "Deferred")])
def test_the_eviction_threshold(release, outcome):
    settings = replace(ON, eviction_hard={"memory.available": "1Gi"})
    assert resized(requesting("1", "1Gi"), requesting("1", "3500Mi"), release, settings).outcome.value == outcome


def test_a_threshold_of_all_memory():
    settings = replace(ON, eviction_hard={"memory.available": "2Gi"}, system_reserved=amounts({"memory": "2Gi"}))
    found = resized(requesting("1", "1Mi"), requesting("1", "2Mi"), "1.36", settings)
    assert found.message.endswith("capacity: 0")


@pytest.mark.parametrize(("release", "settings", "new", "message"), [
    ("1.31", STATIC, equal("2", "1Gi"), None),
    ("1.32", STATIC, equal("1", "2Gi"), "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"),
    ("1.33", STATIC, equal("1", "2Gi"), "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"),
    ("1.34", STATIC, equal("1", "2Gi"), None),
    ("1.34", STATIC, equal("2", "1Gi"),
     'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'),
    ("1.33", replace(STATIC, feature_gates={"InPlacePodVerticalScalingExclusiveCPUs": True}), equal("2", "1Gi"), None),
    ("1.34", replace(STATIC, feature_gates={"InPlacePodVerticalScalingExclusiveCPUs": True}), equal("2", "1Gi"), None),
])  # fmt: skip
def test_exclusive_cpus(release, settings, new, message):
    gates = {"InPlacePodVerticalScaling": True, **settings.feature_gates}
    found = resized(pod(equal("1", "1Gi")), pod(new), release, replace(settings, feature_gates=gates))
    assert found.message == (message or "")
    assert found.outcome.value == ("InProgress" if message is None else "Infeasible")


@pytest.mark.parametrize(("release", "message"), [
    ("1.32", None),
    ("1.33", "Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy"),
    ("1.34", 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'),
])  # fmt: skip
def test_exclusive_numa_nodes(release, message):
    node = replace(NODE, numa_nodes=(NumaNode(id=0, memory=4 << 30, cpus=(0, 1, 2, 3)),))
    settings = replace(
        ON, memory_manager_policy="Static", system_reserved=amounts({"memory": "100Mi"}),
        reserved_memory=((0, amounts({"memory": "100Mi"})),),
    )  # fmt: skip
    plan = resize_pods(
        [pod(equal("1", "1Gi"))], [pod(equal("1", "2Gi"))], Kubelet.of(node=node, settings=settings, release=release)
    )
    [found] = plan.resizes
    assert found.message == (message or "")
    assert found.outcome.value == ("InProgress" if message is None else "Infeasible")


LIMITED = replace(ON, swap_behavior=SwapBehavior.LIMITED)


@pytest.mark.parametrize(("release", "policy", "old", "new", "outcome"), [
    ("1.33", {}, "1Gi", "2Gi", "Infeasible"),
    ("1.36", {}, "1Gi", "2Gi", "Infeasible"),
    ("1.36", {"memory": ResizePolicy.RESTART_CONTAINER}, "1Gi", "2Gi", "InProgress"),
    ("1.36", {"cpu": ResizePolicy.RESTART_CONTAINER}, "1Gi", "2Gi", "Infeasible"),
    ("1.32", {}, "1Gi", "2Gi", "InProgress"),
])  # fmt: skip
def test_containers_with_swap(release, policy, old, new, outcome):
    gates = {**ON.feature_gates, "NodeSwap": True}
    first, second = (pod(container({"memory": one}, resize_policy=policy)) for one in (old, new))
    found = resized(first, second, release, replace(LIMITED, feature_gates=gates))
    assert found.outcome.value == outcome
    if outcome == "Infeasible":
        assert found.message == "In-place resize of containers with swap is not supported."


def test_one_container_with_swap_among_others_is_enough():
    settings = replace(LIMITED, feature_gates={**ON.feature_gates, "NodeSwap": True})
    first, second = (
        pod(container({"memory": "1Gi"}), container({"memory": size}, name="d")) for size in ("1Gi", "2Gi")
    )
    assert resized(first, second, "1.36", settings).outcome.value == "Infeasible"


@pytest.mark.parametrize("change", [
    {"swap_controller": False},
    {"memory": 4 << 30},
])  # fmt: skip
def test_without_swap(change):
    old, new = (pod(container({"memory": one}, {"memory": "3Gi"}), priority=2_000_000_000) for one in ("1Gi", "2Gi"))
    # A critical pod never swaps, and no pod swaps on a node without the controller.
    found = resize_pods(
        [old], [new], Kubelet.of(node=replace(NODE, **change), settings=LIMITED, release="1.36")
    ).resizes[0]
    assert found.outcome is ResizeOutcome.IN_PROGRESS


def test_no_change():
    found = resized(requesting("1", "1Gi"), requesting("1000m", "1Gi"))
    assert (found.outcome, found.steps) == (ResizeOutcome.UNCHANGED, ())


def test_a_pod_that_does_not_run():
    with pytest.raises(UsageError, match="the pod default/q is not running, so it cannot be resized") as caught:
        resized(requesting("1", "1Gi"), requesting("1", "1Gi", "q"))
    assert caught.value.next_step == "Running pods: default/p."


def test_a_pod_is_found_by_its_name():
    plan = resize_pods(
        [requesting("1", "1Gi")],
        [replace(requesting("2", "1Gi"), uid="another")],
        Kubelet.of(node=NODE, settings=ON, release="1.36"),
    )
    assert plan.resizes[0].uid == "uid-p"


PODS = [
    requesting("500m", "512Mi", "low", priority=1),
    requesting("500m", "512Mi", "high", priority=9),
    pod(equal("500m", "512Mi"), name="guaranteed", priority=1),
    requesting("500m", "512Mi", "shrinks"),
]
WANTED = [
    requesting("600m", "512Mi", "low", priority=1),
    requesting("500m", "600Mi", "high", priority=9),
    pod(equal("600m", "512Mi"), name="guaranteed", priority=1),
    requesting("400m", "512Mi", "shrinks"),
]


@pytest.mark.parametrize(("release", "order"), [
    ("1.33", ["low", "high", "guaranteed", "shrinks"]),
    ("1.34", ["shrinks", "high", "guaranteed", "low"]),
    ("1.36", ["shrinks", "high", "guaranteed", "low"]),
])  # fmt: skip
def test_the_order_of_several(release, order):
    plan = resize_pods(PODS, WANTED, Kubelet.of(node=NODE, settings=ON, release=release))
    assert [one.name for one in plan.resizes] == order
    assert all(one.outcome is ResizeOutcome.IN_PROGRESS for one in plan.resizes)


def test_freed_resources_are_available_to_the_next():
    pods = [requesting("3", "1Gi", "a"), requesting("1", "1Gi", "b")]
    wanted = [requesting("3", "1Gi", "b"), requesting("1", "1Gi", "a")]
    plan = resize_pods(pods, wanted, Kubelet.of(node=NODE, settings=ON, release="1.36"))
    assert [(one.name, one.outcome.value) for one in plan.resizes] == [("a", "InProgress"), ("b", "InProgress")]
    plan = resize_pods(pods, wanted, Kubelet.of(node=NODE, settings=ON, release="1.33"))
    assert [(one.name, one.outcome.value) for one in plan.resizes] == [("b", "Deferred"), ("a", "InProgress")]


def test_an_exact_fit_is_accepted():
    assert resized(requesting("1", "1Gi"), requesting("4", "4Gi"), "1.33").outcome is ResizeOutcome.IN_PROGRESS


def changed(*changes, release="1.36"):
    """The steps on containers a, b … of one pod with these changes: requests before and after, policy."""
    limits = {"cpu": "1", "memory": "1Gi"}
    old, new = (
        pod(*(
            container(change[side], limits, name=name, resize_policy=change[2])
            for name, change in zip("abc", changes, strict=False)
        ))
        for side in (0, 1)
    )  # fmt: skip
    return [(one.kind.value, one.container) for one in resized(old, new, release).steps if one.container]


def test_a_shrinking_container_is_updated_first():
    little, much = {"cpu": "100m"}, {"cpu": "200m"}
    assert changed((little, much, {}), (much, little, {})) == [
        ("UpdateContainerResources", "b"), ("UpdateContainerResources", "a"),
    ]  # fmt: skip


def test_one_is_recreated_and_the_next_is_updated():
    little, much = {"memory": "64Mi"}, {"memory": "128Mi"}
    restart = {"memory": ResizePolicy.RESTART_CONTAINER}
    assert changed((little, much, restart), (little, much, {}), (little, little, {})) == [
        ("StopContainer", "a"), ("UpdateContainerResources", "b"), ("StartContainer", "a"),
    ]  # fmt: skip


def test_plans_are_of_the_requested_variant():
    one = requesting("1", "1Gi")
    documented = Kubelet.of(node=NODE, settings=ON, release="1.27", variant=Variant.DOCUMENTED)
    plan = resize_pods([one], [one], documented)
    assert {side.revisions["memory-qos"] for side in (plan.before, plan.after)} == {"memory-qos v1.27 documented"}
