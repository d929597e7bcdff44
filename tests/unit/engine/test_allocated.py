"""A pod's cgroups follow what its kubelet has allocated.

Sources of the rules: KEP-1287; kubelet v1.36.2 (kubelet_pods.go, allocation_manager.go, kuberuntime_manager.go);
kubernetes#126033 for restarts up to 1.31, kubernetes#130657 for oom_score_adj.
"""

from dataclasses import replace

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import knob_reasons, plan_tree
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Level
from memqos.engine.pod.allocated import allocated, allocation
from memqos.engine.resize import resize_pods
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import Container, ContainerKind, ContainerState, ContainerStatus, PodStatus, ResizePolicy
from memqos.model.reading import CgroupReading, Reading
from tests.unit.engine.pods import amounts, container, pod, resources

NODE = NodeFacts(memory=16 << 30, cpus=4)
GATE = {"InPlacePodVerticalScaling": True}
SMALL, LARGE = {"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "4Gi"}


def kubelet(release="1.35", gates=None, **more):
    default = GATE if release in {"1.27", "1.31", "1.32"} else {}
    settings = KubeletSettings(feature_gates=default if gates is None else gates, **more)
    return Kubelet.of(node=NODE, settings=settings, release=release)


def status(requests=None, limits=None, *, resources_=..., **more):
    """The status of the container c, with its allocated requests, and its limits in `resources`."""
    given = resources(requests, limits) if resources_ is ... else resources_
    allocated_ = None if requests is None else amounts(requests)
    origin = {"allocated.memory": "p.json:7", "resources.limits.memory": "p.json:9"}
    return ContainerStatus(name="c", allocated=allocated_, resources=given, origin=origin, **more)


def resized(*statuses, asked=LARGE, limit=None, generation=None, policy=None, **more):
    """A Burstable pod with the spec `asked`, whose kubelet reports these containers."""
    one = container(asked, {"memory": asked["memory"] if limit is None else limit}, resize_policy=policy or {})
    found = PodStatus(containers={one.name: one for one in statuses}, **more)
    return pod(one, status=found, generation=generation)


def planned(one, **more):
    return expect([one], kubelet(**more))


def maximum(plan):
    """(shown, unsettled) of memory.max, of the pod and of its container."""
    [found] = plan.pods
    return [
        (cgroup.knobs[Knob.MEMORY_MAX].shown, cgroup.knobs[Knob.MEMORY_MAX].unsettled)
        for cgroup in (found.cgroup, found.containers[0].cgroup)
    ]


OLD = status(SMALL, {"memory": "1Gi"})
NEW = status(LARGE, {"memory": "4Gi"})


@pytest.mark.parametrize(("release", "more"), [
    ("1.27", {"resize": "Deferred"}), ("1.31", {"resize": "Infeasible"}), ("1.32", {"resize": "Deferred"}),
    ("1.33", {"pending": "Deferred"}), ("1.34", {"pending": "Infeasible"}), ("1.37", {"pending": "Deferred"}),
])  # fmt: skip
def test_a_waiting_resize_changes_no_cgroup(release, more):
    plan = planned(resized(OLD, **more), release=release)
    assert maximum(plan) == [("1073741824", ""), ("1073741824", "")]
    assert plan.pods[0].containers[0].oom_score_adj == 938
    word = next(iter(more.values())).lower()
    reason = plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX].reason
    assert reason.inputs[0].origin == f"p.json:9: allocated 1Gi; 4Gi is requested and {word}"


def test_a_pod_of_a_release_without_resizes_follows_its_spec():
    assert maximum(planned(resized(OLD, pending="Deferred"), release="1.26")) == [("4294967296", "")] * 2


@pytest.mark.parametrize(("release", "one", "unsure"), [
    # With the gate off nothing was ever resized, and status and spec agree.
    ("1.32", resized(NEW), ""),
    ("1.32", resized(OLD), "1073741824"),
    ("1.34", resized(OLD, pending="Infeasible"), "1073741824"),
])  # fmt: skip
def test_the_gate_is_off(release, one, unsure):
    shown, why = maximum(planned(one, release=release, gates={"InPlacePodVerticalScaling": False}))[0]
    assert shown == ("4294967296" if not unsure else f"4294967296 or {unsure}")
    assert why.startswith("the gate InPlacePodVerticalScaling is off") is bool(unsure)


