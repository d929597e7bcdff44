import pytest

from memqos.model.node import RuntimeFlavour
from memqos.model.traits import WeightConversion
from memqos.node.traits import traits_of


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
        ("runc", "unknown", None),
        ("runc", "", None),
        ("youki", "9.9", None),
    ],
)
def test_the_weight_conversion_follows_the_version(oci, version, weight):
    traits = traits_of(cri="containerd", cri_version="1.7.24~ds1", oci=oci, oci_version=version, hugetlb=True)

    assert traits.weight is weight
    assert traits.hugetlb is True
    assert traits.name == f"containerd 1.7.24~ds1 with {oci} {version or 'of unknown version'}"


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
    traits = traits_of(cri=cri, cri_version=version, oci="runc", oci_version="1.1", hugetlb=False)

    assert (traits.swap_follows_memory, traits.flavour) == (follows, flavour)


def test_the_one_table_of_versions_decides():
    """What the engine's table knows of a version reaches a node: systemd's rounding, and crun's cgroup."""
    old = traits_of(cri="containerd", cri_version="1.7", oci="runc", oci_version="1.3.1", hugetlb=False)
    new = traits_of(cri="containerd", cri_version="1.7", oci="runc", oci_version="1.3.2", hugetlb=False)
    crun = traits_of(cri="containerd", cri_version="1.7", oci="crun", oci_version="1.8.1", hugetlb=False)

    assert (old.systemd_rounds_quota, new.systemd_rounds_quota, crun.systemd_rounds_quota) == (False, True, False)
    assert (old.subgroup, new.subgroup, crun.subgroup) == ("", "", "container")


def test_of_runtimes_that_nobody_knows_nothing_is_taken_for_granted():
    traits = traits_of(cri="other", cri_version="9", oci="youki", oci_version="1.1", hugetlb=False)

    assert traits.name == "other 9 with youki 1.1"
    assert (traits.swap_follows_memory, traits.weight, traits.systemd_rounds_quota) == (None, None, None)
