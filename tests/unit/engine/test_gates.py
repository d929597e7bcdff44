"""Feature gates: groups, stages, and gates with which a kubelet does not start."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import RELEASES, STAGES, Gate, Maturity
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings
from tests.unit.engine.pods import NODE


def on(gate, release, **given):
    return enabled(gate, Release.of(release), given)


@pytest.mark.parametrize(("gate", "release", "given", "wanted"), [
    (Gate.MEMORY_QOS, "1.36", {"AllAlpha": True}, True),
    (Gate.MEMORY_QOS, "1.37", {"AllAlpha": True, "AllBeta": False}, False),
    (Gate.MEMORY_QOS, "1.37", {"AllAlpha": False}, True),
    (Gate.MEMORY_QOS, "1.36", {"AllBeta": True}, False),
    (Gate.MEMORY_QOS, "1.36", {"AllAlpha": True, "MemoryQoS": False}, False),
    (Gate.MEMORY_QOS, "1.37", {"AllBeta": False, "MemoryQoS": True}, True),
    (Gate.POD_LEVEL_RESOURCES, "1.31", {"AllAlpha": True}, False),
    (Gate.POD_LEVEL_RESOURCES, "1.32", {"AllAlpha": True}, True),
    (Gate.POD_LEVEL_RESOURCES, "1.34", {"AllBeta": False}, False),
    (Gate.POD_LEVEL_RESOURCES, "1.34", {"AllAlpha": False}, True),
    (Gate.NODE_SWAP, "1.27", {"AllAlpha": True}, True),
    (Gate.NODE_SWAP, "1.28", {"AllAlpha": True}, False),
    (Gate.NODE_SWAP, "1.29", {"AllBeta": True}, True),
    (Gate.NODE_SWAP, "1.34", {"AllBeta": False, "AllAlpha": False}, True),
    (Gate.SIDECARS, "1.32", {"AllBeta": False}, False),
    (Gate.SIDECARS, "1.33", {"AllBeta": False}, True),
    (Gate.QOS_RESERVED, "1.37", {"AllAlpha": True}, True),
    (Gate.CFS_QUOTA_PERIOD, "1.35", {"AllAlpha": True}, True),
    (Gate.CFS_QUOTA_PERIOD, "1.36", {"AllAlpha": False}, True),
    (Gate.TOPOLOGY_BETA_OPTIONS, "1.26", {"AllBeta": True}, True),
    (Gate.TOPOLOGY_OPTIONS, "1.32", {"AllBeta": False}, True),
    (Gate.TOPOLOGY_MANAGER, "1.30", {"AllBeta": False}, True),
    (Gate.MEMORY_MANAGER, "1.31", {"AllBeta": False}, False),
    (Gate.POD_LEVEL_MANAGERS, "1.36", {"AllAlpha": True}, True),
    (Gate.POD_LEVEL_MANAGERS, "1.37", {}, True),
    (Gate.DRIVER_FROM_CRI, "1.30", {}, False),
    (Gate.DRIVER_FROM_CRI, "1.31", {}, True),
    (Gate.DRIVER_FROM_CRI, "1.31", {"AllBeta": False}, False),
    (Gate.RESIZE, "1.35", {"AllBeta": False}, True),
])  # fmt: skip
def test_groups_by_the_stage_of_the_release(gate, release, given, wanted):
    assert on(gate, release, **given) is wanted


@pytest.mark.parametrize("gate", Gate)
@pytest.mark.parametrize("minor", RELEASES)
def test_a_named_gate_wins_over_both_groups(gate, minor):
    release = Release(minor)
    for group in (True, False):
        found = enabled(gate, release, {"AllAlpha": group, "AllBeta": group, gate: not group})
        assert found is enabled(gate, release, {gate: not group})


@pytest.mark.parametrize("gate", Gate)
def test_stages_only_go_forward(gate):
    order = list(Maturity)
    reached = [order.index(one.maturity) for one in STAGES[gate]]
    assert reached == sorted(reached)


@pytest.mark.parametrize(("release", "gates", "says"), [
    ("1.31", {"PodLevelResources": True}, 'does not start ("unrecognized feature gate: PodLevelResources")'),
    ("1.31", {"PodLevelResources": True}, "it came with 1.32"),
    ("1.30", {"TopologyManager": True}, "the kubelet of 1.30 no longer has the gate TopologyManager"),
    ("1.30", {"TopologyManager": True}, "it was removed in 1.29"),
    ("1.34", {"NodeSwap": False}, '"cannot set feature gate NodeSwap to false, feature is locked to true"'),
    ("1.28", {"TopologyManager": False}, "feature is locked to true"),
    ("1.36", {"allalpha": True}, 'unrecognized feature gate: allalpha").'),
    ("1.36", {"ALLBETA": True}, "Did you mean 'AllBeta'?"),
])  # fmt: skip
def test_gates_that_a_kubelet_refuses(release, gates, says):
    settings = KubeletSettings(feature_gates=gates)
    with pytest.raises(ManifestError) as caught:
        expect([], Kubelet.of(node=NODE, settings=settings, release=release))
    assert says in str(caught.value)


@pytest.mark.parametrize(("release", "gates"), [
    ("1.34", {"NodeSwap": True}), ("1.28", {"TopologyManager": True}), ("1.36", {"AllAlpha": True, "AllBeta": True}),
])  # fmt: skip
def test_gates_that_a_kubelet_accepts(release, gates):
    expect([], Kubelet.of(node=NODE, settings=KubeletSettings(feature_gates=gates), release=release))
