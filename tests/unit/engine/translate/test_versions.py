"""Which version does what."""

import pytest

from memqos.engine.translate.versions import Feature, Runtime, runtime_traits, traits_of
from memqos.model.node import RuntimeFlavour
from memqos.model.traits import CONTAINERD_1_7_RUNC_1_1, RuntimeTraits, WeightConversion


@pytest.mark.parametrize(
    ("runtime", "version", "feature", "has"),
    [
        ("containerd", "1.6.12", Feature.SWAP_FOLLOWS_MEMORY, False),
        ("containerd", "1.6.13", Feature.SWAP_FOLLOWS_MEMORY, True),
        ("containerd", "1.6.20~ds1-1+deb12u1", Feature.SWAP_NEEDS_CONTROLLER, False),
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
        ("runc", "1.3.1", Feature.ROUNDED_QUOTA_IN_FILE, False),
        ("runc", "1.3.2", Feature.ROUNDED_QUOTA_IN_FILE, True),
        ("crun", "1.8.5", Feature.ZERO_SWAP_IS_ZERO, False),
        ("crun", "1.8.6", Feature.ZERO_SWAP_IS_ZERO, True),
        ("crun", "1.12.1", Feature.NEGATIVE_IS_MAX, False),
        ("crun", "1.13", Feature.NEGATIVE_IS_MAX, True),
        ("crun", "1.17", Feature.SCOPE_HAS_PROTECTION, False),
        ("crun", "1.18", Feature.SCOPE_HAS_PROTECTION, True),
        ("runc", "unknown", Feature.CPUSET_BYTES_IN_ORDER, False),
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
        ("runc", "1.3.1-5-g1a2b3c4d", Feature.ROUNDED_QUOTA_IN_FILE, None),
        ("runc", "1.3.1+ds1-2", Feature.ROUNDED_QUOTA_IN_FILE, False),
        ("crun", "1.22", Feature.QUADRATIC_WEIGHT, False),
        ("crun", "1.22.0.0.0.5-1a2b", Feature.QUADRATIC_WEIGHT, None),
        ("crun", "1.23.1", Feature.QUADRATIC_WEIGHT, True),
        ("crun", "UNKNOWN", Feature.QUADRATIC_WEIGHT, None),
        ("containerd", "1.6", Feature.SWAP_FOLLOWS_MEMORY, None),
        ("containerd", "unknown", Feature.UPDATE_KEEPS_UNIFIED, True),
    ],
)
def test_what_a_version_leaves_open_is_in_doubt(runtime, version, feature, known):
    assert traits_of(runtime, version).known(feature) is known


def test_runtimes_of_unknown_versions_leave_a_plan_what_they_all_do():
    found = runtime_traits(traits_of("containerd", ""), traits_of("crun", ""), hugetlb=True)
    assert found == RuntimeTraits(
        name="containerd of unknown version with crun of unknown version",
        weight=None,
        hugetlb=True,
        swap_follows_memory=None,
        systemd_rounds_quota=False,
        subgroup="container",
    )


@pytest.mark.parametrize(
    ("runtime", "linear", "quadratic"), [(Runtime.RUNC, "1.3.1", "1.3.2"), (Runtime.CRUN, "1.22", "1.23")]
)
def test_weights(runtime, linear, quadratic):
    assert traits_of(runtime, linear).weight is WeightConversion.LINEAR
    assert traits_of(runtime, quadratic).weight is WeightConversion.QUADRATIC


def test_an_unknown_runtime_is_an_error():
    with pytest.raises(ValueError, match="youki"):
        traits_of("youki", "0.5")


def test_two_runtimes_make_the_traits_of_a_plan():
    found = runtime_traits(traits_of("containerd", "1.7"), traits_of("runc", "1.1"), hugetlb=False)
    assert found == CONTAINERD_1_7_RUNC_1_1
    assert runtime_traits(traits_of("cri-o", "1.36.3"), traits_of("runc", "1.3.6"), hugetlb=True) == RuntimeTraits(
        name="cri-o 1.36.3 with runc 1.3.6",
        flavour=RuntimeFlavour.CRIO,
        weight=WeightConversion.QUADRATIC,
        hugetlb=True,
        systemd_rounds_quota=True,
    )
    old = runtime_traits(traits_of("containerd", "1.6.8"), traits_of("crun", "1.23"), hugetlb=False)
    assert not old.swap_follows_memory
    assert not old.systemd_rounds_quota
