"""The runtimes in a daemon's own configuration."""

import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.model.node import CgroupDriver
from memqos.place import provisioning
from memqos.place.base import OciProgram
from memqos.place.discovery import discovered, offers_of
from memqos.place.provisioning import bring_roots
from memqos.runtime import cri_wire
from memqos.runtime.proto import cri_pb2
from memqos.target.fake import FakeTarget
from memqos.target.local import LocalTarget
from memqos.vm.architecture import AMD64

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
SHIM = "io.containerd.runc.v2"


def configuration(**runtimes):
    return {"containerd": {"runtimes": runtimes}}


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ({}, {}),
        ({"containerd": {"runtimes": None}}, {}),
        (configuration(runc={"runtimeType": SHIM}), {("runc", "runc", CGROUPFS): "runc"}),
        (
            configuration(runc={"runtimeType": SHIM, "options": {"SystemdCgroup": True, "BinaryName": ""}}),
            {("runc", "runc", SYSTEMD): "runc"},
        ),
        (
            configuration(
                quick={"runtimeType": SHIM, "options": {"BinaryName": "/opt/bin/crun", "SystemdCgroup": True}},
                quicker={"runtimeType": SHIM, "options": {"BinaryName": "/opt/bin/crun", "SystemdCgroup": True}},
                kata={"runtimeType": "io.containerd.kata.v2"},
            ),
            {("crun", "/opt/bin/crun", SYSTEMD): "quick"},
        ),
    ],
    ids=["says nothing", "has none", "defaults", "systemd", "by path, the first of two, and no other shim"],
)
def test_handlers_are_known_by_program_and_driver(given, offered):
    assert offers_of(given) == offered


@pytest.mark.parametrize("told", ["", "not JSON", "[1]"])
def test_a_daemon_without_a_reported_configuration_has_an_empty_one(told):
    reply = cri_pb2.StatusResponse(info={"config": told})
    assert cri_wire.configuration_from_wire(reply) == {}


def machine_with(*programs):
    """A machine without a daemon, with these programs in /usr/sbin."""

    def shell(argv, *_):
        script, name = argv[2], argv[-1]
        if "command -v" in script:
            return (0, f"/usr/sbin/{name}\n".encode(), b"") if name in programs else (127, b"", b"")
        return (0, f"{name} version 1.21\n".encode(), b"") if "--version" in script else (0, b"", b"")

    return FakeTarget(commands={("sh", "-c"): shell})


def test_a_requested_oci_runtime_needs_no_daemon():
    found = discovered(machine_with("crun", "runc"), direct=["crun", "uxc"], deadline=Deadline.after(30))
    [offer] = found.values()
    assert (offer.name, offer.is_direct) == ("oci:crun", True)
    assert offer.handlers == {SYSTEMD: "/usr/sbin/crun", CGROUPFS: "/usr/sbin/crun"}
    assert offer.oci == OciProgram(name="crun", version="1.21", place="/usr/sbin/crun")


@pytest.mark.parametrize(
    ("direct", "told"),
    [
        ([], "no container runtime listens on /run/containerd/containerd.sock or /run/crio/crio.sock"),
        (["uxc"], "fake://: it has no program uxc"),
    ],
)
def test_a_machine_without_any_runtime_is_refused(direct, told):
    with pytest.raises(EnvironmentNotAbleError, match=told):
        discovered(machine_with(), direct=direct, deadline=Deadline.after(30))


def test_missing_root_file_systems_are_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(provisioning, "ROOTS", f"{tmp_path}/rootfs")
    bring_roots(LocalTarget(), AMD64, deadline=Deadline.after(60))
    program = tmp_path / "rootfs" / "memload" / "memload"
    assert program.stat().st_mode & 0o777 == 0o755
    assert (program.parent / "tmp").stat().st_mode & 0o7777 == 0o1777
    program.write_text("of an image")
    bring_roots(LocalTarget(), AMD64, deadline=Deadline.after(60))
    assert program.read_text() == "of an image"
