"""Upstream's tables of cgroup names: 1.34.9, 1.36.3 and 1.37's master."""

import pytest

from memqos.engine.cgroup.layout import Layout, cgroup_path, kubepods_name, name_of_path, pod_name, pod_uid
from memqos.model.node import CgroupDriver, RuntimeFlavour
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass
from tests.vectors.tables import table

TABLES = table("cgroup_manager_linux.v1.36.3")["tables"]
SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS


@pytest.mark.parametrize("row", TABLES["TestCgroupNameToSystemd"], ids=lambda row: row["expected"])
def test_systemd_path(row):
    assert str(cgroup_path(tuple(row["input"]), SYSTEMD)) == row["expected"]


@pytest.mark.parametrize("row", TABLES["TestCgroupNameToSystemdBasename"], ids=lambda row: row["expected"])
def test_systemd_name(row):
    assert cgroup_path(tuple(row["input"]), SYSTEMD).name == row["expected"]


@pytest.mark.parametrize("row", TABLES["TestCgroupNameToCgroupfs"], ids=lambda row: row["expected"])
def test_cgroupfs_path(row):
    assert str(cgroup_path(tuple(row["input"]), CGROUPFS)) == row["expected"]


@pytest.mark.parametrize("row", TABLES["TestParseSystemdToCgroupName"], ids=lambda row: row["input"])
def test_name_of_systemd_path(row):
    assert list(name_of_path(CgroupPath.parse(row["input"]), SYSTEMD)) == row["expected"]


@pytest.mark.parametrize(("root", "per_qos", "driver", "path"), table("v1_37_master_tests")["NodeAllocatableRoot"])
def test_kubepods(root, per_qos, driver, path):
    assert str(cgroup_path(kubepods_name(root, cgroups_per_qos=per_qos), CgroupDriver(driver))) == path


@pytest.mark.parametrize(("uid", "suffix"), table("v1_37_master_tests")["GetPodCgroupNameSuffix"])
def test_pod_suffix(uid, suffix):
    assert pod_name(("kubepods",), QosClass.GUARANTEED, uid)[-1] == suffix


# TestGetPodContainerName builds its pods and managers in Go; its six cases as literals:
@pytest.mark.parametrize(
    ("qos", "driver", "path"),
    [
        ("Guaranteed", CGROUPFS, "/kubepods/podfake-uid-1"),
        ("Guaranteed", SYSTEMD, "/kubepods.slice/kubepods-podfake_uid_1.slice"),
        ("Burstable", CGROUPFS, "/kubepods/burstable/podfake-uid-1"),
        ("Burstable", SYSTEMD, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podfake_uid_1.slice"),
        ("BestEffort", CGROUPFS, "/kubepods/besteffort/podfake-uid-1"),
        ("BestEffort", SYSTEMD, "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podfake_uid_1.slice"),
    ],
)
def test_pod_path(qos, driver, path):
    assert str(cgroup_path(pod_name(("kubepods",), QosClass(qos), "fake-uid-1"), driver)) == path


@pytest.mark.parametrize(
    ("driver", "flavour", "leaf"),
    [
        (SYSTEMD, RuntimeFlavour.CONTAINERD, "cri-containerd-0a1b.scope"),
        (CGROUPFS, RuntimeFlavour.CONTAINERD, "0a1b"),
        (SYSTEMD, RuntimeFlavour.CRIO, "crio-0a1b.scope"),
        (CGROUPFS, RuntimeFlavour.CRIO, "crio-0a1b"),
    ],
)
def test_container_leaf(driver, flavour, leaf):
    assert Layout(driver=driver, flavour=flavour).container(CgroupPath(("pod",)), "0a1b") == CgroupPath(("pod", leaf))


def test_the_cgroup_below_a_scope_needs_systemd():
    pod = CgroupPath(("pod",))
    scoped, bare = (Layout(driver=driver, subgroup="container") for driver in (SYSTEMD, CGROUPFS))
    assert str(scoped.container(pod, "0a1b")) == "/pod/cri-containerd-0a1b.scope/container"
    assert str(scoped.whole(pod, "0a1b")) == "/pod/cri-containerd-0a1b.scope"
    assert str(bare.container(pod, "0a1b")) == str(bare.whole(pod, "0a1b")) == "/pod/0a1b"


KNOWN = {
    "qosContainersInfo.Guaranteed": (),
    "qosContainersInfo.Burstable": ("burstable",),
    "qosContainersInfo.BestEffort": ("besteffort",),
}
POD_NAMES = table("pod_container_manager.v1.36.3")["tables"]["TestIsCgroupPod"]


@pytest.mark.parametrize("row", POD_NAMES, ids=lambda row: str(len(row["input"])))
def test_uid_of_a_pods_cgroup(row):
    # The kubelet of this test has its pods directly below the root.
    name = ()
    for part in row["input"]:
        if isinstance(part, str):
            name += (part,)
        else:
            name += KNOWN[part["$sel"]] if "$sel" in part else (f"pod{part['args'][0]}",)
    assert pod_uid(name, ()) == row["expectedUID"]
    assert bool(pod_uid(name, ())) is row["expectedResult"]


@pytest.mark.parametrize(("name", "uid"), [
    (("kubepods", "pod1-2"), "1-2"), (("kubepods", "system"), ""), (("kubepods", "podpod"), ""), ((), ""),
    (("kubepods", "burstable", "pod7"), "7"), (("other", "pod7"), ""), (("kubepods", "apod7"), ""),
])  # fmt: skip
def test_names_of_pods(name, uid):
    assert pod_uid(name, ("kubepods",)) == uid
