"""Programs are compiled for the CPU of the machine that gets them, or nothing is done to it."""

import json
import platform
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.place import provisioning
from memqos.place.provisioning import compiler_for
from memqos.target.base import CommandResult
from memqos.vm.image.recipe import container_image
from tests.unit.vm.image.test_container_image import unpack


def machine(prints):
    def run(argv, *, deadline):
        assert list(argv) == ["uname", "-m"], "nothing else is done"
        return CommandResult(argv=tuple(argv), status=0, stdout=prints.encode() + b"\n", stderr=b"", seconds=0.0)

    return SimpleNamespace(run=run, address="ssh://there")


def found(prints):
    return compiler_for(machine(prints), deadline=Deadline.after(5))


@pytest.fixture
def host(monkeypatch, tmp_path):
    """An x86-64 host with these programs."""

    def having(*programs):
        for name in programs:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(provisioning, "find_program", lambda name: tmp_path / name)
        monkeypatch.setattr(provisioning, "search_path", lambda _: str(tmp_path))

    return having


def test_a_machine_like_this_host_takes_what_gcc_makes(host, tmp_path):
    host("gcc")
    assert (found("x86_64").architecture, found("x86_64").program) == ("amd64", tmp_path / "gcc")


@pytest.mark.parametrize(
    ("prints", "architecture", "cross"),
    [
        ("aarch64", "arm64", "aarch64-linux-gnu-gcc"),
        ("ppc64le", "ppc64le", "powerpc64le-linux-gnu-gcc"),
        ("s390x", "s390x", "s390x-linux-gnu-gcc"),
    ],
)
def test_another_cpu_takes_what_its_cross_compiler_makes(host, tmp_path, prints, architecture, cross):
    host("gcc", cross)
    assert (found(prints).architecture, found(prints).program) == (architecture, tmp_path / cross)


def test_a_cpu_without_its_cross_compiler_is_refused_by_name(host):
    host("gcc")
    with pytest.raises(EnvironmentNotAbleError) as refused:
        found("aarch64")
    assert "the machine's CPU is aarch64, this host's is x86_64" in refused.value.what
    assert "Install aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu)" in refused.value.next_step
    assert refused.value.where == "ssh://there"


def test_a_cpu_that_no_compiler_is_known_for_is_refused(host):
    host("gcc")
    with pytest.raises(EnvironmentNotAbleError, match="the machine's CPU is mips64"):
        found("mips64")


def test_an_image_says_for_which_cpu_it_is():
    files = unpack(container_image("memload", b"\x7fELF program", architecture="arm64"))
    [manifest] = json.loads(files["manifest.json"])
    assert json.loads(files[manifest["Config"]])["architecture"] == "arm64"
