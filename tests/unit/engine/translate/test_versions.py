"""Behaviour by version."""

from dataclasses import replace

import pytest

from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.cgroup.layout import Layout
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import Feature, RuntimeName, traits_of
from memqos.model.node import CgroupDriver, RuntimeFlavour


@pytest.mark.parametrize(
    ("runtime", "version", "feature", "has"),
    [
        ("containerd", "1.6.12", Feature.SWAP_FOLLOWS_MEMORY, False),
        ("containerd", "1.6.13", Feature.SWAP_FOLLOWS_MEMORY, True),
        ("containerd", "1.6.20~ds1-1+deb12u1", Feature.SWAP_NEEDS_CONTROLLER, False),
        ("containerd", "1.6.21", Feature.SWAP_NEEDS_CONTROLLER, False),
        ("containerd", "1.6.22", Feature.SWAP_NEEDS_CONTROLLER, True),
        ("containerd", "1.6.39", Feature.SWAP_NEEDS_CONTROLLER, True),
        ("containerd", "1.7.0", Feature.SWAP_NEEDS_CONTROLLER, False),
        ("containerd", "1.7.2", Feature.SWAP_NEEDS_CONTROLLER, False),
        ("containerd", "1.7.3", Feature.SWAP_NEEDS_CONTROLLER, True),
        ("containerd", "v1.7.24", Feature.SWAP_NEEDS_CONTROLLER, True),
        ("containerd", "2.1.9", Feature.UPDATE_KEEPS_UNIFIED, True),
        ("cri-o", "1.35.9", Feature.UPDATE_KEEPS_UNIFIED, False),
        ("cri-o", "1.36.0", Feature.UPDATE_KEEPS_UNIFIED, True),
        ("runc", "1.1.5", Feature.CPUSET_BYTES_IN_ORDER, False),
        ("runc", "1.1.6", Feature.CPUSET_BYTES_IN_ORDER, True),
        ("runc", "1.1.9", Feature.HUGETLB_RESERVATIONS, False),
        ("runc", "1.1.15+ds1-2+b4", Feature.HUGETLB_RESERVATIONS, True),
        ("runc", "1.1.15+ds1-2+b4", Feature.MISSING_SWAP_FILE_TOLERATED, False),
        ("runc", "1.2.0", Feature.MISSING_SWAP_FILE_TOLERATED, True),
        ("runc", "1.2.0", Feature.UNLIMITED_MEMORY_TAKES_SWAP, False),
        ("runc", "1.2.1", Feature.UNLIMITED_MEMORY_TAKES_SWAP, True),
        ("runc", "1.1.15", Feature.UPDATE_KEEPS_MEMORY, False),
        ("runc", "1.2.0", Feature.UPDATE_KEEPS_MEMORY, True),
        ("crun", "1.28", Feature.UPDATE_KEEPS_MEMORY, False),
        ("runc", "1.3.1", Feature.ROUNDED_QUOTA_IN_FILE, False),
        ("runc", "1.3.2", Feature.ROUNDED_QUOTA_IN_FILE, True),
        ("crun", "1.8.5", Feature.ZERO_SWAP_IS_ZERO, False),
        ("crun", "1.8.6", Feature.ZERO_SWAP_IS_ZERO, True),
        ("crun", "1.12.1", Feature.NEGATIVE_IS_MAX, False),
        ("crun", "1.13", Feature.NEGATIVE_IS_MAX, True),
        ("crun", "1.17", Feature.SCOPE_HAS_PROTECTION, False),
        ("crun", "1.18", Feature.SCOPE_HAS_PROTECTION, True),
        ("runc", "unknown", Feature.CPUSET_BYTES_IN_ORDER, False),
        ("runsc", "0.0~20240729.0", Feature.HAS_UPDATE, False),
        ("runsc", "release-20260202.0", Feature.HAS_UPDATE, True),
        ("runsc", "release-20260406.0", Feature.READS_UNIFIED, False),
        ("runsc", "release-20260413.0", Feature.READS_UNIFIED, True),
        ("runsc", "20260817.0", Feature.REFUSES_WRONG_SWAP, True),
    ],
)
def test_versions(runtime, version, feature, has):
    assert traits_of(runtime, version).has(feature) is has


