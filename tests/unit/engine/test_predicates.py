"""Pods that no Linux kubelet runs. Reasons and messages: kubernetes pkg/kubelet/lifecycle, 1.27.7 to 1.36.2."""

import pytest

from memqos.engine.expect import expect
from tests.unit.engine.admission.pods import kubelet
from tests.unit.engine.pods import pod

OS = "Failed to admit pod as the OS field doesn't match node OS"
LABEL = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
AFFINITY = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


def reasons(one, release, **gates):
    return [(refusal.reason_name, refusal.message) for refusal in expect([one], kubelet(release, **gates)).refusals]


@pytest.mark.parametrize(
    ("fields", "release", "found"),
    [
        ({"os": "windows"}, "1.23", []),
        ({"os": "windows"}, "1.24", [("PodOSNotSupported", OS)]),
        ({"os": "windows"}, "1.37", [("PodOSNotSupported", OS)]),
        ({"os": "linux"}, "1.37", []),
        ({"os_label": "windows"}, "1.22", []),
        ({"os_label": "windows", "os": "windows"}, "1.36", [("PodOSSelectorNodeLabelDoesNotMatch", LABEL)]),
        ({"os_label": "linux"}, "1.36", []),
        ({"not_on_linux": "spec.nodeSelector kubernetes.io/os=windows"}, "1.22", [("NodeAffinity", AFFINITY)]),
    ],
)
def test_operating_systems(fields, release, found):
    assert reasons(pod(**fields), release) == found


def test_the_gate_of_spec_os():
    assert reasons(pod(os="windows"), "1.23", IdentifyPodOS=True) == [("PodOSNotSupported", OS)]


@pytest.mark.parametrize(
    ("release", "static", "gated"), [("1.26", False, False), ("1.27", False, True), ("1.36", True, False)]
)
def test_scheduling_gates(release, static, gated):
    assert bool(reasons(pod(scheduling_gates=("a/b",), static=static), release)) is gated
