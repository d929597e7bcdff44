"""Resizes and upgrades by the enactor that is a kubelet, with a stand-in for the kubelet."""

import dataclasses

import pytest

from memqos.clock import Deadline
from memqos.enactor.base import Ability
from memqos.engine.answer.finding import Verdict
from memqos.engine.answer.succession import succession
from memqos.engine.resize import resize_pods, taken_over
from memqos.errors import MachineryError, UsageError
from memqos.model.knob import Knob
from memqos.model.node import ReservationPolicy, SwapBehavior
from tests.unit.enactor.kubelets import LARGER, OTHER, TIERED, WEB, enactor_on, order_of, wrong_files
from tests.unit.node.fakes import Bench, kubelet, pod

BEYOND = dataclasses.replace(WEB, containers=pod("web", "1Ti", "2Ti").containers)
SWAPS = {"swap_behavior": SwapBehavior.LIMITED}
MOST, LITTLE = (pod("other", request, "2800Mi") for request in ("2400Mi", "64Mi"))
ROOM = dataclasses.replace(WEB, containers=pod("web", "1500Mi", "1600Mi").containers)
RAISED = {
    "request": ("48Mi", "64Mi"),
    "both": ("48Mi", "96Mi"),
    "to-limit": ("64Mi", "64Mi"),
}


def test_a_deferred_resize_is_reported_with_its_reason():
    bench = Bench()
    order = order_of(bench)
    resized = resize_pods((WEB, OTHER), [LARGER], bench.node.kubelet(kubelet("1.36", **TIERED)))
    with enactor_on(bench, resizes=False) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        with pytest.raises(MachineryError, match="Deferred: no room"):
            pods.resize(resized, resized.resizes[0], LARGER, after=lambda _: None)


def test_a_resize_is_done_when_its_amounts_are_in_force_and_not_when_it_is_seen():
    bench = Bench()
    order = order_of(bench)
    resized = resize_pods((WEB, OTHER), [LARGER], bench.node.kubelet(kubelet("1.36", **TIERED)))
    with enactor_on(bench, slow=True) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        pods.resize(resized, resized.resizes[0], LARGER, after=lambda _: None)
        path = resized.after.pod(WEB.uid).cgroup.path
        assert bench.cgroups.text(path, "memory.max").strip() == str(96 << 20)


@pytest.mark.parametrize(
    ("release", "settings", "to", "wrong", "observed"),
    [
        ("1.36", TIERED, BEYOND, {}, "Deferred: Node didn't have enough resource: memory"),
        ("1.35", {}, BEYOND, {}, "Infeasible: Node didn't have enough capacity: memory"),
        ("1.36", TIERED | SWAPS, LARGER, {}, "Infeasible: In-place resize of containers with swap is not supported."),
        ("1.36", TIERED, BEYOND, {"pends": "Infeasible: too large"}, "Infeasible: too large"),
        ("1.36", TIERED | SWAPS, LARGER, {"pends": "Deferred: later"}, "Deferred: later"),
    ],
)
def test_a_resize_that_is_not_carried_out_is_judged_by_the_pod_s_condition(release, settings, to, wrong, observed):
    bench = Bench()
    with enactor_on(bench, minor=int(release[2:]), **wrong) as enactor:
        node, under = bench.node_with(enactor), kubelet(release, **settings)
        with node.admitted([WEB, OTHER], under) as population:
            found = node.resize_refused(population, WEB, under, to=to)
    [condition] = [one for one in found if one.knob == "PodResizePending"]
    assert condition.observed.startswith(observed)
    assert (condition.verdict is Verdict.DEVIATES) == bool(wrong)
    assert {one.verdict for one in found if one is not condition} == {Verdict.CONFORMS}


def test_a_kubelet_that_writes_the_size_of_a_deferred_resize_is_found():
    bench = Bench()
    with enactor_on(bench, forces="and pends") as enactor:
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with node.admitted([WEB, OTHER], under) as population:
            found = node.resize_refused(population, WEB, under, to=BEYOND)
    wrong = {(str(one.subject), one.knob) for one in found if one.verdict is Verdict.DEVIATES}
    assert {("pod default/web", "memory.max"), ("container app of pod default/web", "memory.max")} <= wrong
    assert not [knob for subject, knob in wrong if "other" in subject]