def test_the_gate_is_off_and_the_status_has_no_resources():
    one, off = resized(status(resources_=None), pending="Infeasible"), {"InPlacePodVerticalScaling": False}
    found = planned(one, release="1.33", gates=off)
    (shown, why), _ = maximum(found)
    assert (shown, "which the status does not report" in why) == ("4294967296", True)
    assert found.pods[0].containers[0].oom_score_adj_unsure == ""


def test_a_waiting_resize_without_allocated_limits_is_uncertain():
    found = maximum(planned(resized(status(SMALL, resources_=None), pending="Deferred")))
    why = "the resize is deferred, and the status does not report which limits are allocated"
    assert found == [("4294967296", why), ("4294967296", why)]


LIMITS_UNSAID = "neither k.json nor the pod's status reports which limits are allocated"


def test_a_waiting_resize_without_allocated_requests_is_uncertain():
    why = "the resize is deferred, and the status does not report the allocated resources"
    found = planned(resized(status(resources_=None), pending="Deferred")).pods[0].containers[0].cgroup.knobs
    assert [found[knob].unsettled for knob in (Knob.MEMORY_MAX, Knob.CPU_WEIGHT)] == [why, why]


# A kubelet's checkpoint up to 1.31 has only the allocated requests (kubelet `status/state/checkpoint.go`).
def test_unknown_limits_make_dependent_files_uncertain():
    one = resized(status(SMALL, resources_=None), resize="Infeasible", checkpoint="k.json")
    found = planned(one, release="1.31").pods[0]
    for cgroup in (found.cgroup, found.containers[0].cgroup):
        open_ = {knob for knob, expected in cgroup.knobs.items() if expected.unsettled}
        assert open_ == {Knob.MEMORY_MAX, Knob.MEMORY_HIGH, Knob.MEMORY_SWAP_MAX, Knob.CPU_MAX}
        assert cgroup.knobs[Knob.MEMORY_MAX].unsettled == f"the resize is infeasible, and {LIMITS_UNSAID}"
    assert found.containers[0].oom_score_adj == 938
    seen = planned(resized(status(SMALL, resources_=None), checkpoint="k.json"), release="1.31")
    assert maximum(seen)[1][1] == (
        f"the spec has other requests than the allocated ones, and {LIMITS_UNSAID}, the spec requests a resize "
        "that the kubelet had not accepted when this was read"
    )
    off = planned(resized(status(SMALL, resources_=None), checkpoint="k.json"), release="1.31", gates={})
    assert maximum(off)[1][1].endswith(f": the status has other resources than the spec, and {LIMITS_UNSAID}")


@pytest.mark.parametrize(("asked", "limits", "allocated_", "qos", "shown"), [
    # 1Gi and 1 CPU were allocated, so they are the limits, too.
    ({"cpu": "1", "memory": "4Gi"}, {"cpu": "1", "memory": "4Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed",
     [("1073741824", "")] * 2),
    ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"}, "Burstable",
     [("max", f"the resize is deferred, and {LIMITS_UNSAID}")] * 2),
])  # fmt: skip
def test_no_resize_changes_the_class(asked, limits, allocated_, qos, shown):
    told = PodStatus(resize="Deferred", checkpoint="k.json", containers={"c": status(allocated_, resources_=None)})
    plan = planned(pod(container(asked, limits), status=told), release="1.31")
    assert (plan.pods[0].qos, maximum(plan)) == (qos, shown)


def test_actual_resources_during_a_resize_come_from_the_status():
    why = "a resize is in progress, and the status does not report the containers' resources"
    found = planned(resized(status(LARGE, resources_=None), resize="InProgress"), release="1.31")
    assert maximum(found) == [("4294967296", why)] * 2
    assert found.pods[0].containers[0].cgroup.knobs[Knob.CPU_WEIGHT].unsettled == why


def test_limits_wait_with_requests_that_are_allocated_elsewhere():
    # Only the limit of c is raised; b's request does not fit, so the whole pod waits.
    one = resized(status(SMALL, {"memory": "1Gi"}), asked=SMALL, limit="2Gi", pending="Deferred")
    more = container(LARGE, name="b")
    found = replace(one, containers=(*one.containers, more), status=replace(one.status, containers={
        **one.status.containers, "b": ContainerStatus(name="b", allocated=amounts(SMALL), resources=resources(SMALL)),
    }))  # fmt: skip
    state = allocated(found, kubelet())
    assert state.containers[0].resources == resources(SMALL, {"memory": "1Gi"})
    assert state.containers[1].resources == resources(SMALL)


