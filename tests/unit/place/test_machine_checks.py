"""Which existing machines memqos refuses, and that the checks change nothing."""

from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, UsageError
from memqos.model.node import CgroupDriver
from memqos.place.base import OciProgram, OfferedRuntime, offered
from memqos.place.existing_machine import require_free, require_rights
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target.fake import FakeTarget


def soon():
    return Deadline.after(30)


def machine(said="0\nsystemd\ncontainerd\n", cgroups=()):
    files = {f"/sys/fs/cgroup/{name}/cgroup.procs": b"" for name in ("system.slice", *cgroups)}
    return FakeTarget(files=files, commands={("sh", "-c"): lambda *_: (0, said.encode(), b"")})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("1000\nsystemd\n", "require root"),
        ("0\nsystemd\nkubelet\n", r"fake://: a kubelet runs there \(kubelet\)"),
        ("0\nk3s-server\nk3s-agent\n", r"a kubelet runs there \(k3s-agent, k3s-server\)"),
        ("0\nkubelite\n", r"there \(kubelite\)"),
    ],
)
def test_a_machine_with_a_kubelet_or_without_root_is_refused(said, told):
    with pytest.raises(EnvironmentNotAbleError, match=told):
        require_rights(machine(said), deadline=soon())


def test_any_other_is_not():
    require_rights(machine(), deadline=soon())


def offer(sandboxes):
    oci = OciProgram(name="runc", version="")
    return OfferedRuntime(name="containerd+runc", socket=str(sandboxes.socket), handlers={}, oci=oci)


@pytest.mark.parametrize("name", ["kubepods.slice", "kubepods", "kubelet.slice"])
def test_cgroups_of_a_kubelet_are_refused(name, sandboxes):
    with pytest.raises(EnvironmentNotAbleError, match=f"it has cgroups of a kubelet: {name}"):
        require_free(machine(cgroups=[name]), FAKE_HIERARCHY, [offer(sandboxes)], deadline=soon())


def test_pods_of_others_are_named_and_left_alone(sandboxes):
    for name in ("a", "b", "c", "d", "e"):
        sandboxes.add(name, ours=False)
    told = "has pods that memqos did not create: default/a, default/b, default/c and 2 more"
    with pytest.raises(EnvironmentNotAbleError, match=told):
        require_free(machine(), FAKE_HIERARCHY, [offer(sandboxes)], deadline=soon())
    assert sandboxes.asked == []


def test_a_free_machine_is_free(sandboxes):
    require_free(machine(), FAKE_HIERARCHY, [offer(sandboxes)] * 2, deadline=soon())


def test_a_driver_that_a_runtime_is_not_configured_for_is_named_with_the_other():
    """As Debian's containerd is."""
    name = "containerd+runc"
    found = OfferedRuntime(
        name=name, socket="/s", handlers={CgroupDriver.CGROUPFS: "runc"}, oci=OciProgram(name="runc", version="1.1.15")
    )
    place = SimpleNamespace(runtimes={name: found})
    assert offered(place, name, CgroupDriver.CGROUPFS) is found
    with pytest.raises(UsageError, match="does not run under the systemd driver, only under cgroupfs") as refused:
        offered(place, name, CgroupDriver.SYSTEMD)
    assert refused.value.where == "--driver"
    assert refused.value.next_step == "Give --driver cgroupfs, or configure the runtime for systemd."
