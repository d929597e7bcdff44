"""The runtimes in a daemon's own configuration."""

import pytest

from memqos.model.node import CgroupDriver
from memqos.place.discovery import offers_of
from memqos.runtime import cri_wire
from memqos.runtime.proto import cri_pb2

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