@pytest.mark.parametrize(
    ("runtime", "version", "feature", "known"),
    [
        ("runc", "unknown", Feature.QUADRATIC_WEIGHT, None),
        ("runc", "", Feature.CPUSET_BYTES_IN_ORDER, None),
        ("runc", "1", Feature.QUADRATIC_WEIGHT, None),
        ("runc", "9" * 5000, Feature.QUADRATIC_WEIGHT, None),
        ("runc", "1." + "9" * 5000, Feature.QUADRATIC_WEIGHT, None),
        ("runc", "1.3", Feature.QUADRATIC_WEIGHT, None),
        ("runc", "1.2", Feature.QUADRATIC_WEIGHT, False),
        ("runc", "1.4", Feature.QUADRATIC_WEIGHT, True),
        ("runc", "1.3.1+dev", Feature.QUADRATIC_WEIGHT, None),
        ("runc", "1.3.2+dev", Feature.QUADRATIC_WEIGHT, True),
        ("runc", "1.3.0+dev", Feature.QUADRATIC_WEIGHT, False),
        ("runc", "1.3.0-rc.1+dev", Feature.QUADRATIC_WEIGHT, None),
        ("runc", "1.3.0-rc.1", Feature.QUADRATIC_WEIGHT, False),
        ("runc", "1.5.1+dev", Feature.OOM_GROUP_IS_OOM_POLICY, False),
        ("runc", "1.5.0-rc.1+dev", Feature.OOM_GROUP_IS_OOM_POLICY, None),
        ("runc", "1.6.0-rc.1", Feature.OOM_GROUP_IS_OOM_POLICY, True),
        ("runc", "1.3.1-5-g1a2b3c4d", Feature.ROUNDED_QUOTA_IN_FILE, None),
        ("runc", "1.3.1+ds1-2", Feature.ROUNDED_QUOTA_IN_FILE, False),
        ("crun", "1.22", Feature.QUADRATIC_WEIGHT, False),
        ("crun", "1.22.0.0.0.5-1a2b", Feature.QUADRATIC_WEIGHT, None),
        ("crun", "1.23.1", Feature.QUADRATIC_WEIGHT, True),
        ("crun", "UNKNOWN", Feature.QUADRATIC_WEIGHT, None),
        ("containerd", "1.6", Feature.SWAP_FOLLOWS_MEMORY, None),
        ("containerd", "1.6", Feature.SWAP_NEEDS_CONTROLLER, None),
        ("containerd", "1.7", Feature.SWAP_NEEDS_CONTROLLER, None),
        ("containerd", "2", Feature.SWAP_NEEDS_CONTROLLER, True),
        ("containerd", "unknown", Feature.UPDATE_KEEPS_UNIFIED, True),
    ],
)
def test_an_ambiguous_version_is_in_doubt(runtime, version, feature, known):
    assert traits_of(runtime, version).known(feature) is known


def test_a_known_version_has_one_candidate():
    assert TRIXIE.cri.candidates == (TRIXIE.cri,)
    assert TRIXIE.candidates == (TRIXIE,)


def test_an_unknown_version_has_all_behaviours_as_candidates_newest_first():
    found = traits_of("containerd", "").candidates
    assert [one.features for one in found] == [
        {Feature.SWAP_FOLLOWS_MEMORY, Feature.SWAP_NEEDS_CONTROLLER, Feature.UPDATE_KEEPS_UNIFIED},
        {Feature.SWAP_FOLLOWS_MEMORY, Feature.UPDATE_KEEPS_UNIFIED},
        {Feature.UPDATE_KEEPS_UNIFIED},
    ]
    assert {one.in_doubt for one in found} == {frozenset()}
    assert {str(one) for one in found} == {"containerd of unknown version"}


def test_features_of_one_release_come_together():
    newer, older = traits_of("runc", "1.3").candidates
    assert newer.features - older.features == {Feature.QUADRATIC_WEIGHT, Feature.ROUNDED_QUOTA_IN_FILE}


def test_two_unknown_versions_have_every_pair_as_candidate():
    both = Runtimes(cri=traits_of("containerd", ""), oci=traits_of("runc", "1.3"), hugetlb=True, systemd=252)
    assert len(both.candidates) == 6
    assert {(one.hugetlb, one.systemd) for one in both.candidates} == {(True, 252)}


@pytest.mark.parametrize(
    ("runtime", "linear", "quadratic"), [(RuntimeName.RUNC, "1.3.1", "1.3.2"), (RuntimeName.CRUN, "1.22", "1.23")]
)
def test_weights(runtime, linear, quadratic):
    assert traits_of(runtime, linear).weight is WeightConversion.LINEAR
    assert traits_of(runtime, quadratic).weight is WeightConversion.QUADRATIC


def test_an_unknown_runtime_is_an_error():
    with pytest.raises(ValueError, match="youki"):
        traits_of("youki", "0.5")


@pytest.mark.parametrize(
    ("cri", "oci", "driver", "layout"),
    [
        ("containerd", "runc", CgroupDriver.SYSTEMD, Layout(driver=CgroupDriver.SYSTEMD)),
        (
            "cri-o",
            "crun",
            CgroupDriver.SYSTEMD,
            Layout(driver=CgroupDriver.SYSTEMD, flavour=RuntimeFlavour.CRIO, subgroup="container"),
        ),
        ("containerd", "crun", CgroupDriver.CGROUPFS, Layout(driver=CgroupDriver.CGROUPFS, subgroup="container")),
        (
            "bundles",
            "runc",
            CgroupDriver.SYSTEMD,
            Layout(driver=CgroupDriver.SYSTEMD, flavour=RuntimeFlavour.BUNDLES),
        ),
    ],
)
def test_the_cgroups_of_containers(cri, oci, driver, layout):
    assert Runtimes(cri=traits_of(cri, "1.7"), oci=traits_of(oci, "1.1")).layout(driver) == layout


def test_all_but_containerd_always_pass_huge_pages_on():
    assert Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci).passes_huge_pages
    assert Runtimes(cri=BUNDLES, oci=TRIXIE.oci).passes_huge_pages
    assert not TRIXIE.passes_huge_pages


def test_their_names_and_versions():
    assert str(TRIXIE) == "containerd 1.7.24 with runc 1.1.15"
    assert str(Runtimes(cri=BUNDLES, oci=TRIXIE.oci)) == "memqos's own bundles with runc 1.1.15"


def test_a_runtime_with_its_own_name():
    own = replace(traits_of("runc", ""), called="youki 0.3.3")

    assert str(own) == "youki 0.3.3"
    assert str(traits_of("runc", "")) == "runc of unknown version"
