"""The plugin Priority. Messages and rules: kubernetes plugin/pkg/admission/priority, v1.36.2."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input
from memqos.model.cluster import ClusterObjects, PriorityClass
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings, SwapBehavior
from tests.unit.engine.admission.pods import admit, message, new
from tests.unit.engine.pods import NODE, container, pod

HIGH = PriorityClass(name="high", value=1000, origin="high.yaml:4")
NEVER = PriorityClass(name="never", value=7, preemption_policy="Never", origin="never.yaml:4")


def one_default(value, name=""):
    return PriorityClass(name=name or f"default-{value}", value=value, global_default=True, origin="d.yaml:2")


def admitted_pod(**more):
    (found,) = admit(new(**more)).pods
    return found


@pytest.mark.parametrize(
    ("name", "value"), [("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)]
)
def test_classes_of_the_system(name, value):
    found = admitted_pod(priority_class_name=name)
    assert (found.priority, found.is_critical, found.origin["priority"]) == (value, True, "built into the API server")


def test_a_class_given_with_the_pod():
    found = admitted_pod(priority_class_name="high", cluster=ClusterObjects(priority_classes=(HIGH,)))
    assert (found.priority, found.origin["priority"], found.submission) == (1000, "high.yaml:4", None)


def test_without_a_class_the_lowest_default_counts():
    classes = (one_default(20), one_default(10), one_default(30), HIGH)
    found = admitted_pod(cluster=ClusterObjects(priority_classes=classes))
    assert (found.priority, found.priority_class_name) == (10, "default-10")
    assert found.origin["priorityClassName"] == "d.yaml:2, globalDefault"
    found = admitted_pod(cluster=ClusterObjects(priority_classes=(HIGH,)))
    assert (found.priority, found.priority_class_name) == (0, "")


def test_an_unknown_class_is_refused():
    said = message(new(priority_class_name="none"))
    assert said == 'pods "p" is forbidden: no PriorityClass with name none was found'


def test_a_priority_must_be_that_of_the_class():
    cluster = ClusterObjects(priority_classes=(HIGH,))
    assert admitted_pod(priority=1000, priority_class_name="high", cluster=cluster).priority == 1000
    assert admitted_pod(priority=0).priority == 0
    assert message(new(priority=5, priority_class_name="high", cluster=cluster)) == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission '
        "controller computed 1000 from the given PriorityClass name"
    )


def test_a_preemption_policy_must_be_that_of_the_class():
    cluster = ClusterObjects(priority_classes=(NEVER,))
    assert admitted_pod(preemption_policy="Never", priority_class_name="never", cluster=cluster).priority == 7
    assert admitted_pod(priority_class_name="never", cluster=cluster).priority == 7
    assert message(new(preemption_policy="Never")) == (
        'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; '
        "priority admission controller computed PreemptLowerPriority from the given PriorityClass name"
    )


def test_the_priority_is_in_the_reason_for_the_score_and_the_swap():
    settings = KubeletSettings(fail_swap_on=False, swap_behavior=SwapBehavior.LIMITED)
    one = Kubelet.of(node=NODE, release="1.36", settings=settings)
    burstable = container({"memory": "1Mi"}, {"memory": "2Mi"})
    plan = expect([new(burstable, priority_class_name="system-node-critical")], one)
    (found,) = plan.pods[0].containers
    given = Input("priority", "2000001000", "built into the API server")
    assert found.oom_score_adj_reason.inputs[-1] == given
    assert given in found.cgroup.knobs[Knob.MEMORY_SWAP_MAX].reason.inputs
    static = expect([pod(burstable, static=True, priority_class_name="system-node-critical")], one)
    (found,) = static.pods[0].containers
    assert [one.name for one in found.oom_score_adj_reason.inputs] == ["priorityClassName"]
    assert "priority" not in {one.name for one in found.cgroup.knobs[Knob.MEMORY_SWAP_MAX].reason.inputs}
