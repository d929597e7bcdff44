"""The runtimes of a machine, by their own reports."""

import pytest

from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.translate.versions import Feature
from memqos.laboratory.station import runtimes_of
from memqos.model.node import CgroupDriver, RuntimeFlavour


@pytest.mark.parametrize(
    ("oci", "version", "weight"),
    [
        ("runc", "1.1.15+ds1-2+b4", WeightConversion.LINEAR),
        ("runc", "1.3.1", WeightConversion.LINEAR),
        ("runc", "1.3.2", WeightConversion.QUADRATIC),
        ("runc", "1.3.6+ds1", WeightConversion.QUADRATIC),
        ("crun", "1.21", WeightConversion.LINEAR),
        ("crun", "1.23", WeightConversion.QUADRATIC),
        ("crun", "1.28.1", WeightConversion.QUADRATIC),
    ],
)
def test_the_weight_conversion_follows_the_version(oci, version, weight):
    found = runtimes_of(cri="containerd", cri_version="1.7.24~ds1", oci=oci, oci_version=version, hugetlb=True)

    assert found.oci.weight is weight
    assert found.oci.in_doubt == frozenset()
    assert found.passes_huge_pages is True
    assert str(found) == f"containerd 1.7.24~ds1 with {oci} {version}"


@pytest.mark.parametrize(
    ("cri", "version", "follows", "flavour"),
    [
        ("containerd", "1.6.12", False, RuntimeFlavour.CONTAINERD),
        ("containerd", "1.6.13", True, RuntimeFlavour.CONTAINERD),
        ("containerd", "v2.1.9", True, RuntimeFlavour.CONTAINERD),
        ("cri-o", "1.20", True, RuntimeFlavour.CRIO),
    ],
)
def test_swap_and_names_follow_the_cri_runtime(cri, version, follows, flavour):
    found = runtimes_of(cri=cri, cri_version=version, oci="runc", oci_version="1.1", hugetlb=False)

    assert found.cri.has(Feature.SWAP_FOLLOWS_MEMORY) is follows
    assert found.layout(CgroupDriver.SYSTEMD).flavour is flavour
    assert found.passes_huge_pages is (flavour is RuntimeFlavour.CRIO)


def test_the_one_table_of_versions_decides():
    """Traits in the engine's table of versions reach a node: systemd's rounding, and crun's cgroup."""
    old = runtimes_of(cri="containerd", cri_version="1.7", oci="runc", oci_version="1.3.1", hugetlb=False)
    new = runtimes_of(cri="containerd", cri_version="1.7", oci="runc", oci_version="1.3.2", hugetlb=False)
    crun = runtimes_of(cri="containerd", cri_version="1.7", oci="crun", oci_version="1.8.1", hugetlb=False)

    assert [one.oci.has(Feature.ROUNDED_QUOTA_IN_FILE) for one in (old, new, crun)] == [False, True, False]
    assert [one.layout(CgroupDriver.SYSTEMD).subgroup for one in (old, new, crun)] == ["", "", "container"]


@pytest.mark.parametrize(("oci", "version"), [("runc", "unknown"), ("runc", "")])
def test_an_unknown_oci_runtime_has_no_assumed_traits(oci, version):
    found = runtimes_of(cri="containerd", cri_version="1.7.24", oci=oci, oci_version=version, hugetlb=False)

    assert found.oci.known(Feature.QUADRATIC_WEIGHT) is None
    assert found.oci.known(Feature.ROUNDED_QUOTA_IN_FILE) is None
    assert str(found) == f"containerd 1.7.24 with {oci} {version or 'of unknown version'}"


def test_an_oci_runtime_outside_the_table_is_not_modelled():
    found = runtimes_of(cri="containerd", cri_version="1.7.24", oci="youki", oci_version="0.6.0", hugetlb=False)

    assert (found.oci.modelled, found.cri.modelled, str(found.oci)) == (False, True, "youki 0.6.0")
    assert found.oci.in_doubt == frozenset()


def test_a_cri_server_outside_the_table_is_not_modelled():
    found = runtimes_of(cri="uxc-cri", cri_version="0.3", oci="runc", oci_version="1.1.15", hugetlb=False)

    assert (found.cri.modelled, found.oci.modelled, found.modelled) == (False, True, False)
    assert found.cri.in_doubt == frozenset()
    assert found.layout(CgroupDriver.SYSTEMD).flavour is RuntimeFlavour.OTHER
    assert str(found) == "uxc-cri 0.3 with runc 1.1.15"
