"""The first kubelet that records resources updates the containers of an older one.

The numbers are those that kubelet 1.36.2 left on a node whose pods 1.32.13 had created (trixie, containerd and runc).
"""

import dataclasses

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import keeps_records, taken_over, why_not_taken_over
from memqos.model.knob import Bytes, Knob
from memqos.model.node import KubeletSettings, ReservationPolicy
from memqos.model.pod import ContainerKind, ResizePolicy, Resources
from tests.unit.engine.pods import NODE, container, pod

GATE = {"MemoryQoS": True}
TIERED = ReservationPolicy.TIERED


def kubelet(release, policy=None, **gates):
    settings = KubeletSettings(feature_gates={**GATE, **gates}, memory_reservation_policy=policy)
    return Kubelet.of(node=NODE, settings=settings, release=release)


def after(first, *others, one=None):
    """The pod as it is when the others have taken over one after another."""
    one = one or pod(container({"memory": "64Mi", "cpu": "50m"}, {"memory": "200Mi", "cpu": "100m"}))
    plan = expect([one], first)
    for number, other in enumerate(others):
        plan = taken_over(plan, expect([one], other), [one], other, earlier=[first, *others[:number]])
    return plan.pods[0]


def low_and_min(found):
    knobs = found.containers[0].cgroup.knobs
    return [knobs[knob].value.count for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW)]


@pytest.mark.parametrize(
    ("kubelets", "expected"),
    [
        # 64Mi is 67108864 bytes; memoryReservationPolicy None sends memory.min 0.
        ((kubelet("1.32"), kubelet("1.36")), [0, 0]),
        ((kubelet("1.32"), kubelet("1.33")), [67108864, 0]),
        # Containers that a kubelet since 1.33 created are recorded.
        ((kubelet("1.33"), kubelet("1.36")), [67108864, 0]),
        # No update after the rollback, and none later: the records stay.
        ((kubelet("1.36"), kubelet("1.32"), kubelet("1.36")), [0, 0]),
        ((kubelet("1.34"), kubelet("1.32"), kubelet("1.36")), [67108864, 0]),
        # A kubelet that does not resize in place keeps no records either.
        ((kubelet("1.33", InPlacePodVerticalScaling=False), kubelet("1.36")), [0, 0]),
        ((kubelet("1.32"), kubelet("1.33", InPlacePodVerticalScaling=False)), [67108864, 0]),
    ],
)
def test_containers_without_a_record_are_updated(kubelets, expected):
    assert low_and_min(after(*kubelets)) == expected


def test_the_reason_says_why_a_running_container_has_a_new_value():
    found = after(kubelet("1.32"), kubelet("1.36"))
    reason = found.containers[0].cgroup.knobs[Knob.MEMORY_MIN].reason
    assert reason.rule.startswith("the kubelet has no record of the resources")
    assert found.containers[0].resources.unified["memory.min"] == "0"


def test_an_update_keeps_the_limits_of_the_container_and_writes_nothing_of_the_pod():
    first, second = kubelet("1.32"), kubelet("1.36")
    before, found = after(first), after(first, second)
    assert {knob: one.value for knob, one in found.cgroup.knobs.items()} == {
        knob: one.value for knob, one in before.cgroup.knobs.items()
    }
    for knob in (Knob.MEMORY_MAX, Knob.CPU_MAX, Knob.CPU_WEIGHT):
        assert found.containers[0].cgroup.knobs[knob].value == before.containers[0].cgroup.knobs[knob].value


def test_a_container_without_amounts_is_what_a_missing_record_says():
    """1.36 sends memory.min 0 to each container that it makes or updates."""
    best_effort = pod(container({}, {}))
    found = after(kubelet("1.32"), kubelet("1.36"), one=best_effort)
    assert "memory.min" not in found.containers[0].resources.unified


def test_a_container_whose_resizes_need_a_restart_is_made_again():
    policy = {"memory": ResizePolicy.RESTART_CONTAINER}
    one = pod(dataclasses.replace(container({"memory": "64Mi"}, {"memory": "64Mi"}), resize_policy=policy))
    found = after(kubelet("1.32"), kubelet("1.36", TIERED), one=one)
    fresh = expect([one], kubelet("1.36", TIERED)).pods[0].containers[0]
    assert found.containers[0].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(67108864)
    assert found.containers[0] == fresh


def test_init_containers_have_ended_and_sidecars_are_updated():
    sidecar = dataclasses.replace(
        container({"memory": "32Mi"}, {"memory": "32Mi"}, name="side"), kind=ContainerKind.SIDECAR
    )
    init = dataclasses.replace(container({"memory": "16Mi"}, {"memory": "16Mi"}, name="init"), kind=ContainerKind.INIT)
    one = dataclasses.replace(pod(container({"memory": "64Mi"}, {"memory": "64Mi"})), init_containers=(init, sidecar))
    found = {two.name: two for two in after(kubelet("1.32"), kubelet("1.36"), one=one).containers}
    minima = {name: two.cgroup.knobs[Knob.MEMORY_MIN].value.count for name, two in found.items()}
    assert minima["side"] == 0
    assert minima["init"] == 16777216


def test_pod_level_resources_without_a_record():
    """The pod's own limit is what it was, so its cgroup stays."""
    one = dataclasses.replace(
        pod(container({"memory": "64Mi"}, {})),
        resources=Resources(requests={"memory": container({"memory": "96Mi"}, {}).resources.requests["memory"]}),
    )
    gates = {"PodLevelResources": True}
    later = kubelet("1.36", **gates, InPlacePodLevelResourcesVerticalScaling=True)
    found = after(kubelet("1.32", **gates), later, one=one)
    assert low_and_min(found) == [0, 0]


def test_a_pod_that_only_the_new_kubelet_has_is_as_it_makes_it():
    old, new = (
        pod(container({"memory": "64Mi"}, {})),
        dataclasses.replace(pod(container({"memory": "64Mi"}, {})), uid="2", name="new"),
    )
    first, second = kubelet("1.32"), kubelet("1.36")
    plan = taken_over(expect([old], first), expect([old, new], second), [old, new], second, earlier=[first])
    assert plan.pod("2") == expect([old, new], second).pod("2")


def test_a_pod_of_another_class_is_not_taken_over():
    whole = container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}).resources
    one = dataclasses.replace(pod(container({}, {})), resources=whole)
    with_gate, without = kubelet("1.36"), kubelet("1.36", PodLevelResources=False)
    found = why_not_taken_over(expect([one], with_gate), expect([one], without))
    assert found == (
        f"pod default/{one.name} runs in /kubepods/pod{one.uid}, "
        f"and the next kubelet would look for it in /kubepods/besteffort/pod{one.uid}"
    )
    assert why_not_taken_over(expect([one], with_gate), expect([one], with_gate)) == ""


def test_a_pod_that_the_new_kubelet_refuses_is_not_taken_over():
    one = pod(container({"memory": "64Mi"}, {}))
    first = kubelet("1.36")
    assert (
        why_not_taken_over(expect([one], first), expect([], first))
        == f"the next kubelet would refuse pod default/{one.name}"
    )


def test_what_keeps_records():
    assert [keeps_records(kubelet(f"1.{minor}")) for minor in (27, 32, 33, 36, 37)] == [False, False, True, True, True]
