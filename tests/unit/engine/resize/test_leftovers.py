"""Leftovers of a resize, by the pattern of the files: kubernetes#138760, #142572, #142569."""

from dataclasses import replace

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.succession import LEFT, Past, inherited
from memqos.engine.answer.verdict import judge
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.resize.leftovers import Leftover, leftovers
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import ContainerState, ContainerStatus, PodStatus
from memqos.model.reading import CgroupReading, Reading
from tests.unit.engine.pods import container, pod

NODE = NodeFacts(memory=16 << 30, cpus=4)
QOS = {
    "feature_gates": {"MemoryQoS": True}, "throttling_factor": 0.9,
    "memory_reservation_policy": ReservationPolicy.TIERED,
}  # fmt: skip
POD, CONTAINER = "pod default/p", "container c of pod default/p"


def kubelet(release="1.37", node=NODE, **settings):
    return Kubelet.of(node=node, settings=KubeletSettings(fail_cgroup_v1=False, **settings), release=release)


def web(request, limit, **more):
    return pod(container({"cpu": "1", "memory": request}, {"memory": limit} if limit else {}), **more)


def status(**more):
    return PodStatus(containers={"c": ContainerStatus(name="c", **more)})


def judged(one, under, *, pod_files=None, files=None, leave_out=()):
    """The plan, and the findings about a node with this plan and these changed files."""
    plan = expect([one], under)
    cgroups = {}
    for cgroup in plan.cgroups():
        path = cgroup.path.child("0a") if cgroup.container else cgroup.path
        texts = {knob.value: str(value.value) for knob, value in cgroup.knobs.items() if knob not in leave_out}
        changed = files if cgroup.container else pod_files if cgroup.pod else {}
        cgroups[path] = CgroupReading(path=path, files={**texts, **(changed or {})})
    seen = Reading(source="t", at=0.0, cgroups=cgroups)
    return plan, judge(plan, seen, enacted_by=Setter.KUBELET, ids={(one.uid, "c"): "0a"})


def found(one, under, **changed):
    plan, findings = judged(one, under, **changed)
    return {(str(about), knob): left for (about, knob), left in leftovers(findings, plan, [one], under).items()}


@pytest.mark.parametrize(("held", "kind"), [
    ("510025728", Leftover.HIGH_AT_LIMIT), ("4096", Leftover.HIGH_AT_LIMIT), ("536870912", None), ("0", None),
    ("1073741824", None), ("max", None),
])  # fmt: skip
def test_memory_high_of_a_request_equal_to_the_limit(held, kind):
    told = {(CONTAINER, "memory.high"): kind} if kind else {}
    assert found(web("512Mi", "512Mi"), kubelet(**QOS), files={"memory.high": held}) == told


@pytest.mark.parametrize(("one", "under"), [
    (web("256Mi", "512Mi"), kubelet(**QOS)), (web("512Mi", None), kubelet(**QOS)),
    (web("512Mi", "512Mi"), kubelet(feature_gates={"MemoryQoS": True})),
    (web("512Mi", "512Mi"), kubelet("1.36")), (web("512Mi", "512Mi", generation=1), kubelet(**QOS)),
    (web("512Mi", "512Mi"), kubelet("1.32", **QOS)),
    (pod(container({"cpu": "1", "memory": "512Mi"}, {"cpu": "1", "memory": "512Mi"})), kubelet(**QOS)),
])  # fmt: skip
def test_memory_high_with_another_cause(one, under):
    assert found(one, under, files={"memory.high": "300003328"}) == {}


@pytest.mark.parametrize(("held", "more", "told"), [
    ("268435456", {}, {(POD, "memory.low"): Leftover.POD_MEMORY_QOS}),
    ("536870912", {}, {(POD, "memory.low"): Leftover.POD_MEMORY_QOS}),
    ("0", {}, {}),
    # In this case the container does not have its new size either.
    ("268435456", {"files": {"memory.low": "268435456"}}, {}),
    ("268435456", {"leave_out": {Knob.MEMORY_LOW}}, {}),
])  # fmt: skip
def test_the_pod_protects_its_old_request(held, more, told):
    assert found(web("400Mi", "512Mi"), kubelet(**QOS), pod_files={"memory.low": held}, **more) == told


def test_protection_that_the_kubelet_does_not_write():
    none = {**QOS, "memory_reservation_policy": ReservationPolicy.NONE}
    assert found(web("400Mi", "512Mi"), kubelet(**none), pod_files={"memory.low": "268435456"}) == {}
    assert found(web("400Mi", "512Mi"), kubelet("1.36"), pod_files={"memory.low": "268435456"}) == {}


STOPPED = {(POD, "memory.max"): Leftover.STOPPED_CONTAINER}


@pytest.mark.parametrize(("one", "held", "told"), [
    (web("1536Mi", "1536Mi"), "183500800", STOPPED),
    # A pod larger than its containers may have any cause.
    (web("1536Mi", "1536Mi"), "3221225472", {}), (web("1536Mi", "1536Mi"), "max", {}),
    (web("1536Mi", "1536Mi", status=status(restarts=2)), "3221225472", STOPPED),
    (web("1536Mi", "1536Mi", status=status(state=ContainerState.WAITING)), "183500800", STOPPED),
    (web("1536Mi", "1536Mi", status=status(state=ContainerState.RUNNING)), "183500800", {}),
    (web("1536Mi", "1536Mi", status=status(restarts=2), generation=1), "183500800", {}),
])  # fmt: skip
def test_the_pod_of_a_stopped_container(one, held, told):
    assert found(one, kubelet("1.34"), pod_files={"memory.max": held}) == told