def test_a_kubelet_that_carries_out_a_resize_beyond_the_node_is_found():
    """It reports the new size, and no condition."""
    bench = Bench()
    with enactor_on(bench, forces="silently") as enactor:
        enactor.levels_seconds = 0.5
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with node.admitted([WEB, OTHER], under) as population:
            found = node.resize_refused(population, WEB, under, to=BEYOND)
    assert [(one.verdict, one.observed) for one in found if one.knob == "PodResizePending"] == [
        (Verdict.DEVIATES, "carried out")
    ]


def test_a_kubelet_that_reports_nothing_of_a_resize_is_found():
    bench = Bench()
    with enactor_on(bench, ignores=True) as enactor:
        enactor.resize_seconds = 0.5
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with node.admitted([WEB, OTHER], under) as population:
            found = node.resize_refused(population, WEB, under, to=BEYOND)
    assert [(one.verdict, one.observed) for one in found if one.verdict is not Verdict.CONFORMS] == [
        (Verdict.DEVIATES, "no condition PodResizePending in time")
    ]


def test_a_resize_that_fits_is_carried_out_after_one_that_waits():
    """The condition of the first stays in the status until the kubelet has seen the second."""
    bench = Bench()
    order = order_of(bench)
    waits, fits = (resize_pods((WEB, OTHER), [one], order.kubelet) for one in (BEYOND, LARGER))
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        with pytest.raises(MachineryError, match="Deferred: Node didn't have enough resource"):
            pods.resize(waits, waits.resizes[0], BEYOND, after=lambda _: None)
        pods.resize(fits, fits.resizes[0], LARGER, after=lambda _: None)
        path = fits.after.pod(WEB.uid).cgroup.path
        assert bench.cgroups.text(path, "memory.max").strip() == str(96 << 20)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_deferred_resize_is_carried_out_when_another_pod_shrinks(forgets):
    bench = Bench()
    with enactor_on(bench, forgets=forgets) as enactor:
        enactor.levels_seconds = 1.0
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with node.admitted([WEB, MOST], under) as population:
            waits = node.resize_refused(population, WEB, under, to=ROOM)
            found = node.resize_made_room_for(population, [WEB, MOST], under, to=[ROOM, LITTLE])
    assert {one.verdict for one in waits} == {Verdict.CONFORMS}
    wrong = {(str(one.subject), one.knob) for one in found if one.verdict is Verdict.DEVIATES}
    assert (("pod default/web", "memory.max") in wrong) == forgets
    assert bool(wrong) == forgets


def test_a_resize_that_fits_is_not_one_to_refuse():
    bench = Bench()
    with enactor_on(bench) as enactor:
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with (
            node.admitted([WEB, OTHER], under) as population,
            pytest.raises(UsageError, match="does not refuse this resize: InProgress"),
        ):
            node.resize_refused(population, WEB, under, to=LARGER)


@pytest.mark.parametrize(
    ("kind", "container", "knob", "text"),
    [
        ("request", False, Knob.MEMORY_LOW, str(48 << 20)),
        ("request", True, Knob.MEMORY_LOW, str(32 << 20)),
        ("both", True, Knob.MEMORY_HIGH, str(60 << 20)),
        ("both", False, Knob.MEMORY_MAX, str(64 << 20)),
        ("to-limit", True, Knob.MEMORY_HIGH, "max"),
    ],
)
def test_a_kubelet_that_resizes_otherwise_than_planned_is_found(kind, container, knob, text):
    """1.36 leaves memory.low of the pod for a request alone, and memory.high where the request is the limit."""
    bench = Bench()
    order = order_of(bench, **TIERED, feature_gates={"MemoryQoS": True})
    larger = dataclasses.replace(WEB, containers=pod("web", *RAISED[kind]).containers)
    resized = resize_pods((WEB, OTHER), [larger], order.kubelet)
    planned = resized.after.pod(WEB.uid).cgroup.path
    resizing, wrongs = [], []

    def wrong(path, written, right):
        of_pod = path == planned
        of_container = str(path).startswith(f"{planned}/")
        if resizing and wrongs and written is knob and (of_container if container else of_pod):
            return text
        return right

    for is_wrong in (False, True):
        wrongs[:] = [True] * is_wrong
        resizing.clear()
        with enactor_on(bench, wrong=wrong) as enactor:
            enactor.levels_seconds = 1.0
            pods = enactor.begin("test")
            pods.bring(order)
            admitted = pods.admit(order, appears=lambda _: None)
            resizing.append(True)
            pods.resize(resized, resized.resizes[0], larger, after=lambda _: None)
            found = wrong_files(bench, dataclasses.replace(order, plan=resized.after), admitted)
            pods.clear()
        assert {one for _, one in found} == ({knob} if is_wrong else set())


