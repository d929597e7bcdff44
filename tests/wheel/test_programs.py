"""The wheel has memqos's C programs for every architecture whose compiler its builder has; a rebuild gives the same."""

import hashlib
import json
import os
import struct
import zipfile

import pytest

from memqos.vm.architecture import ARCHITECTURES, architecture_of_machine
from memqos.vm.image.programs import compile_program, find_compiler, sources_digest
from tests.wheel.isolated import empty_environment, install, run
from tools.programs import PLACE, build, programs

pytestmark = pytest.mark.wheel

ELF_MACHINES = {"amd64": 62, "arm64": 183, "ppc64le": 21, "riscv64": 243, "s390x": 22}
"""e_machine in elf.h."""

PT_INTERP = 3
"""The program header of a program that needs a dynamic linker."""

ASK = """
from memqos.catalog.profiles import load_profile
from memqos.vm.architecture import architecture_of_machine
from memqos.vm.image.programs import binary_of
import hashlib, sys
profile = load_profile("trixie")
for program in (*profile.programs, *profile.probes):
    print(program.name, hashlib.sha256(binary_of(program, architecture_of_machine(sys.argv[1]))).hexdigest())
"""


@pytest.fixture(scope="module")
def contents(wheel):
    """The files below the wheel's folder of programs, by name."""
    with zipfile.ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if name.startswith(f"{PLACE}/")]
        return {name.removeprefix(f"{PLACE}/"): opened.read(name) for name in names}


@pytest.fixture(scope="module")
def manifest(contents):
    return json.loads(contents["programs.json"])


def test_the_wheel_has_each_program_for_this_host_at_least(contents, manifest):
    own = architecture_of_machine(os.uname().machine).name
    names = {program.name for program in programs()}

    assert {"memload", "memwatch", "pause"} <= names
    assert own in manifest["compilers"]
    assert contents.keys() - {"programs.json"} == {
        f"{architecture}/{name}" for architecture in manifest["compilers"] for name in names
    }


def test_each_is_a_static_program_for_its_cpu_with_its_hash(contents, manifest):
    for name, entry in manifest["programs"].items():
        binary = contents[name]
        order = ">" if binary[5] == 2 else "<"
        kind, machine = struct.unpack_from(f"{order}HH", binary, 16)
        assert hashlib.sha256(binary).hexdigest() == entry["sha256"]
        assert (kind, machine) == (2, ELF_MACHINES[name.partition("/")[0]]), name
        [place], [size, count] = (
            struct.unpack_from(f"{order}Q", binary, 32),
            struct.unpack_from(f"{order}HH", binary, 54),
        )
        kinds = {struct.unpack_from(f"{order}I", binary, place + number * size)[0] for number in range(count)}
        assert PT_INTERP not in kinds, name


def test_the_hashes_are_those_of_a_rebuild(manifest):
    by_name = {architecture.name: architecture for architecture in ARCHITECTURES}
    rebuilt = {
        f"{name}/{program.name}": {
            "sha256": hashlib.sha256(compile_program(program, find_compiler(by_name[name]))).hexdigest(),
            "sources": sources_digest(program),
        }
        for name in manifest["compilers"]
        for program in programs()
    }
    assert manifest["programs"] == rebuilt


def test_two_builds_in_other_folders_are_equal(tmp_path):
    for name in ("one", "two/further/down"):
        build(tmp_path / name)
    first, second = (
        {
            str(file.relative_to(tmp_path / name)): file.read_bytes()
            for file in (tmp_path / name).rglob("*")
            if file.is_file()
        }
        for name in ("one", "two/further/down")
    )
    assert first == second


def test_without_gcc_the_programs_come_from_the_wheel(wheel, manifest, tmp_path, monkeypatch):
    memqos = empty_environment(tmp_path / "env")
    install(memqos, str(wheel))
    (tmp_path / "ask.py").write_text(ASK)
    monkeypatch.setenv("PATH", str(memqos.parent))

    for architecture in ARCHITECTURES:
        done = run(str(memqos.with_name("python")), "ask.py", architecture.machine, cwd=tmp_path)
        if architecture.name in manifest["compilers"]:
            assert done.returncode == 0, done.stderr
            assert dict(line.split() for line in done.stdout.splitlines()) == {
                name.partition("/")[2]: entry["sha256"]
                for name, entry in manifest["programs"].items()
                if name.startswith(f"{architecture.name}/")
            }
        else:
            assert "MissingProgramError" in done.stderr

    doctor = json.loads(run(str(memqos), "doctor", "--json", cwd=tmp_path).stdout)
    [found] = [check for check in doctor["checks"] if check["name"] == "programs"]
    assert found["ok"]
    assert "compiled already for x86_64" in found["found"]
    assert not [check for check in doctor["checks"] if check["name"] == "gcc"]
