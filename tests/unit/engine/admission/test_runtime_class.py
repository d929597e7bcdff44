"""The plugin RuntimeClass. Messages and rows: kubernetes plugin/pkg/admission/runtimeclass, v1.36.2."""

import pytest

from memqos.engine.expect import expect
from memqos.model.cluster import ClusterObjects, RuntimeClass
from tests.unit.engine.admission.pods import admit, kubelet, message, new
from tests.unit.engine.pods import amounts

OVERHEAD = {"cpu": "100m", "memory": "1"}
FOO = RuntimeClass(name="foo", handler="bar", overhead=amounts(OVERHEAD), origin={"memory": "rc.yaml:7"})
BARE = RuntimeClass(name="foo", handler="bar")


def pod(given=None, cls=FOO, name="foo"):
    cluster = ClusterObjects(runtime_classes=(cls,))
    return new(runtime_class_name=name, overhead=amounts(given), cluster=cluster)


@pytest.mark.parametrize("given", [None, OVERHEAD])
def test_the_overhead_is_that_of_the_class(given):
    (found,) = admit(pod(given)).pods
    assert found.overhead == amounts(OVERHEAD)
    assert found.origin["overhead.memory"] == "rc.yaml:7 (RuntimeClass foo)"


def test_another_overhead_is_refused():
    said = "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert message(pod({"cpu": "10", "memory": "10G"})) == said


@pytest.mark.parametrize("unfounded", [pod(OVERHEAD, BARE), new(overhead=amounts(OVERHEAD))])
def test_an_overhead_that_no_class_has_is_refused(unfounded):
    said = 'pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead'
    assert message(unfounded) == said


def test_a_class_without_overhead_changes_nothing():
    (found,) = admit(pod(None, BARE)).pods
    assert found.overhead == {}


def test_an_unknown_class_is_refused():
    assert message(pod(name="kata")) == 'pods "p" is forbidden: pod rejected: RuntimeClass "kata" not found'


def test_a_class_may_select_nodes_of_another_system():
    windows = RuntimeClass(name="foo", handler="bar", not_on_linux="scheduling.nodeSelector kubernetes.io/os=windows")
    (refusal,) = expect([pod(None, windows)], kubelet()).refusals
    assert refusal.reason_name == "NodeAffinity"
    assert refusal.reason.inputs[0].value.endswith("kubernetes.io/os=windows of RuntimeClass foo")


def test_the_pod_keeps_the_handler_of_its_class():
    found = [one.runtime_handler for cls in (FOO, BARE) for one in admit(pod(None, cls)).pods]
    assert found == ["bar", "bar"]