def test_all_files_of_such_a_pod():
    one = web("400Mi", "512Mi", status=status(restarts=2))
    held = {"memory.low": "67108864", "memory.max": "134217728", "cpu.weight": "20", "hugetlb.2MB.max": "2097152"}
    assert found(one, kubelet(**QOS), pod_files=held) == {
        (POD, knob): Leftover.STOPPED_CONTAINER for knob in ("memory.low", "memory.max", "cpu.weight")
    }
    # Low cpu shares alone are no evidence.
    assert found(web("1Mi", "2Mi"), kubelet("1.34"), pod_files={"cpu.weight": "1"}) == {}


RESTARTED = {"restarts": 6}


GONE, DENIED = "the cgroup does not exist", "the file could not be read: permission denied"


@pytest.mark.parametrize(("more", "why_not", "told"), [
    # A pod that was resized while it crashed: 1.36.2 leaves memory.low and memory.max of the pod.
    ({"status": status(state=ContainerState.TERMINATED, **RESTARTED)}, DENIED, True),
    ({"status": status(state=ContainerState.WAITING, **RESTARTED)}, DENIED, True),
    ({"status": status(state=ContainerState.TERMINATED)}, DENIED, False),
    ({"status": status(**RESTARTED)}, DENIED, False),
    # Running by its status, and its cgroup is gone.
    ({"status": status(**RESTARTED)}, GONE, True),
    ({"status": status()}, GONE, False),
    ({}, DENIED, False), ({}, GONE, False),
])  # fmt: skip
def test_the_pod_whose_containers_are_all_between_two_runs(more, why_not, told):
    one, under = web("40Mi", "128Mi", **more), kubelet("1.36", **QOS)
    held = {"memory.low": "33554432", "memory.max": "100663296"}
    plan, findings = judged(one, under, pod_files=held)
    unseen = [
        replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=why_not)
        if found.subject.container
        else found
        for found in findings
    ]
    expected = {(POD, knob): Leftover.STOPPED_CONTAINER for knob in held} if told else {}
    assert {
        (str(about), knob): kind for (about, knob), kind in leftovers(unseen, plan, [one], under).items()
    } == expected


def test_on_cgroup_v1():
    node = replace(NODE, cgroup_version=CgroupVersion.V1)
    one, limit = web("1536Mi", "1536Mi"), "memory.limit_in_bytes"
    told = found(one, kubelet("1.34", node), pod_files={limit: "183500800"})
    assert told == {(POD, limit): Leftover.STOPPED_CONTAINER}


def test_unknown_pods_are_not_explained():
    one, under = web("1536Mi", "1536Mi"), kubelet("1.34")
    plan, findings = judged(one, under, pod_files={"memory.max": "183500800"})
    assert leftovers(findings, plan, [], under) == {}


def test_a_value_of_the_past_conforms_and_is_named():
    """memory.low 134217728 of pod and container, as the gate was on; the score of 128Mi of 16Gi is 993, of 1Gi 938."""
    under, old = kubelet(feature_gates={"MemoryQoS": False}), expect([web("128Mi", "256Mi")], kubelet(**QOS))
    changed = {"pod_files": {"memory.low": "134217728"}, "files": {"memory.low": "134217728", "memory.high": "4096"}}
    _, findings = judged(web("128Mi", "256Mi"), under, **changed)
    told = list(inherited(findings, [Past(name="other", plan=expect([], under)), Past(name="on.yaml", plan=old)]))
    left = {(str(one.subject), one.knob): one for one in told if one.evidence}
    assert set(left) == {(POD, "memory.low"), (CONTAINER, "memory.low")}
    one = left[POD, "memory.low"]
    assert (one.verdict, one.expected, one.evidence) == (Verdict.CONFORMS, "134217728", {LEFT: "on.yaml"})
    assert (one.set_by, one.reason) == (Setter.KUBELET, old.pods[0].cgroup.knobs[Knob.MEMORY_LOW].reason)
    assert [(str(one.subject), one.knob) for one in told if one.verdict is Verdict.DEVIATES] == [
        (CONTAINER, "memory.high")
    ]


@pytest.mark.parametrize(("seen", "verdict"), [("993", Verdict.CONFORMS), ("940", Verdict.NOT_OBSERVABLE)])
def test_a_score_of_the_past(seen, verdict):
    under = kubelet("1.35")
    one = web("1Gi", "2Gi", generation=2, status=status(state=ContainerState.RUNNING))
    _, findings = judged(one, under, files={"oom_score_adj": seen})
    told = inherited(findings, [Past(name="old.yaml", plan=expect([web("128Mi", "256Mi")], under))])
    [score] = [one for one in told if one.knob == "oom_score_adj"]
    assert (score.verdict, score.expected) == (verdict, "993" if verdict is Verdict.CONFORMS else "938")