def test_requests_come_from_resources_without_allocated_resources():
    one = resized(replace(OLD, allocated=None), resize="Deferred")
    assert maximum(planned(one, release="1.32")) == [("1073741824", "")] * 2


@pytest.mark.parametrize(("release", "restarts", "shown"), [
    ("1.31", 0, "1073741824"), ("1.31", 1, "1073741824 or 4294967296"), ("1.32", 1, "1073741824"),
])  # fmt: skip
def test_old_kubelets_recreate_a_container_by_the_spec(release, restarts, shown):
    one = resized(replace(OLD, restarts=restarts), resize="Infeasible")
    assert maximum(planned(one, release=release))[1][0] == shown


def test_during_a_resize_a_file_may_have_either_value():
    running = replace(status(LARGE, {"memory": "1Gi"}), state=ContainerState.RUNNING, started="2026-06-01T00:00:00Z")
    why = "a resize is in progress: 4294967296 or 1073741824"
    one = resized(running, in_progress=True, since="2026-06-02T00:00:00Z", generation=2)
    assert maximum(planned(one)) == [("4294967296 or 1073741824", why)] * 2
    told = resized(running, in_progress=True, error="cannot decrease memory limits")
    assert maximum(planned(told))[1][1].startswith("a resize is in progress (cannot decrease memory limits): ")
    old = resized(replace(running, resources=resources(SMALL, {"memory": "1Gi"})), resize="InProgress")
    scores = planned(old, release="1.31").pods[0].containers[0]
    assert (scores.oom_score_adj, scores.oom_score_adj_unsure) == (
        750, "a resize is in progress, and a process keeps the score that it was started with"
    )  # fmt: skip


def test_a_container_that_started_since_the_resize_was_allocated_has_it():
    running = replace(status(LARGE, {"memory": "1Gi"}), state=ContainerState.RUNNING, started="2026-06-03T00:00:00Z")
    one = resized(running, in_progress=True, since="2026-06-02T00:00:00Z")
    # The pod's cgroup is uncertain: it may not have been written yet.
    assert maximum(planned(one)) == [("4294967296", "a resize is in progress"), ("4294967296", "")]


def test_a_resize_in_progress_and_another_that_waits():
    one = resized(status({"cpu": "100m", "memory": "2Gi"}, {"memory": "1Gi"}), in_progress=True, pending="Deferred")
    (shown, why), _ = maximum(planned(one))
    assert shown == "1073741824 or 4294967296"
    assert why.startswith("a resize is in progress, and another one waits, so the status does not show which ")


# A checkpoint of the kubelet has the allocated limits too: then everything is certain except the actuation.
def test_limits_of_a_checkpoint():
    told = replace(OLD, allocated_limits=amounts({"memory": "2Gi"}))
    assert maximum(planned(resized(told, pending="Pending"))) == [("2147483648", "")] * 2
    both = resized(told, pending="Pending", in_progress=True)
    assert (
        maximum(planned(both))
        == [("2147483648 or 1073741824", "a resize is in progress: 2147483648 or 1073741824")] * 2
    )


@pytest.mark.parametrize("one", [
    resized(OLD, generation=3, observed_generation=2),
    resized(OLD, resize="Proposed"),
    resized(OLD),
    # The limit alone is raised: the requests are those that are allocated.
    resized(status(SMALL, {"memory": "1Gi"}), asked=SMALL, limit="4Gi", generation=3, observed_generation=2),
])  # fmt: skip
def test_a_spec_that_the_kubelet_has_not_seen_yet(one):
    (shown, why), _ = maximum(planned(one))
    assert set(shown.split(" or ")) == {"1073741824", "4294967296"}
    assert why.startswith("the spec requests a resize that the kubelet had not accepted when this was read: ")


def test_a_spec_that_the_kubelet_has_not_seen_and_a_status_without_resources():
    tiered = {"gates": {"MemoryQoS": True}, "memory_reservation_policy": ReservationPolicy.TIERED}
    why = (
        "the spec requests a resize that the kubelet had not accepted when this was read, and the status does not "
        "report the allocated resources"
    )
    plan = planned(resized(status(resources_=None), generation=2, observed_generation=1), release="1.36", **tiered)
    assert maximum(plan) == [("4294967296", why), ("4294967296", why)]
    low = [cgroup.knobs[Knob.MEMORY_LOW] for cgroup in plan.cgroups() if cgroup.level is Level.QOS]
    assert [one.unsettled for one in low] == [why, ""]
    assert plan.node.knobs[Knob.MEMORY_MIN].unsettled == why
    assert plan.node.knobs[Knob.MEMORY_MAX].unsettled == ""
    seen = planned(resized(status(resources_=None), generation=2, observed_generation=2), release="1.36", **tiered)
    assert maximum(seen) == [("4294967296", ""), ("4294967296", "")]


