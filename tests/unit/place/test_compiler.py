"""Programs are compiled for the CPU of their machine, or nothing is done to it."""

import platform
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.place.provisioning import architecture_of
from memqos.target.base import CommandResult
from memqos.vm.image import programs


def machine(prints):
    def run(argv, *, deadline):
        assert list(argv) == ["uname", "-m"], "nothing else is done"
        return CommandResult(argv=tuple(argv), status=0, stdout=prints.encode() + b"\n", stderr=b"", seconds=0.0)

    return SimpleNamespace(run=run, address="ssh://there")


def found(prints):
    return architecture_of(machine(prints), deadline=Deadline.after(5))


@pytest.fixture
def host(monkeypatch, tmp_path):
    """An x86-64 host that has gcc alone."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(programs, "find_program", lambda name: tmp_path / name)
    monkeypatch.setattr(programs, "search_path", lambda _: str(tmp_path))
    return tmp_path


def test_a_machine_like_this_host_takes_what_gcc_makes(host):
    assert found("x86_64").name == "amd64"


def test_a_cpu_without_its_cross_compiler_is_refused_by_name(host):
    with pytest.raises(EnvironmentNotAbleError) as refused:
        found("aarch64")
    assert "this host (x86_64) has no compiler for aarch64" in refused.value.what
    assert "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" in refused.value.next_step
    assert "A wheel of a release has the programs" in refused.value.next_step
    assert refused.value.next_step.endswith("Or run memqos on a host with that CPU.")
    assert refused.value.where == "ssh://there"


def test_a_cpu_that_no_compiler_is_known_for_is_refused(host):
    with pytest.raises(EnvironmentNotAbleError, match="the machine's CPU is mips64"):
        found("mips64")
