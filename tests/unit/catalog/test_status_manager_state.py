"""The kubelet's checkpoint `pod_status_manager_state` of 1.27 to 1.32, in its three forms."""

import json

import pytest

from memqos.catalog.allocation_state import (
    Checkpointed,
    checkpoints_of,
    status_manager_state,
    with_status_manager_state,
)
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import ContainerStatus, PodStatus, QosClass
from tests.unit.engine.pods import amounts, container, pod, resources

UNTIL_1_31 = (
    '{"allocationEntries":{"613b641e-0afc-4945-a8a4-cb9dd36b04b5":{"kube-proxy":null},'
    '"a97d1ae92249a663934cea325205d0d2":{"kube-scheduler":{"cpu":"600m","memory":"4Gi"}}},"checksum":201217417}'
)
"""A file of a kubelet that was configured with the gate, as kubernetes#117589 quotes it."""
BEFORE_1_32 = (
    r'{"data":"{\"allocationEntries\":{\"pod1\":{\"container1\":{\"cpu\":\"1Ki\",\"memory\":\"1Ki\"}}},'
    r'\"resizeStatusEntries\":{\"pod1\":\"Deferred\"}}","checksum":3470625989}'
)
"""Pod, container and amounts are those of upstream's test; its file is made while it runs, with no resize."""
OF_1_32 = (
    r'{"data":"{\"allocationEntries\":{\"pod1\":{\"container1\":{\"requests\":{\"cpu\":\"1Ki\",\"memory\":\"1Ki\"}}}}}"'
    r',"checksum":1555601526}'
)
"""Source: kubelet `status/state/state_checkpoint_test.go`, Test_stateCheckpoint_formatUpgraded."""


def read(text):
    return status_manager_state(json.loads(text) if isinstance(text, str) else text, file="t.json")


@pytest.mark.parametrize(("text", "found"), [
    (UNTIL_1_31, {
        "613b641e-0afc-4945-a8a4-cb9dd36b04b5": Checkpointed(
            containers={"kube-proxy": resources()}, requests_alone=True
        ),
        "a97d1ae92249a663934cea325205d0d2": Checkpointed(
            containers={"kube-scheduler": resources({"cpu": "600m", "memory": "4Gi"})}, requests_alone=True
        ),
    }),
    (BEFORE_1_32, {"pod1": Checkpointed(
        containers={"container1": resources({"cpu": "1Ki", "memory": "1Ki"})}, requests_alone=True, resize="Deferred"
    )}),
    (OF_1_32, {"pod1": Checkpointed(containers={"container1": resources({"cpu": "1Ki", "memory": "1Ki"})})}),
    # No pods yet.
    ('{"checksum":1}', {}), ('{"data":"{}"}', {}),
    ('{"resizeStatusEntries":{"u":"Infeasible","v":""}}', {
        "u": Checkpointed(requests_alone=True, resize="Infeasible"), "v": Checkpointed(requests_alone=True),
    }),
    # A pod without containers, and an empty container next to one with limits.
    ({"data": json.dumps({"allocationEntries": {"u": None, "v": {"a": {}, "b": {"limits": {"memory": "1Gi"}}}}})}, {
        "u": Checkpointed(), "v": Checkpointed(containers={"a": resources(), "b": resources({}, {"memory": "1Gi"})}),
    }),
])  # fmt: skip
def test_three_forms(text, found):
    assert read(text) == found


def test_amounts_have_their_places():
    assert {one.place for one in read(UNTIL_1_31).values()} == {"t.json pod_status_manager_state"}


ENTRIES = {"allocationEntries": {"u": {"a": {"memory": "1Gi"}}}}