@pytest.mark.parametrize("one", [
    resized(NEW, generation=2, observed_generation=2), resized(NEW, generation=3, observed_generation=2),
    resized(status(LARGE, resources_=None)), resized(), resized(NEW, resize="Proposed"),
])  # fmt: skip
def test_a_completed_resize_is_certain(one):
    assert maximum(planned(one)) == [("4294967296", "")] * 2


# A waiting resize is in no pod's cgroup; the sums above use the specs (kubelet GetActivePods).
def test_sums_above_pods_may_include_a_waiting_resize():
    tiered = {"gates": {"MemoryQoS": True}, "memory_reservation_policy": ReservationPolicy.TIERED}
    plan = planned(resized(OLD, pending="Deferred"), release="1.36", **tiered)
    low = [cgroup.knobs[Knob.MEMORY_LOW] for cgroup in plan.cgroups() if cgroup.level in {Level.QOS, Level.POD}]
    assert [one.shown for one in low] == ["1073741824 or 4294967296", "0", "1073741824"]
    assert low[0].unsettled == (
        "the kubelet recomputes it every minute from the pods' specs, and not all of their requests are allocated: "
        "1073741824 or 4294967296"
    )


def test_pod_level_resources_are_reported_with_the_overhead():
    one = replace(
        pod(container(), overhead=amounts({"memory": "64Mi"})),
        resources=resources({"memory": "4Gi", "cpu": "1"}, {"memory": "4Gi"}),
        status=PodStatus(
            pending="Deferred", allocated=amounts({"memory": "1088Mi", "cpu": "1"}),
            resources=resources({}, {"memory": "1088Mi"}), containers={"c": status(resources_=resources())},
        ),
    )  # fmt: skip
    assert allocated(one, kubelet("1.36")).resources == resources({"memory": "1Gi", "cpu": "1"}, {"memory": "1Gi"})
    assert allocated(one, kubelet("1.34")).resources == one.resources
    silent = replace(one, status=replace(one.status, allocated=None, resources=None))
    assert allocated(silent, kubelet("1.36")).resources == one.resources


