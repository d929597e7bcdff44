import pytest

from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.release import Release, Variant, revisions
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.errors import UnknownNameError


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("1.22", 22),
        ("v1.27", 27),
        ("1.27.7", 27),
        ("v1.36.3", 36),
        (" 1.37 ", 37),
        ("1.37.0-beta.0", 37),
        ("v1.32.13+k3s1", 32),
    ],
)
def test_releases(text, minor):
    assert Release.parse(text) == Release.of(text) == Release(minor)
    assert str(Release.parse(text)) == f"1.{minor}"
    assert Release.of(Release(minor)) == Release(minor)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.21",
        "1.38",
        "2.0",
        "1",
        "latest",
        "1.27.x",
        "1.٢٧",
        "1.270",
        "v 1.27",
        "1.036",
        "1.0036",
        "01.36",
        "1.36.03",
        "1.36.",
    ],
)
def test_unknown_releases(text):
    with pytest.raises(UnknownNameError, match="there is no Kubernetes release") as caught:
        Release.parse(text)
    assert caught.value.data["known"][0] == "1.22"
    assert caught.value.data["known"][-1] == "1.37"


def test_order():
    assert Release(22) < Release(37)
    assert Release(36).has(Novelty.RESERVATION_POLICY)
    assert not Release(35).has(Novelty.RESERVATION_POLICY)


@pytest.mark.parametrize(
    ("release", "family", "name"),
    [
        ("1.22", Family.MEMORY_QOS, "memory-qos v1.22"),
        ("1.26", Family.MEMORY_QOS, "memory-qos v1.22"),
        ("1.27", Family.MEMORY_QOS, "memory-qos v1.27 shipped"),
        ("1.35", Family.MEMORY_QOS, "memory-qos v1.27 shipped"),
        ("1.36", Family.MEMORY_QOS, "memory-qos v1.36 shipped"),
        ("1.37", Family.MEMORY_QOS, "memory-qos v1.37"),
        ("1.27", Family.SWAP, "swap v1.22"),
        ("1.28", Family.SWAP, "swap v1.28 shipped"),
        ("1.30", Family.SWAP, "swap v1.30"),
        ("1.31", Family.SWAP, "swap v1.31"),
        ("1.27", Family.LIMITS_DECLARED, "limits declared v1.27"),
        ("1.33", Family.OOM_SCORE, "oom_score_adj v1.33"),
        ("1.33", Family.CPU, "cpu conversions v1.33"),
        ("1.34", Family.CPU, "cpu conversions v1.34"),
        ("1.22", Family.SANDBOX, "sandbox resources v1.22"),
        ("1.26", Family.RESIZE, "resize v1.22"),
        ("1.27", Family.RESIZE, "resize v1.27 shipped"),
        ("1.37", Family.RESIZE, "resize v1.37 shipped"),
        ("1.29", Family.MEMORY_MANAGER, "memory-manager v1.29"),
        ("1.37", Family.TOPOLOGY_MANAGER, "topology-manager v1.24"),
    ],
)
def test_revisions(release, family, name):
    assert revisions(Release.parse(release), Variant.SHIPPED)[family] == name
    documented = revisions(Release.parse(release), Variant.DOCUMENTED)[family]
    assert documented == name.replace("shipped", "documented")


# A later fix: families without one have the release's own code.
@pytest.mark.parametrize(("release", "family", "name"), [
    ("1.37", Family.RESIZE, "resize v1.37 mended"), ("1.36", Family.RESIZE, "resize v1.36 shipped"),
    ("1.36", Family.MEMORY_QOS, "memory-qos v1.36 shipped"),
])  # fmt: skip
def test_revisions_of_mended_code(release, family, name):
    assert revisions(Release.parse(release), Variant.MENDED)[family] == name


def test_every_release_has_a_revision_of_every_family():
    for minor in range(22, 38):
        assert set(revisions(Release(minor), Variant.SHIPPED)) == set(Family)


@pytest.mark.parametrize(
    ("gate", "release", "given", "on"),
    [
        (Gate.MEMORY_QOS, "1.36", {}, False),
        (Gate.MEMORY_QOS, "1.36", {"MemoryQoS": True}, True),
        (Gate.MEMORY_QOS, "1.37", {}, True),
        (Gate.MEMORY_QOS, "1.37", {"MemoryQoS": False}, False),
        (Gate.NODE_SWAP, "1.29", {}, False),
        (Gate.NODE_SWAP, "1.30", {}, True),
        (Gate.NODE_SWAP, "1.33", {"NodeSwap": False}, False),
        # Locked: what is configured no longer counts.
        (Gate.NODE_SWAP, "1.34", {"NodeSwap": False}, True),
        # Not introduced yet: it does not count either.
        (Gate.SIDECARS, "1.27", {"SidecarContainers": True}, False),
        (Gate.SIDECARS, "1.28", {}, False),
        (Gate.SIDECARS, "1.29", {}, True),
        (Gate.POD_LEVEL_RESOURCES, "1.33", {}, False),
        (Gate.POD_LEVEL_RESOURCES, "1.34", {}, True),
        (Gate.CFS_QUOTA_PERIOD, "1.35", {}, False),
        (Gate.CFS_QUOTA_PERIOD, "1.36", {}, True),
        (Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS, "1.32", {}, False),
        (Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS, "1.33", {}, True),
    ],
)
def test_gates(gate, release, given, on):
    assert enabled(gate, Release.parse(release), given) is on


def test_stage_before_the_gate():
    assert stage(Gate.POD_LEVEL_RESOURCES, Release(31)) is None
