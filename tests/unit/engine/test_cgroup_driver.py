"""KEP-4033: the kubelet's cgroup driver from its runtime, where the release asks and the runtime reports."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroup_driver import disagreement, driver_of, reports_driver
from memqos.engine.releases.release import Release
from memqos.engine.translate.runtimes import BUNDLES, CrioSettings, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver, KubeletSettings
from tests.unit.engine.pods import NODE

CGROUPFS, SYSTEMD = CgroupDriver.CGROUPFS, CgroupDriver.SYSTEMD
RUNC = traits_of("runc", "1.3.6")


def runtimes(name, version):
    return Runtimes(cri=traits_of(name, version), oci=RUNC)


def chosen(release, name, version, **settings):
    return driver_of(Release.of(release), KubeletSettings(**settings), runtimes(name, version))


@pytest.mark.parametrize(("name", "version", "wanted"), [
    ("containerd", "1.7.24", False), ("containerd", "2.0.0", True), ("containerd", "v2.1.4", True),
    ("containerd", "", None), ("containerd", "1", False), ("containerd", "2", True), ("cri-o", "1.27.3", False),
    ("cri-o", "1.28", True), ("cri-o", "1", None), ("docker", "28.1.1", None), ("bundles", "", False),
])  # fmt: skip
def test_which_runtimes_report(name, version, wanted):
    assert reports_driver(traits_of(name, version)) is wanted


@pytest.mark.parametrize(("release", "name", "version", "settings", "driver"), [
    ("1.36", "cri-o", "1.36", {}, SYSTEMD),
    ("1.31", "cri-o", "1.31", {"cgroup_driver": CGROUPFS}, SYSTEMD),
    ("1.30", "cri-o", "1.30", {}, CGROUPFS),
    ("1.30", "cri-o", "1.30", {"cgroup_driver": SYSTEMD}, SYSTEMD),
    ("1.30", "cri-o", "1.30", {"feature_gates": {"KubeletCgroupDriverFromCRI": True}}, SYSTEMD),
    ("1.30", "cri-o", "1.30", {"feature_gates": {"AllAlpha": True}}, SYSTEMD),
    ("1.33", "cri-o", "1.33", {"feature_gates": {"KubeletCgroupDriverFromCRI": False}}, CGROUPFS),
    ("1.27", "cri-o", "1.27", {"feature_gates": {"AllAlpha": True}}, CGROUPFS),
    ("1.36", "cri-o", "1.27.3", {}, CGROUPFS),
    ("1.36", "containerd", "1.7.24", {"cgroup_driver": SYSTEMD}, SYSTEMD),
    ("1.36", "containerd", "1.7.24", {}, CGROUPFS),
    ("1.36", "containerd", "2.1.4", {}, CGROUPFS),
    ("1.36", "containerd", "2.1.4", {"cgroup_driver": SYSTEMD}, SYSTEMD),
    ("1.36", "cri-o", "1.36", {"cgroup_driver": CGROUPFS, "effective": True}, CGROUPFS),
    ("1.36", "cri-o", "1.36", {"effective": True}, SYSTEMD),
])  # fmt: skip
def test_the_driver(release, name, version, settings, driver):
    assert chosen(release, name, version, **settings).driver is driver


def test_assumptions_have_a_note():
    assert chosen("1.36", "containerd", "1.7.24").assumed == ""
    assert chosen("1.30", "cri-o", "1.30").assumed == ""
    assert chosen("1.36", "cri-o", "1.36", cgroup_driver=CGROUPFS, effective=True).assumed == ""
    assert "ignores cgroupDriver: cgroupfs" in chosen("1.36", "cri-o", "1.36", cgroup_driver=CGROUPFS).assumed
    assert "systemd by default" in chosen("1.36", "cri-o", "1.36", cgroup_driver=SYSTEMD).assumed
    told = chosen("1.36", "containerd", "2.1.4", cgroup_driver=SYSTEMD).assumed
    assert told.startswith("systemd is assumed, as cgroupDriver says: the kubelet of 1.36 takes the driver that")
    assert "containerd 2.1.4 reports its SystemdCgroup setting" in told
    assert "cgroupfs is assumed, as the defaults of both are" in chosen("1.36", "containerd", "2.1.4").assumed
    assert "docker 28.1.1 may report its own driver" in chosen("1.36", "docker", "28.1.1").assumed


def test_a_driver_that_is_known_is_not_assumed():
    kubelet = Kubelet.of(node=NODE, release="1.36", driver=CGROUPFS, runtimes=runtimes("cri-o", "1.36"))
    assert (kubelet.driver, kubelet.driver_assumed) == (CGROUPFS, "")


def test_an_oci_runtime_alone_reports_nothing():
    kubelet = Kubelet.of(node=NODE, release="1.36", runtimes=Runtimes(cri=BUNDLES, oci=RUNC))
    assert (kubelet.driver, kubelet.driver_assumed) == (CGROUPFS, "")


def test_the_note_is_in_the_plan():
    settings = KubeletSettings(cgroup_driver=CGROUPFS, origin={"cgroupDriver": "kubelet.yaml:3"})
    plan = expect([], Kubelet.of(node=NODE, release="1.36", settings=settings, runtimes=runtimes("cri-o", "1.36")))
    assert plan.driver is SYSTEMD
    [remark] = plan.remarks
    assert (remark.about, remark.origin) == ("cgroupDriver", "kubelet.yaml:3")


@pytest.mark.parametrize(("asked", "configured", "seen", "said", "told"), [
    (("1.35", "2.1.4"), CGROUPFS, SYSTEMD, None, ("cgroupDriver", "ignores cgroupDriver (KEP-4033)")),
    (("1.35", "1.7.24"), CGROUPFS, SYSTEMD, None, ("cgroupDriver", "or with --cgroup-driver")),
    (("1.30", "2.1.4"), SYSTEMD, CGROUPFS, None, ("cgroupDriver", "or with --cgroup-driver")),
    (("1.35", "2.1.4"), CGROUPFS, SYSTEMD, CGROUPFS, ("--driver", "cgroupfs is given, but the cgroups")),
    (("1.35", "2.1.4"), CGROUPFS, SYSTEMD, SYSTEMD, ("", "")),
    (("1.35", "2.1.4"), SYSTEMD, SYSTEMD, None, ("", "")),
    (("1.35", "2.1.4"), None, SYSTEMD, None, ("", "")),
    (("1.35", "2.1.4"), CGROUPFS, None, SYSTEMD, ("", "")),
])  # fmt: skip
def test_another_driver_than_the_cgroups_show(asked, configured, seen, said, told):
    release, version = asked
    settings = KubeletSettings(cgroup_driver=configured)
    found = disagreement(Release.of(release), settings, runtimes("containerd", version), seen=seen, said=said)
    assert found[0] == told[0]
    assert told[1] in found[1]
    assert bool(found[1]) is bool(told[1])


def crio(version="1.36", **config):
    return Runtimes(cri=traits_of("cri-o", version), oci=RUNC, crio=CrioSettings(**config))


@pytest.mark.parametrize(("release", "version", "manager", "configured", "driver"), [
    ("1.36", "1.36", CGROUPFS, None, CGROUPFS),
    ("1.36", "1.36", CGROUPFS, SYSTEMD, CGROUPFS),
    ("1.31", "1.31", SYSTEMD, CGROUPFS, SYSTEMD),
    ("1.36", "1.36", None, CGROUPFS, SYSTEMD),
    ("1.30", "1.30", CGROUPFS, SYSTEMD, SYSTEMD),
    ("1.30", "1.30", SYSTEMD, None, CGROUPFS),
    ("1.36", "1.27.3", SYSTEMD, None, CGROUPFS),
])  # fmt: skip
def test_the_cgroup_manager_of_crio_decides_where_the_kubelet_asks(release, version, manager, configured, driver):
    settings = KubeletSettings(cgroup_driver=configured)
    assert driver_of(Release.of(release), settings, crio(version, cgroup_manager=manager)).driver is driver


def test_the_cgroup_manager_is_named_with_its_origin():
    def told(release, runtimes, *, known=None, **settings):
        return driver_of(Release.of(release), KubeletSettings(**settings), runtimes, known=known).assumed

    ours = crio(cgroup_manager=CGROUPFS, origin={"cgroup_manager": "crio.conf:3"})
    assert told("1.36", ours) == (
        "cgroupfs is the cgroup_manager of CRI-O's configuration (crio.conf:3): the kubelet of 1.36 takes the driver "
        "that the runtime reports (KEP-4033)"
    )
    assert "reports, and ignores cgroupDriver: systemd (KEP-4033)" in told("1.36", ours, cgroup_driver=SYSTEMD)
    assert "ignores" not in told("1.36", ours, cgroup_driver=CGROUPFS)
    assert told("1.36", crio()).startswith("systemd is assumed")
    assert told("1.30", ours, cgroup_driver=SYSTEMD) == (
        "the kubelet of 1.30 has systemd here, and CRI-O has cgroup_manager cgroupfs (crio.conf:3): CRI-O refuses pods "
        "whose parent cgroup is the other driver's"
    )
    assert told("1.30", ours) == ""
    assert told("1.36", ours, known=CGROUPFS) == ""
    assert "has systemd here, and CRI-O has cgroup_manager cgroupfs" in told("1.36", ours, known=SYSTEMD)
    assert told("1.36", crio(), known=CGROUPFS) == ""
    assert "CRI-O has cgroup_manager systemd:" in told("1.36", crio(cgroup_manager=SYSTEMD), known=CGROUPFS)


@pytest.mark.parametrize(("limit", "count"), [(2048, 1), (0, 0), (-1, 0)])
def test_a_limit_of_processes_is_named(limit, count):
    runtimes = crio(pids_limit=limit, origin={"pids_limit": "crio.conf:4"})
    plan = expect([], Kubelet.of(node=NODE, release="1.36", runtimes=runtimes))
    found = [one for one in plan.remarks if one.about == "pids_limit"]
    assert [one.origin for one in found] == ["crio.conf:4"] * count
    assert all(one.what.startswith("CRI-O writes 2048 into pids.max of every container") for one in found)