def test_init_containers_are_allocated_too():
    sidecar = container(LARGE, name="s", kind=ContainerKind.SIDECAR)
    kept = container({"memory": "1Mi", "hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}, name="c")
    told = {
        "s": ContainerStatus(name="s", allocated=amounts(SMALL), resources=resources(SMALL)),
        "c": ContainerStatus(name="c", allocated=amounts({"hugepages-2Mi": "2Mi"}), resources=resources()),
    }
    one = pod(kept, init_containers=(sidecar,), status=PodStatus(pending="Deferred", containers=told))
    found = allocation(one, kubelet())
    assert found.states[0].init_containers[0].resources == resources(SMALL)
    # A request that the spec adds is not allocated.
    assert found.states[0].containers[0].resources == resources({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"})
    assert found.pending


def test_a_removed_amount_is_named():
    one = pod(Container(name="c"), status=PodStatus(pending="Infeasible", containers={"c": OLD}))
    state = allocated(one, kubelet())
    assert state.containers[0].origin["limits.memory"] == "p.json:9: allocated 1Gi; none is requested and infeasible"


def score(one, observed, **more):
    """The verdict on this score, and its why_not."""
    plan = planned(one, **more)
    path = plan.pods[0].cgroup.path.child("0a")
    seen = Reading(source="t", at=0.0, cgroups={path: CgroupReading(path=path, files={"oom_score_adj": observed})})
    found = judge(plan, seen, enacted_by=Setter.KUBELET, ids={(plan.pods[0].uid, "c"): "0a"})
    [one] = [finding for finding in found if finding.knob == "oom_score_adj"]
    return one.verdict, one.why_not


KEEPS = "a process keeps the score that it was started with, and the pod may have been resized in place since: "


# 1000 - 1000 * 4Gi / 16Gi = 750 by the allocation; 938 is that of 1Gi.
@pytest.mark.parametrize(("one", "release", "why"), [
    (resized(NEW, generation=2), "1.35", f"{KEEPS}its spec has changed (generation 2): "),
    (resized(NEW), "1.33", f"{KEEPS}its generation is not given: "),
    (resized(NEW), "1.31", f"{KEEPS}its generation is not given: "),
    (resized(NEW, generation=1), "1.35", None),
    (resized(NEW, generation=2, policy={"memory": ResizePolicy.RESTART_CONTAINER}), "1.35", None),
    (replace(resized(NEW, generation=2), static=True), "1.35", None),
    (replace(resized(NEW), status=None), "1.35", None),
    (resized(NEW), "1.26", None),
    # The only change of the spec is the waiting one.
    (resized(NEW, generation=2, pending="Deferred", pending_generation=2), "1.35", None),
    (resized(NEW, generation=3, pending="Deferred", pending_generation=3), "1.35",
     f"{KEEPS}its spec has changed (generation 3): "),
])  # fmt: skip
def test_a_process_keeps_the_score_of_its_start(one, release, why):
    verdict, why_not = score(one, "938", release=release)
    if why is None:
        assert (verdict, why_not) == (Verdict.DEVIATES, "")
    else:
        expected = f"{why}expected 750 by the allocation, observed 938"
        assert (verdict, why_not) == (Verdict.NOT_OBSERVABLE, expected)
    assert score(one, "750", release=release) == (Verdict.CONFORMS, "")
    # No Burstable pod has these scores.
    assert score(one, "-997", release=release)[0] is score(one, "1000", release=release)[0] is Verdict.DEVIATES


def test_a_restart_policy_is_no_evidence_if_other_containers_affect_the_score():
    one = resized(NEW, generation=2, policy={"memory": ResizePolicy.RESTART_CONTAINER})
    shared = replace(one, resources=resources({"memory": "4Gi"}))
    assert score(shared, "938")[0] is Verdict.NOT_OBSERVABLE


def test_other_classes_have_fixed_scores():
    both = {"cpu": "1", "memory": "1Gi"}
    one = replace(pod(container(both, both)), generation=2, status=PodStatus())
    assert score(one, "938")[0] is Verdict.DEVIATES
    critical = replace(resized(NEW, generation=2), priority=2_000_001_000, priority_class_name="system-node-critical")
    assert score(critical, "938")[0] is Verdict.DEVIATES


def test_other_pods_of_the_plan_stay_certain():
    alone = pod(container(SMALL, {"memory": "1Gi"}), name="q")
    plan = expect([resized(OLD, pending="Deferred"), alone], kubelet())
    assert [one.cgroup.knobs[Knob.MEMORY_MAX].shown for one in plan.pods] == ["1073741824", "1073741824"]
    assert plan.pods[1].containers[0].oom_score_adj_unsure == ""


def test_a_resize_begins_with_the_allocation():
    wanted = replace(resized(), status=None)
    found = resize_pods([resized(OLD, pending="Deferred")], [wanted], kubelet("1.36"))
    [change] = [step for step in found.resizes[0].steps if step.container]
    limits = next(one for one in change.reason.inputs if one.name == "limits.memory")
    assert limits.value == "1073741824 to 4294967296 bytes"


def test_a_plan_lists_uncertain_values():
    running = replace(status(LARGE, {"memory": "1Gi"}), state=ContainerState.RUNNING)
    plan = planned(resized(running, in_progress=True))
    why = "a resize is in progress: 4294967296 or 1073741824"
    shown = f"4294967296 (4096 MiB) or 1073741824 (1024 MiB); not certain: {why}"
    assert knob_reasons(plan, Knob.MEMORY_MAX).count(f"memory.max of pod default/p: {shown}") == 1
    assert plan_tree(plan).count(shown) == 2
    unknown = planned(resized(status(SMALL, resources_=None), pending="Deferred"))
    text = "max; not certain: the resize is deferred, and the status does not report which limits are allocated"
    assert f"memory.high of pod default/p: absent, reads {text}" in knob_reasons(unknown, Knob.MEMORY_HIGH)
    [knob] = [one["knobs"]["memory.max"] for one in plan_document(plan)["cgroups"] if one["level"] == "pod"]
    assert (knob["undecided"], knob["unsettled"]) == (["4294967296", "1073741824"], why)
    assert "oom_score_adj_unsure" in plan_document(plan)["pods"][0]["containers"][0]