@pytest.mark.parametrize(("document", "words"), [
    ([], "expected an object"), ({}, "expected 'allocationEntries', in it or in its data"),
    ({"data": 1}, "the text 'data'"), ({"data": "[]"}, "expected 'allocationEntries', in it or in its data"),
    ({"data": "no"}, "pod_status_manager_state"),
    (OF_1_32.replace("1Ki", "2Ki"), "the checksum does not match its data: the file is damaged, or was edited"),
    ({"allocationEntries": [1]}, "expected containers by pod"),
    ({"allocationEntries": {"u": [1]}}, "expected containers by pod"),
    ({"resizeStatusEntries": ["u"]}, "expected containers by pod"),
    ({"resizeStatusEntries": {"u": "Done"}}, "'Done' is not one of Proposed, InProgress, Deferred, Infeasible"),
    ({"resizeStatusEntries": {"u": ["Deferred"]}}, "is not one of Proposed"),
    ({"allocationEntries": {"u": {"a": "1Gi"}}}, "expected a container's resources, all in the same form"),
    ({"allocationEntries": {"u": {"a": {"memory": "1Gi"}, "b": {"limits": {}}}}}, "all in the same form"),
    ({"allocationEntries": {"u": {"a": {"memory": "much"}}}}, "'much' is not a quantity"),
    # Kubelets of 1.33 and later have another file.
    ({"data": json.dumps({"entries": {}})}, "expected 'allocationEntries', in it or in its data"),
])  # fmt: skip
def test_another_form_is_refused(document, words):
    with pytest.raises(ManifestError) as caught:
        read(document)
    assert words in str(caught.value)
    assert "t.json" in str(caught.value)


@pytest.mark.parametrize(("release", "names"), [
    ("1.26", ()), ("1.27", ("pod_status_manager_state",)), ("1.32", ("pod_status_manager_state",)),
    ("1.33", ("allocated_pods_state", "actuated_pods_state")),
    ("1.37", ("allocated_pods_state", "actuated_pods_state")),
])  # fmt: skip
def test_a_kubelet_reads_the_files_of_its_release(release, names):
    assert checkpoints_of(Release.parse(release)) == names


SMALL, LARGE = {"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "4Gi"}
ASKED = pod(container(LARGE, {"memory": "4Gi"}))
HAS_SMALL = ContainerStatus(name="c", allocated=amounts(SMALL), resources=resources(SMALL, {"memory": "1Gi"}))
NEITHER = "neither t.json pod_status_manager_state nor the pod's status reports which limits are allocated"
NOT_TAKEN_UP = "the spec requests a resize that the kubelet had not accepted when this was read"


def state(requests=None, limits=None, resize=""):
    return {"uid-p": Checkpointed(
        containers={} if requests is None else {"c": resources(requests, limits)},
        requests_alone=limits is None, resize=resize, place="t.json pod_status_manager_state",
    )}  # fmt: skip


def planned(one, release="1.31"):
    settings = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True})
    [found] = expect(
        [one], Kubelet.of(node=NodeFacts(memory=16 << 30, cpus=4), settings=settings, release=release)
    ).pods
    return found


def told(one, knob=Knob.MEMORY_MAX, release="1.31"):
    """The expected value of a container's file, and why it is uncertain."""
    expected = planned(one, release).containers[0].cgroup.knobs[knob]
    return expected.shown, expected.unsettled


def reporting(status=HAS_SMALL, **more):
    return pod(*ASKED.containers, status=PodStatus(containers={"c": status} if status else {}, **more))


def test_limits_of_the_checkpoint_apply():
    one = with_status_manager_state(ASKED, state(SMALL, {"memory": "1Gi"}, "Deferred"))
    assert told(one, release="1.32") == ("1073741824", "")
    [given] = planned(one, "1.32").containers[0].cgroup.knobs[Knob.MEMORY_MAX].reason.inputs
    assert given.origin == "t.json pod_status_manager_state: allocated 1Gi; 4Gi is requested and deferred"


@pytest.mark.parametrize(("resize", "why"), [
    ("Deferred", f"the resize is deferred, and {NEITHER}"),
    ("Infeasible", f"the resize is infeasible, and {NEITHER}"),
    ("", f"the spec has other requests than the allocated ones, and {NEITHER}, {NOT_TAKEN_UP}"),
])  # fmt: skip
def test_requests_alone_leave_limits_uncertain(resize, why):
    one = with_status_manager_state(ASKED, state(SMALL, resize=resize))
    assert told(one)[1] == why
    assert told(one, Knob.CPU_WEIGHT)[1] == ""