def test_the_levels_above_a_resized_pod_are_waited_for():
    """A kubelet writes them in its next period, after it has reported the resize done (seen with 1.36.2)."""
    bench = Bench()
    order = order_of(bench)
    resized = resize_pods((WEB, OTHER), [LARGER], order.kubelet)
    with enactor_on(bench, follows=1.0) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        pods.resize(resized, resized.resizes[0], LARGER, after=lambda _: None)
        assert not wrong_files(bench, dataclasses.replace(order, plan=resized.after), admitted)


def test_the_levels_above_are_not_waited_for_if_only_the_pod_matters():
    bench = Bench()
    order = order_of(bench)
    resized = resize_pods((WEB, OTHER), [LARGER], order.kubelet)
    with enactor_on(bench, follows=600.0) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        pods.resize(resized, resized.resizes[0], LARGER, after=lambda _: None, above=False)
        wrong = wrong_files(bench, dataclasses.replace(order, plan=resized.after), admitted)
    assert {path for path, _ in wrong} == {"/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"}


def patches(enactor):
    return enactor.session.order("calls")["calls"].get("PATCH pods/status", 0)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_kubelet_that_writes_running_pods_again_after_an_upgrade_is_found(rewrites):
    """1.27 leaves memory.low of the pod at 0; 1.36 under TieredReservation would write it."""
    bench = Bench()
    gate = {"feature_gates": {"MemoryQoS": True}}
    before, later = order_of(bench, "1.27", **gate), order_of(bench, **TIERED, **gate)
    plan = taken_over(before.plan, later.plan, later.pods, later.kubelet, earlier=[before.kubelet])
    with enactor_on(bench, binaries={27: "kubelet-1.27", 36: "kubelet-1.36"}, rewrites=rewrites) as enactor:
        assert enactor.releases == ["1.27", "1.36"]
        pods = enactor.begin("test")
        pods.bring(before)
        pods.admit(before, appears=lambda _: None)
        succeeding = dataclasses.replace(later, plan=plan, succeeds=True)
        told = patches(enactor)
        enactor.levels_seconds = 1.0 if rewrites else 60.0
        pods.bring(succeeding)
        enactor.session.until(
            "the new kubelet has reported both pods", lambda: patches(enactor) >= told + 2, Deadline.after(60)
        )
        found = {knob for path, knob in wrong_files(bench, succeeding, pods.pods) if "-poduid" in path}
    assert (Knob.MEMORY_LOW in found) == rewrites
    assert bool(found) == rewrites


@pytest.mark.parametrize(
    ("minors", "why"),
    [
        ((27, 36), "kubelets since 1.31 end the containers of older ones"),
        ((36, 27), "kubelets since 1.31 end the containers of older ones"),
        ((31, 36), ""),
        ((27, 30), ""),
        ((36,), "only one kubelet is given"),
    ],
)
def test_an_upgrade_that_ends_all_containers_is_not_observable(minors, why):
    """Seen with 1.27.7 and 1.32.13: each file of the containers was missing."""
    bench = Bench()
    with enactor_on(bench, binaries={minor: f"kubelet-1.{minor}" for minor in minors}) as enactor:
        told = bench.node_with(enactor).why_not("two kubelets")
    assert told.startswith(why) if why else told == ""


