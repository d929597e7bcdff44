"""Trees of real kubelets (1.27.7, 1.32.13, 1.36.3): no knob may deviate.

Values that a tree lacks are listed with the reason; no other value may be missing.
"""

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, judge
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from tests.trees.recording import FOLDER, load

TREES = sorted(path.stem for path in FOLDER.glob("*.json"))

# The init container of burst-init-max had ended when the tree was read. 1.27 has no sidecars: burst-sidecar stays in
# its init container forever, and its app never starts. The second container of g-two had not started yet when its tree
# was read.
ENDED = "container i of pod default/burst-init-max-n1"
UNSEEN = {
    "v1.27.7.on-0.9-systemd": {ENDED, "container a of pod default/burst-sidecar-n1"},
    "v1.36.3.static-single-numa": {"container b of pod default/g-two-n1"},
}


# The kubelet admits static pods in any order. The log of the one with the Memory Manager shows its order.
ORDER = ["g-two-n1", "g-big-n1", "g-small-n1", "burst-n1", "g-too-big"]


def planned(recording):
    pods = recording.pods + recording.absent
    if recording.settings.memory_manager_policy == "Static":
        pods = sorted(pods, key=lambda pod: ORDER.index(pod.name))
    return expect(pods, Kubelet.of(node=recording.node, settings=recording.settings, release=recording.release))


def findings(name):
    recording = load(name)
    return judge(planned(recording), recording.reading, enacted_by=Setter.KUBELET, ids=recording.ids)


def test_every_tree_exists():
    assert TREES == [
        "v1.27.7.on-0.9-systemd",
        "v1.32.13.on-0.9-systemd",
        "v1.36.3.gate-off-systemd",
        "v1.36.3.none-0.9-systemd",
        "v1.36.3.qosreserved-50",
        "v1.36.3.static-single-numa",
        "v1.36.3.tiered-0.9-systemd-reserved",
    ]


@pytest.mark.parametrize("name", TREES)
def test_no_knob_deviates(name):
    found = findings(name)
    wrong = [one for one in found if one.verdict is Verdict.DEVIATES]
    unseen = {str(one.subject) for one in found if one.verdict is Verdict.NOT_OBSERVABLE}
    assert wrong == []
    assert unseen == UNSEEN.get(name, {ENDED})


# The number of knobs in each tree, so that a partly read tree fails.
@pytest.mark.parametrize(("name", "proved"), [
    ("v1.27.7.on-0.9-systemd", 315),
    ("v1.32.13.on-0.9-systemd", 327),
    ("v1.36.3.gate-off-systemd", 327),
    ("v1.36.3.none-0.9-systemd", 327),
    ("v1.36.3.qosreserved-50", 327),
    ("v1.36.3.static-single-numa", 119),
    ("v1.36.3.tiered-0.9-systemd-reserved", 349),
])  # fmt: skip
def test_every_knob_is_judged(name, proved):
    conforming = [one for one in findings(name) if one.verdict is Verdict.CONFORMS]
    assert len(conforming) == proved
    assert sum(one.knob == OOM_SCORE_ADJ for one in conforming) >= 4


@pytest.mark.parametrize("name", TREES)
def test_the_same_pods_run(name):
    """Exactly the pods missing in the tree were refused."""
    recording = load(name)
    refused = [(one.name, one.reason_name) for one in planned(recording).refusals]
    static = [("default/g-too-big", "UnexpectedAdmissionError")]
    assert refused == (static if name == "v1.36.3.static-single-numa" else [])
    assert [pod.name for pod in recording.absent] == [one.removeprefix("default/") for one, _ in refused]


def test_cpuset_mems_is_judged_with_the_memory_manager():
    seen = {
        str(one.subject): one.expected for one in findings("v1.36.3.static-single-numa") if one.knob == "cpuset.mems"
    }
    assert seen == {
        "container a of pod default/burst-n1": "",
        "container a of pod default/g-big-n1": "0",
        "container a of pod default/g-small-n1": "1",
        "container a of pod default/g-two-n1": "0",
        "container b of pod default/g-two-n1": "0",
    }


@pytest.mark.parametrize("release", ["1.22", "1.36"])
def test_another_release_deviates(release):
    recording = load("v1.27.7.on-0.9-systemd")
    plan = expect(recording.pods, Kubelet.of(node=recording.node, settings=recording.settings, release=release))
    wrong = [
        one
        for one in judge(plan, recording.reading, enacted_by=Setter.KUBELET, ids=recording.ids)
        if one.verdict is Verdict.DEVIATES
    ]
    assert {one.knob for one in wrong} >= {"memory.high" if release == "1.22" else "memory.min"}