def test_allocated_requests_are_certain_without_limits():
    one = with_status_manager_state(
        pod(container({"cpu": "2", "memory": "1Gi"})), state({"cpu": "1", "memory": "1Gi"}, resize="Deferred")
    )
    # 1 CPU are 1024 shares: 1 + (1024 - 2) * 9999 / 262142 = 39.
    assert told(one, Knob.CPU_WEIGHT) == ("39", "")


def test_limits_of_the_status_are_used():
    one = with_status_manager_state(reporting(), state(SMALL, resize="Deferred"))
    assert told(one) == ("1073741824", "")
    bare = with_status_manager_state(reporting(None), state(SMALL, resize="Deferred"))
    assert told(bare)[1] == f"the resize is deferred, and {NEITHER}"


def test_limits_of_another_moment_are_not_used():
    middle = {"cpu": "100m", "memory": "2Gi"}
    one = with_status_manager_state(reporting(resize="Deferred"), state(middle, resize="Deferred"))
    assert told(one)[1] == f"the resize is deferred, and {NEITHER}"


def test_a_guaranteed_pod_has_the_limits_that_it_requests():
    small, large = {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "4Gi"}
    one = with_status_manager_state(pod(container(large, large)), state(small, resize="Deferred"))
    assert planned(one).qos is QosClass.GUARANTEED
    assert told(one) == ("1073741824", "")


def test_the_class_of_a_pod_does_not_change():
    # The allocation is twice the spec: the allocated requests equal the spec's new limits.
    asked, given = {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}
    one = with_status_manager_state(pod(container(asked, given)), state(given, resize="Deferred"))
    assert planned(one).qos is QosClass.BURSTABLE
    assert told(one)[1] == f"the resize is deferred, and {NEITHER}"


def test_a_full_allocation_is_certain():
    for limits in (None, {"memory": "4Gi"}):
        assert told(with_status_manager_state(ASKED, state(LARGE, limits))) == ("4294967296", "")
    assert with_status_manager_state(ASKED, {}) is ASKED
    assert told(with_status_manager_state(ASKED, state())) == ("4294967296", "")


# Only the status has the containers' actual resources.
def test_a_resize_in_progress():
    unsaid = "a resize is in progress, and the status does not report the containers' resources"
    one = with_status_manager_state(ASKED, state(LARGE, {"memory": "4Gi"}, "InProgress"))
    assert [told(one, knob)[1] for knob in (Knob.MEMORY_MAX, Knob.CPU_WEIGHT)] == [unsaid, unsaid]
    known = with_status_manager_state(reporting(), state(LARGE, {"memory": "4Gi"}, "InProgress"))
    assert told(known) == ("4294967296 or 1073741824", "a resize is in progress: 4294967296 or 1073741824")
    # The waiting resize has overwritten the entry of the one in progress.
    two = with_status_manager_state(reporting(), state({"cpu": "100m", "memory": "2Gi"}, {"memory": "2Gi"}, "Deferred"))
    assert told(two)[0] == "2147483648 or 1073741824"


def test_a_resize_of_limits_alone():
    # Up to 1.31 nothing is allocated for a change of limits alone.
    small = {"cpu": "100m", "memory": "512Mi"}
    told_ = ContainerStatus(name="c", allocated=amounts(small), resources=resources(small, {"memory": "1Gi"}))
    one = pod(container(small, {"memory": "4Gi"}), status=PodStatus(containers={"c": told_}))
    assert told(with_status_manager_state(one, state(small)))[0] == "4294967296 or 1073741824"


@pytest.mark.parametrize(("status", "entry", "shown"), [
    ("Deferred", "", "1073741824"), ("", "Deferred", "1073741824"), ("Infeasible", "Deferred", "1073741824"),
    ("Deferred", "InProgress", "1073741824"), ("Proposed", "Deferred", "1073741824 or 4294967296"),
])  # fmt: skip
def test_the_status_of_a_resize_wins_over_the_entry(status, entry, shown):
    one = with_status_manager_state(reporting(resize=status), state(SMALL, {"memory": "1Gi"}, entry))
    assert told(one, release="1.32")[0] == shown


def test_a_status_older_than_the_allocation():
    one = with_status_manager_state(reporting(resize="Deferred"), state(LARGE))
    assert told(one) == ("4294967296 or 1073741824", "a resize is in progress: 4294967296 or 1073741824")
