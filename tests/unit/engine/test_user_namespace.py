"""A kubelet in a user namespace: values that it cannot write are not observable and named.

Source: KEP-2033; Linux fs/proc/base.c, __set_oom_adj.
"""

from dataclasses import replace

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, judge
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import KubeletSettings
from tests.unit.engine.pods import NODE, container, pod
from tests.unit.engine.test_verdict import IDS, reading, with_file

ROOTLESS = replace(NODE, user_namespace=True)
GUARANTEED = pod(container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}))


def plan(node, release="1.37", **settings):
    return expect([GUARANTEED], Kubelet.of(node=node, release=release, settings=KubeletSettings(**settings)))


def notes(node, **more):
    return [one.what for one in plan(node, **more).remarks if one.about == "status.nodeInfo.runningInUserNamespace"]


def test_only_a_node_in_a_user_namespace_is_remarked():
    assert notes(NODE) == []
    [what] = notes(ROOTLESS)
    assert "hugetlb" in what
    assert "feature gate" not in what


@pytest.mark.parametrize(
    ("release", "gates", "says"),
    [
        ("1.36", {}, True),
        ("1.36", {"KubeletInUserNamespace": True}, False),
        ("1.22", {"AllAlpha": True}, False),
        ("1.37", {"KubeletInUserNamespace": False}, True),
    ],
)
def test_it_needs_the_gate(release, gates, says):
    [what] = notes(ROOTLESS, release=release, feature_gates=gates)
    assert ("only with the feature gate KubeletInUserNamespace, which is off here" in what) is says


@pytest.mark.parametrize(
    ("node", "score", "verdict"),
    [
        (NODE, "-997", Verdict.CONFORMS),
        (NODE, "100", Verdict.DEVIATES),
        (ROOTLESS, "-997", Verdict.CONFORMS),
        (ROOTLESS, "100", Verdict.NOT_OBSERVABLE),
        (ROOTLESS, "-998", Verdict.DEVIATES),
    ],
)
def test_a_score_that_could_not_be_lowered_is_not_observable(node, score, verdict):
    judged = plan(node)
    path = judged.pods[0].cgroup.path.child("0a1b")
    seen = with_file(reading(judged), str(path), OOM_SCORE_ADJ, f"{score}\n")
    found = judge(judged, seen, enacted_by=Setter.KUBELET, ids=IDS)
    [found] = [one for one in found if one.knob == OOM_SCORE_ADJ]
    assert found.verdict is verdict
    assert ("KEP-2033" in found.why_not) is (verdict is Verdict.NOT_OBSERVABLE)