@pytest.mark.parametrize(("minor", "resizes"), [(32, False), (33, True)])
def test_a_claim_about_resizes_needs_a_kubelet_that_resizes(minor, resizes):
    bench = Bench()
    with enactor_on(bench, minor=minor) as enactor:
        why = bench.node_with(enactor).why_not("kubelet resizes")
    assert why == ("" if resizes else enactor.why_not(Ability.RESIZE))
    assert bench.node.why_not("kubelet resizes") == bench.node.why_not("kubelet")


@pytest.mark.parametrize("updates", [False, True])
def test_an_upgrade_updates_the_containers_that_the_older_kubelet_did_not_record(updates):
    """1.27 sends memory.min for each request; 1.36 with the policy None resets it, after it is healthy."""
    bench = Bench()
    gate = {"feature_gates": {"MemoryQoS": True}}
    before, later = order_of(bench, "1.27", **gate), order_of(bench, memory_reservation_policy=None, **gate)
    plan = taken_over(before.plan, later.plan, later.pods, later.kubelet, earlier=[before.kubelet])
    with enactor_on(bench, binaries={27: "kubelet-1.27", 36: "kubelet-1.36"}, updates=updates, lags=1.0) as enactor:
        enactor.levels_seconds = 60.0 if updates else 3.0
        pods = enactor.begin("test")
        pods.bring(before)
        pods.admit(before, appears=lambda _: None)
        assert enactor.why_not(Ability.RESIZE)
        succeeding = dataclasses.replace(later, plan=plan, succeeds=True)
        pods.bring(succeeding)
        found = {knob for path, knob in wrong_files(bench, succeeding, pods.pods) if "-poduid" in path}
        assert [one.requested["app"][-1].unified["memory.min"] for one in pods.pods.values()] == ["0", "0"]
        assert not enactor.why_not(Ability.RESIZE)
        pods.bring(dataclasses.replace(before, plan=succession(plan, before.plan), succeeds=True))
        assert enactor.why_not(Ability.RESIZE)
    assert (Knob.MEMORY_MIN in found) == (not updates)
    assert bool(found) == (not updates)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_kubelet_that_changes_running_pods_after_its_restart_is_found(rewrites):
    """It is healthy before it has synced any pod, and until then every file is as planned."""
    bench = Bench()
    order = order_of(bench)
    restarts = []

    def wrong(path, written, text):
        return "8192" if restarts and "-poduid" in str(path) and written is Knob.MEMORY_LOW else text

    with enactor_on(bench, rewrites=rewrites, updates=False, lags=1.0, wrong=wrong) as enactor:
        enactor.levels_seconds = 8.0
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        restarts.append(True)
        pods.bring(dataclasses.replace(order, succeeds=True))
        found = {knob for path, knob in wrong_files(bench, order, pods.pods) if "-poduid" in path}
    assert found == ({Knob.MEMORY_LOW} if rewrites else set())


def test_a_node_that_the_kubelet_before_has_reported_is_not_taken_for_the_next_one_s():
    """1.36.2 rejected a pod by the allocatable memory of a kubelet with a higher eviction threshold."""
    bench = Bench()
    with enactor_on(bench, reports=0.5) as enactor:
        pods = enactor.begin("test")
        reported = []
        for order in (order_of(bench), order_of(bench, memory_reservation_policy=ReservationPolicy.NONE)):
            pods.bring(order)
            [node] = enactor.session.objects("v1", "nodes")
            reported += [one["lastHeartbeatTime"] for one in node["status"]["conditions"]]
    assert len(set(reported)) == len(reported) == 2


@pytest.mark.parametrize(("faults", "observed"), [({}, []), ({"drops": "0"}, ["0"]), ({"drops": "4096"}, ["4096"])])
def test_a_kubelet_that_drops_the_protection_above_pods_when_it_restarts_is_found(faults, observed):
    bench = Bench()
    with enactor_on(bench, **faults) as enactor:
        node, under = bench.node_with(enactor), kubelet("1.36", **TIERED)
        with node.admitted([WEB, OTHER], under) as population:
            with node.kubelet_verbs(population).protection_watched() as watch:
                after = node.restart_kubelet(population, under)
            assert {one.verdict for one in after.judge_all()} == {Verdict.CONFORMS}
            found = watch.stays()
    assert found
    assert [one.observed for one in found if one.verdict is Verdict.DEVIATES] == observed * len(found)
