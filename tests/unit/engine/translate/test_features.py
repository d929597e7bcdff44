"""Features that runtimes report. The documents are those of the named programs, shortened."""

import pytest

from memqos.engine.translate.features import NO_FEATURES, OciFeatures, features_of
from memqos.model.node import CgroupDriver, CgroupVersion

RUNC = {
    "ociVersionMin": "1.0.0",
    "ociVersionMax": "1.3.0",
    "linux": {
        "cgroup": {"v1": True, "v2": True, "systemd": True, "systemdUser": True, "rdma": True},
        "memoryPolicy": {
            "modes": ["MPOL_BIND", "MPOL_INTERLEAVE"],
            "flags": ["MPOL_F_NUMA_BALANCING", "MPOL_F_RELATIVE_NODES", "MPOL_F_STATIC_NODES"],
        },
    },
}
MINIMAL = {"ociVersionMin": "1.0.0", "linux": {"cgroup": {"v1": False, "v2": True, "systemd": False}}}


def test_reported_features_are_known():
    found = features_of(RUNC)
    assert found == OciFeatures(
        reported=True,
        v1=True,
        v2=True,
        systemd=True,
        systemd_user=True,
        rdma=True,
        modes=frozenset({"MPOL_BIND", "MPOL_INTERLEAVE"}),
        flags=frozenset({"MPOL_F_NUMA_BALANCING", "MPOL_F_RELATIVE_NODES", "MPOL_F_STATIC_NODES"}),
    )
    assert not any(map(found.lacks_driver, CgroupDriver))
    assert not any(map(found.lacks_hierarchy, CgroupVersion))


def test_a_false_feature_is_a_reason():
    found = features_of(MINIMAL)
    assert found.lacks_driver(CgroupDriver.SYSTEMD) == "its features have linux.cgroup.systemd false"
    assert found.lacks_driver(CgroupDriver.CGROUPFS) == ""
    assert found.lacks_hierarchy(CgroupVersion.V1) == "its features have linux.cgroup.v1 false"
    assert found.lacks_hierarchy(CgroupVersion.V2) == ""
    assert (found.systemd_user, found.rdma, found.modes) == (None, None, None)


@pytest.mark.parametrize("document", [{}, {"linux": None}, {"linux": {"cgroup": [], "memoryPolicy": {"modes": "all"}}}])
def test_missing_or_malformed_fields_are_unknown(document):
    assert features_of(document) == OciFeatures(reported=True)


@pytest.mark.parametrize("document", [None, [], "features", 7])
def test_no_document_is_no_features(document):
    assert features_of(document) is NO_FEATURES
