import pytest

from memqos.engine.cgroup.layout import Layout, cgroup_path, expand_slice, name_of_path, reserved_path
from memqos.model.node import CgroupDriver, RuntimeFlavour
from memqos.model.path import ROOT, CgroupPath

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS


@pytest.mark.parametrize(
    ("unit", "path"),
    [
        ("-.slice", "/"),
        ("a.slice", "/a.slice"),
        ("a-b-c.slice", "/a.slice/a-b.slice/a-b-c.slice"),
        ("a_b-c.slice", "/a_b.slice/a_b-c.slice"),
    ],
)
def test_slices(unit, path):
    assert str(expand_slice(unit)) == path


@pytest.mark.parametrize(
    "unit", ["", ".slice", "a", "a.scope", "/a.slice", "-a.slice", "a-.slice", "a--b.slice", "--.slice"]
)
def test_no_slices(unit):
    with pytest.raises(ValueError, match="is not the name of a slice"):
        expand_slice(unit)


@pytest.mark.parametrize(
    ("configured", "driver", "path"),
    [
        ("/sysres", SYSTEMD, "/sysres.slice"),
        ("/sysres.slice", SYSTEMD, "/sysres.slice"),
        ("/sysres", CGROUPFS, "/sysres"),
        ("/a/b", CGROUPFS, "/a/b"),
        ("/system.slice/kube-reserved.slice", SYSTEMD, "/kube.slice/kube-reserved.slice"),
        ("kube_x", SYSTEMD, "/kube_x.slice"),
    ],
)
def test_reserved_cgroups(configured, driver, path):
    assert str(reserved_path(configured, driver)) == path


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("name", [(), ("kubepods",), ("kubepods", "burstable", "pod6c1a4e95-6bb6-11e6")])
def test_names_from_paths(name, driver):
    assert name_of_path(cgroup_path(name, driver), driver) == name
    assert name_of_path(ROOT, driver) == ()
    assert cgroup_path((), driver) == CgroupPath()


@pytest.mark.parametrize(
    ("flavour", "driver", "path"),
    [
        (RuntimeFlavour.CONTAINERD, SYSTEMD, "/pod/cri-containerd-0a.scope/container"),
        (RuntimeFlavour.CONTAINERD, CGROUPFS, "/pod/0a"),
        (RuntimeFlavour.CRIO, SYSTEMD, "/pod/crio-0a.scope/container"),
        (RuntimeFlavour.CRIO, CGROUPFS, "/pod/crio-0a"),
        (RuntimeFlavour.BUNDLES, SYSTEMD, "/pod/memqos-0a.scope/container"),
        (RuntimeFlavour.BUNDLES, CGROUPFS, "/pod/memqos-0a"),
    ],
)
def test_containers(flavour, driver, path):
    layout = Layout(driver=driver, flavour=flavour, subgroup="container")
    assert str(layout.container(CgroupPath.parse("/pod"), "0a")) == path
