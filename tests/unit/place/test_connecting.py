"""Connections to a place's runtimes."""

import pytest

from memqos.clock import Deadline
from memqos.errors import UnfitFileError
from memqos.model.node import CgroupDriver
from memqos.place.base import OciProgram, OfferedRuntime
from memqos.place.discovery import runtime_connected
from memqos.runtime.base import Capability
from memqos.target.fake import FakeTarget

RUNSC = OciProgram(name="runsc", version="0.0~20240729.0", is_brought=True)


def connected(name, socket, *, oci=RUNSC):
    program = name.rpartition(":")[2].rpartition("+")[2]
    offer = OfferedRuntime(name=name, socket=socket, handlers={CgroupDriver.SYSTEMD: program}, oci=oci)
    said = b"runsc version 0.0~20240729.0\nspec: 1.2.0\n"
    answers = {(program, "--version"): lambda *_: (0, said, b""), ("sh",): lambda *_: (0, b"", b"")}
    return runtime_connected(
        FakeTarget(commands=answers), offer, CgroupDriver.SYSTEMD, record=lambda _: None, deadline=Deadline.after(5)
    )


def test_runsc_in_runcs_place_below_a_daemon_is_refused_with_the_way_that_works():
    with (
        pytest.raises(UnfitFileError, match=r"--runtime-binary: the program below containerd\+runc is runsc") as caught,
        connected("containerd+runc", "/run/containerd/containerd.sock"),
    ):
        pass
    assert caught.value.next_step == "Drive it directly: --runtime oci:runc."


def test_runsc_in_place_of_runc_is_driven_as_runsc():
    with connected("oci:runc", "") as runtime:
        assert Capability.UNIFIED not in runtime.capabilities
    with connected("oci:runc", "", oci=OciProgram(name="runc", version="1.1.15")) as runtime:
        assert Capability.UNIFIED in runtime.capabilities
