"""The wheel's programs take precedence over a compiler, if they are complete and from the same sources."""

import hashlib
import json
from dataclasses import replace

import pytest

from memqos.errors import EnvironmentNotAbleError, MissingProgramError
from memqos.vm.architecture import AMD64, architecture_of_machine
from memqos.vm.image import programs
from memqos.vm.image.programs import binary_of, need_programs, prebuilt_architectures, sources_digest
from memqos.vm.profile import Program, SourceFile

ARM64 = architecture_of_machine("aarch64")
PROGRAM = Program(name="memload", sources=(SourceFile(name="memload.c", content=b"int main(void) { return 0; }\n"),))
BINARY = b"\x7fELF for arm64"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """An installation with memload for arm64, on a host without any compiler."""
    folder = tmp_path / "programs"
    (folder / "arm64").mkdir(parents=True)
    (folder / "arm64" / "memload").write_bytes(BINARY)
    entry = {"sha256": hashlib.sha256(BINARY).hexdigest(), "sources": sources_digest(PROGRAM)}
    (folder / "programs.json").write_text(json.dumps({"schema": 1, "programs": {"arm64/memload": entry}}))
    monkeypatch.setattr(programs, "FOLDER", folder)
    monkeypatch.setattr(programs, "search_path", lambda _: str(tmp_path / "empty"))

    def missing(name):
        raise MissingProgramError(f"the program '{name}' is not installed.")

    monkeypatch.setattr(programs, "find_program", missing)
    return folder


def test_a_program_of_the_wheel_needs_no_compiler(installed):
    need_programs([PROGRAM], ARM64)
    assert binary_of(PROGRAM, ARM64) == BINARY
    assert [one.name for one in prebuilt_architectures()] == ["arm64"]


def test_an_architecture_that_the_wheel_lacks_needs_a_compiler(installed):
    with pytest.raises(MissingProgramError):
        need_programs([PROGRAM], AMD64)
    with pytest.raises(MissingProgramError):
        binary_of(PROGRAM, AMD64)


def test_a_binary_of_other_sources_is_not_used(installed):
    changed = replace(PROGRAM, sources=(SourceFile(name="memload.c", content=b"int main(void) { return 1; }\n"),))
    with pytest.raises(MissingProgramError):
        binary_of(changed, ARM64)


@pytest.mark.parametrize("content", [BINARY[:-1], b"", None])
def test_a_damaged_installation_is_named(installed, content):
    file = installed / "arm64" / "memload"
    file.unlink() if content is None else file.write_bytes(content)

    with pytest.raises(EnvironmentNotAbleError, match="the installation is damaged") as refused:
        binary_of(PROGRAM, ARM64)

    assert refused.value.where == str(file)
    assert "pip install --force-reinstall" in refused.value.next_step


def test_a_checkout_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "FOLDER", tmp_path / "none")
    assert prebuilt_architectures() == ()
    assert programs.prebuilt_binary(PROGRAM, AMD64) is None


def test_the_digest_of_sources_changes_with_names_and_contents():
    def digest(*files):
        return sources_digest(Program(name="a", sources=tuple(SourceFile(name=n, content=c) for n, c in files)))

    assert digest(("a.c", b"1"), ("b.h", b"2")) == digest(("b.h", b"2"), ("a.c", b"1"))
    assert (
        len({digest(("a.c", b"1")), digest(("a.c", b"2")), digest(("b.c", b"1")), digest(("a.c", b""), ("1", b""))})
        == 4
    )
