"""The kubelet's checkpoints of allocated and actuated resources, as kubelet v1.36.2 and later code write them."""

import json

import pytest

from memqos.catalog.allocation_state import Checkpointed, checkpointed, with_checkpoints
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.errors import ManifestError
from memqos.model.knob import Knob
from memqos.model.node import NodeFacts
from memqos.model.pod import ContainerStatus, PodStatus
from tests.unit.engine.pods import container, pod, resources

SMALL, LARGE = {"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "12Gi"}
LISTS = {"requests": SMALL, "limits": {"memory": "1Gi"}}


def state(entries):
    return {"data": json.dumps({"entries": entries})}


def read(document):
    return checkpointed(document, file="t.json", name="allocated_pods_state")


@pytest.mark.parametrize("entry", [
    {"ContainerResources": {"c": LISTS}, "PodLevelResources": None},
    {"podSpec": {"containers": [{"name": "c", "resources": LISTS}], "initContainers": None}},
])  # fmt: skip
def test_both_forms(entry):
    assert read(state({"u": entry})) == {"u": Checkpointed(containers={"c": resources(SMALL, {"memory": "1Gi"})})}


def test_no_pods():
    assert read({"data": "{}"}) == {}


@pytest.mark.parametrize(("document", "words"), [
    ([], "expected an object with the text 'data'"), ({"data": {}}, "expected an object with the text 'data'"),
    ({"data": "[]"}, "expected 'entries' in its data"), ({"data": "nothing"}, "allocated_pods_state"),
    (state([1]), "expected 'entries' in its data"), (state({"u": 1}), "expected a pod's resources"),
    (state({"u": {"ContainerResources": {"c": {"limits": {"memory": "much"}}}}}), "'much' is not a quantity"),
])  # fmt: skip
def test_invalid_checkpoints(document, words):
    with pytest.raises(ManifestError) as caught:
        read(document)
    assert words in str(caught.value)
    assert "t.json" in str(caught.value)


DATA = '{"allocationEntries":{"pod1":{"container1":{"requests":{"cpu":"1Ki","memory":"1Ki"}}}}}'
"""With its checksum 1555601526. Source: kubelet `status/state/state_checkpoint_test.go`."""


def test_the_checksum_of_a_kubelet_fits():
    """It has the form before 1.33, which is not used."""
    with pytest.raises(ManifestError, match="expected 'entries' in its data"):
        read({"data": DATA, "checksum": 1555601526})


@pytest.mark.parametrize("wrong", [{"data": DATA + " "}, {"checksum": 1555601527}, {"checksum": "1"}])
def test_a_damaged_checkpoint_is_refused(wrong):
    with pytest.raises(ManifestError, match="the checksum does not match its data: the file is damaged"):
        read({"data": DATA, "checksum": 1555601526} | wrong)


def of(requests, limits):
    return {"uid-p": Checkpointed(containers={"c": resources(requests, limits)})}


def planned(one):
    [found] = expect([one], Kubelet.of(node=NodeFacts(memory=16 << 30, cpus=4), release="1.35")).pods
    return found


def maximum(one):
    found = planned(one)
    return [cgroup.knobs[Knob.MEMORY_MAX].shown for cgroup in (found.cgroup, found.containers[0].cgroup)]


ASKED = pod(container(LARGE, {"memory": "12Gi"}))


def test_allocated_resources_apply_with_their_limits():
    allocated = of(SMALL, {"memory": "1Gi"})
    one = with_checkpoints(ASKED, allocated, allocated)
    assert maximum(one) == ["1073741824", "1073741824"]
    inputs = planned(one).containers[0].cgroup.knobs[Knob.MEMORY_MAX].reason.inputs
    assert "allocated 1Gi; 12Gi is requested and pending" in inputs[0].origin


def test_an_allocated_resize_in_progress_may_have_either_value():
    one = with_checkpoints(ASKED, of(LARGE, {"memory": "12Gi"}), of(SMALL, {"memory": "1Gi"}))
    assert maximum(one) == ["12884901888 or 1073741824"] * 2
    # A waiting resize is in neither.
    more = with_checkpoints(ASKED, of(SMALL, {"memory": "2Gi"}), of(SMALL, {"memory": "1Gi"}))
    assert maximum(more) == ["2147483648 or 1073741824"] * 2


def test_a_status_that_is_older():
    told = ContainerStatus(name="c", allocated=resources(SMALL).requests, resources=resources(SMALL))
    old = PodStatus(pending="Deferred", resize="Deferred", containers={"c": told})
    one = pod(container(LARGE, {"memory": "12Gi"}), status=old)
    assert maximum(with_checkpoints(one, of(LARGE, {"memory": "12Gi"}), {})) == ["12884901888", "12884901888"]
    assert with_checkpoints(one, {}, {}) is one
