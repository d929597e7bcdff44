"""A build's needs on the host are checked before anything is fetched."""

import platform
from dataclasses import replace

import pytest

from memqos.errors import EnvironmentNotAbleError, MissingProgramError
from memqos.vm.architecture import ARM64
from memqos.vm.image import making
from memqos.vm.image.making import need_tools
from memqos.vm.profile import Program
from tests.unit.vm.samples import PROFILE

FOREIGN = replace(PROFILE, architecture=ARM64, init=Program(name="init", sources=()))


@pytest.fixture
def host(monkeypatch):
    """A host of this architecture that has everything but these programs."""

    def being(machine, *missing):
        def find(name):
            if name in missing:
                raise MissingProgramError(f"the program '{name}' is not installed.")
            return name

        monkeypatch.setattr(platform, "machine", lambda: machine)
        monkeypatch.setattr(making, "find_program", find)
        monkeypatch.setattr(making, "find_qemu", lambda one: find(one.qemu))
        monkeypatch.setattr(making, "need_programs", lambda _, one: find(one.compiler))

    return being


@pytest.mark.parametrize("missing", ["qemu-system-aarch64", "aarch64-linux-gnu-gcc", "depmod"])
def test_another_architecture_takes_programs_of_its_own(host, missing):
    host("x86_64", missing)
    with pytest.raises(MissingProgramError, match=missing):
        need_tools(FOREIGN)
    need_tools(PROFILE)


def test_on_its_own_architecture_depmod_is_the_images(host):
    host("aarch64", "depmod")
    need_tools(FOREIGN)


def test_an_amd64_image_is_built_on_amd64_alone(host):
    host("aarch64")
    with pytest.raises(EnvironmentNotAbleError, match="only built on a host of that architecture; this one is aarch64"):
        need_tools(PROFILE)
