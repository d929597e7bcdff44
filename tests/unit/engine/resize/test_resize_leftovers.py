"""Leftovers of a resize in each release.

Values of kubernetes#138760 (pod memory.max 183500800 beside a container of 1.5Gi, and 255066112 beside 5153960729 bytes
in kubernetes/autoscaler#9829), #142572 (268435456 stays instead of 419430400) and #142569 (510025728 stays below the
request of 512Mi).
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.engine.resize import Activity, StepKind, resize_pods
from memqos.engine.resize.outcome import resize_document, resize_text
from memqos.model.knob import Knob
from memqos.model.node import NodeFacts, ReservationPolicy
from memqos.model.pod import ContainerKind, ContainerState, ContainerStatus, PodStatus, ResizePolicy
from tests.unit.engine.pods import container, pod
from tests.unit.engine.resize.plans import ON

NODE = NodeFacts(memory=16 << 30, cpus=4)
RELEASES = ("1.27", "1.31", "1.32", "1.33", "1.34", "1.36", "1.37")
TIERED = replace(ON, feature_gates={"MemoryQoS": True}, memory_reservation_policy=ReservationPolicy.TIERED)
HIGH = replace(ON, feature_gates={**ON.feature_gates, "MemoryQoS": True}, throttling_factor=Fraction(9, 10))


def limited(memory, limit=None, **more):
    return pod(container({"cpu": "12m", "memory": memory}, {"memory": limit or memory}, **more))


def resized(old, new, release, *, settings=ON, activity=None, variant=Variant.SHIPPED):
    kubelet = Kubelet.of(node=NODE, settings=settings, release=release, variant=variant)
    activities = {old.uid: {"c": activity}} if activity else {}
    return resize_pods([old], [new], kubelet, activities=activities)


def left(plan):
    return [(str(one.subject), one.knob, one.holds, one.anew, one.upstream) for one in plan.resizes[0].left]


POD, CONTAINER = "pod default/p", "container c of pod default/p"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("activity", [Activity.CRASH_LOOPING, Activity.EXITED])
@pytest.mark.parametrize("sizes", [
    ("175Mi", "1536Mi", "183500800", "1610612736"),
    # The file counts in pages: 5153960729 reads as 5153959936.
    ("255066112", "5153960729", "255066112", "5153959936"),
])  # fmt: skip
def test_the_pod_of_a_container_that_is_not_running(release, activity, sizes):
    old, new, holds, anew = sizes
    plan = resized(limited(old), limited(new), release, activity=activity)
    [step] = plan.resizes[0].steps
    assert (step.kind, step.container, step.message.memory_limit_in_bytes) == (
        StepKind.START_CONTAINER, "c", 1610612736 if anew == "1610612736" else 5153960729
    )  # fmt: skip
    assert left(plan) == [(POD, "memory.max", holds, anew, "kubernetes#138760")]
    [after] = plan.after.pods
    assert str(after.cgroup.knobs[Knob.MEMORY_MAX].value) == holds
    assert str(after.containers[0].cgroup.knobs[Knob.MEMORY_MAX].value) == anew
    # It is recreated: its processes have the score of the new size.
    assert after.containers[0].oom_score_adj == {"1610612736": 907, "5153959936": 701}[anew]
    running = resized(limited(old), limited(new), release)
    assert [str(one.subject) for one in running.resizes[0].left] == [CONTAINER]


@pytest.mark.parametrize(("policy", "activity", "kind", "steps"), [
    ("Never", Activity.EXITED, ContainerKind.APP, 0), ("Never", Activity.CRASH_LOOPING, ContainerKind.APP, 0),
    ("OnFailure", Activity.EXITED, ContainerKind.APP, 0), ("OnFailure", Activity.CRASH_LOOPING, ContainerKind.APP, 1),
    ("Never", Activity.EXITED, ContainerKind.SIDECAR, 1),
])  # fmt: skip
def test_whether_it_is_recreated(policy, activity, kind, steps):
    def of(size):
        one = container({"cpu": "12m", "memory": size}, {"memory": size}, kind=kind)
        other = container({"cpu": "1", "memory": "1Mi"}, {"memory": "1Mi"}, name="d")
        init, apps = ((one,), (other,)) if kind is ContainerKind.SIDECAR else ((), (one, other))
        return replace(pod(*apps), init_containers=init, restart_policy=policy)

    plan = resized(of("100Mi"), of("200Mi"), "1.36", activity=activity)
    assert [step.kind for step in plan.resizes[0].steps] == [StepKind.START_CONTAINER] * steps
    assert left(plan) == [(POD, "memory.max", "105906176", "210763776", "kubernetes#138760")]


def test_another_container_of_the_pod_runs_and_changes():
    def of(first, second):
        return pod(
            container({"cpu": "12m", "memory": first}, {"memory": first}),
            container({"cpu": "12m", "memory": second}, {"memory": second}, name="d"),
        )

    plan = resized(of("100Mi", "100Mi"), of("200Mi", "200Mi"), "1.36", activity=Activity.EXITED)
    assert [one.knob for one in plan.resizes[0].left] == ["oom_score_adj"]
    restart = {"memory": ResizePolicy.RESTART_CONTAINER}
    whole = resized(limited("100Mi", resize_policy=restart), limited("200Mi", resize_policy=restart), "1.36")
    assert left(whole) == []


def test_the_state_of_a_container_comes_from_the_status():
    for state, restarts, upstream in (
        (ContainerState.TERMINATED, 0, "kubernetes#138760"), (ContainerState.WAITING, 3, "kubernetes#138760"),
        (ContainerState.WAITING, 0, "kubernetes#130657"), (ContainerState.RUNNING, 3, "kubernetes#130657"),
    ):  # fmt: skip
        status = PodStatus(containers={"c": ContainerStatus(name="c", state=state, restarts=restarts)})
        old = replace(limited("175Mi"), status=status)
        assert [one[4] for one in left(resized(old, limited("1536Mi"), "1.36"))] == [upstream]
        # The explicit state wins.
        said = resized(old, limited("1536Mi"), "1.36", activity=Activity.RUNNING)
        assert [one[4] for one in left(said)] == ["kubernetes#130657"]


@pytest.mark.parametrize(("release", "variant", "found"), [
    ("1.36", Variant.SHIPPED, [(POD, "memory.low", "268435456", "419430400", "kubernetes#142572, kubernetes#140262")]),
    ("1.37", Variant.SHIPPED, [(POD, "memory.low", "268435456", "419430400", "kubernetes#142572, kubernetes#140262")]),
    ("1.37", Variant.MENDED, []),
    ("1.37", Variant.DOCUMENTED, []),
])  # fmt: skip
def test_memory_low_of_the_pod(release, variant, found):
    old, new = (pod(container({"cpu": "1", "memory": size})) for size in ("256Mi", "400Mi"))
    plan = resized(old, new, release, settings=TIERED, variant=variant)
    score = (CONTAINER, "oom_score_adj", "985", "976", "kubernetes#130657")
    assert left(plan) == [*found, score]


# 128Mi of 512Mi: 134217728 + (536870912 - 134217728) * 0.9 = 496605593, less than a page: 496603136.
@pytest.mark.parametrize(("release", "high"), [("1.27", "496603136"), ("1.36", "496603136"), ("1.37", "496603136")])
def test_memory_high_of_a_request_that_is_raised_to_its_limit(release, high):
    plan = resized(limited("128Mi", "512Mi"), limited("512Mi", "512Mi"), release, settings=HIGH)
    found = [one for one in left(plan) if one[1] == "memory.high"]
    # Up to 1.32 a memory request alone is no resize at all.
    if release == "1.27":
        assert [step.kind for step in plan.resizes[0].steps] == []
    assert found == [(CONTAINER, "memory.high", high, "max", "kubernetes#142569")]


def test_leftovers_as_text_and_document():
    plan = resized(limited("175Mi"), limited("1536Mi"), "1.34", activity=Activity.EXITED)
    text = resize_text(plan).splitlines()
    at = text.index("  left behind:")
    why = "the resize skips a container that is not running, so the pod's cgroup is not written"
    assert text[at + 1 : at + 3] == [
        "    memory.max of pod default/p stays 183500800; after recreation it is 1610612736",
        f"      {why} (kubernetes#138760)",
    ]
    # A resize names no huge pages; its steps have the reason.
    both = {"cpu": "1", "hugepages-2Mi": "2Mi"}
    old, new = (pod(container({**both, "memory": size}, {**both, "memory": size})) for size in ("100Mi", "200Mi"))
    huge = resize_text(resized(old, new, "1.36")).splitlines()
    at = huge.index("  left behind:")
    assert huge[at + 1] == "    hugetlb.2MB.max of pod default/p stays 0; after recreation it is 2097152"
    [one] = resize_document(plan)["resizes"][0]["left"]
    assert (one["knob"], one["holds"], one["upstream"]) == ("memory.max", "183500800", "kubernetes#138760")
