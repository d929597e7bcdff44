"""One function compiles memqos's programs for every architecture; its host needs are named by packages."""

import json
import platform
import shutil
import subprocess

import pytest

from memqos.errors import MachineryError, MissingProgramError
from memqos.vm.architecture import ARCHITECTURES, architecture_of_machine
from memqos.vm.image import programs as c_programs
from memqos.vm.image.programs import compile_program, find_compiler
from memqos.vm.image.recipe import container_image
from memqos.vm.profile import Program, SourceFile
from tests.unit.vm.image.test_container_image import unpack

NOTHING = Program(name="nothing", sources=(SourceFile(name="nothing.c", content=b"int main(void) { return 0; }\n"),))
BROKEN = Program(name="broken", sources=(SourceFile(name="broken.c", content=b"int main(void) { return x; }\n"),))

ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21}
"""e_machine in elf.h: EM_X86_64, EM_AARCH64, EM_PPC64."""


@pytest.fixture
def host(monkeypatch, tmp_path):
    """An x86-64 host with these cross compilers; a compiler prints `libc` when asked for its static library."""

    def having(*programs, libc="/usr/lib/libc.a"):
        for name in programs:
            (tmp_path / name).write_text(f"#!/bin/sh\necho {libc}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(c_programs, "find_program", lambda name: tmp_path / name)
        monkeypatch.setattr(c_programs, "search_path", lambda _: str(tmp_path))

    return having


def found(machine):
    return find_compiler(architecture_of_machine(machine))


def test_the_hosts_own_architecture_takes_gcc(host, tmp_path):
    host()
    assert found("x86_64").program == tmp_path / "gcc"


@pytest.mark.parametrize(
    ("machine", "name", "cross"),
    [
        ("aarch64", "arm64", "aarch64-linux-gnu-gcc"),
        ("ppc64le", "ppc64le", "powerpc64le-linux-gnu-gcc"),
        ("s390x", "s390x", "s390x-linux-gnu-gcc"),
        ("riscv64", "riscv64", "riscv64-linux-gnu-gcc"),
    ],
)
def test_another_architecture_takes_its_cross_compiler(host, tmp_path, machine, name, cross):
    host(cross)
    assert (found(machine).architecture.name, found(machine).program) == (name, tmp_path / cross)


@pytest.mark.parametrize(
    ("machine", "packages"),
    [
        ("aarch64", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        ("ppc64le", "gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross"),
    ],
)
def test_a_missing_cross_compiler_is_named_by_its_packages(host, machine, packages):
    host()
    with pytest.raises(MissingProgramError, match=f"has no compiler for {machine}") as refused:
        found(machine)
    assert packages in refused.value.next_step


def test_a_cross_compiler_without_a_static_library_is_refused_before_it_compiles(host):
    host("aarch64-linux-gnu-gcc", libc="libc.a")
    with pytest.raises(MissingProgramError, match="has no static C library for aarch64") as refused:
        found("aarch64")
    assert "libc6-dev-arm64-cross" in refused.value.next_step


def test_names_of_a_machine_without_a_compiler():
    assert architecture_of_machine("mips64") is None
    assert len({one.debian for one in ARCHITECTURES}) == len(ARCHITECTURES)


@pytest.mark.parametrize("machine", sorted(ELF_MACHINES))
def test_the_same_sources_give_the_same_static_program(machine):
    architecture = architecture_of_machine(machine)
    cross = "gcc" if machine == platform.machine() else architecture.compiler
    if shutil.which(cross) is None:
        pytest.skip(f"needs {cross} (Debian: {architecture.compiler_packages[0]})")
    made = [compile_program(NOTHING, find_compiler(architecture)) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0][:4] == b"\x7fELF"
    assert int.from_bytes(made[0][18:20], "little") == ELF_MACHINES[machine]


def test_the_compilers_output_is_reported():
    if shutil.which("gcc") is None:
        pytest.skip("needs the program gcc")
    with pytest.raises(MachineryError, match=r".x. undeclared"):
        compile_program(BROKEN, find_compiler(architecture_of_machine(platform.machine())))


def test_a_caller_may_run_the_compiler_itself():
    if shutil.which("gcc") is None:
        pytest.skip("needs the program gcc")
    ran = []

    def run(argv):
        ran.append(argv)
        subprocess.run(argv, check=True)

    assert compile_program(NOTHING, find_compiler(architecture_of_machine(platform.machine())), run=run)
    assert ran[0][-1].endswith("/nothing.c")


def test_an_image_has_its_cpu():
    files = unpack(container_image("memload", b"\x7fELF program", architecture="arm64"))
    [manifest] = json.loads(files["manifest.json"])
    assert json.loads(files[manifest["Config"]])["architecture"] == "arm64"
