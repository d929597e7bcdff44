import pytest

from memqos.errors import ExitCode, MissingProgramError
from memqos.vm.host.programs import find_program, find_qemu, parse_qemu_version
from memqos.vm.image.making import parse_targets


def fake(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def only_path(tmp_path, monkeypatch):
    """A PATH with only what the test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("memqos.vm.host.programs.SBIN", ())
    return tmp_path


def test_a_missing_program_names_its_package(only_path):
    with pytest.raises(MissingProgramError, match="the program 'qemu-img' is not installed") as caught:
        find_program("qemu-img")
    assert caught.value.next_step == "Install it: apt-get install --no-install-recommends qemu-utils"
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_a_program_may_be_in_sbin_only(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("memqos.vm.host.programs.SBIN", (str(tmp_path),))
    program = fake(tmp_path, "mke2fs", "exit 0")
    assert find_program("mke2fs") == program


@pytest.mark.parametrize("said", ["7.2.17 (Debian 1:7.2+dfsg-7)", "8.1.5"])
def test_an_old_qemu_is_refused_by_its_version(only_path, said):
    fake(only_path, "qemu-system-x86_64", f"echo 'QEMU emulator version {said}'")
    with pytest.raises(MissingProgramError, match=f"QEMU {said.split()[0]} .* is too old") as caught:
        find_qemu()
    assert "bookworm-backports" in caught.value.next_step


@pytest.mark.parametrize(("said", "version"), [("8.2.0", (8, 2, 0)), ("10.0.2 (Debian)", (10, 0, 2))])
def test_a_new_qemu_is_taken(only_path, said, version):
    fake(only_path, "qemu-system-x86_64", f"echo 'QEMU emulator version {said}'")
    assert find_qemu().version == version


def test_a_qemu_that_does_not_run_is_refused(only_path):
    fake(only_path, "qemu-system-x86_64", "echo 'error while loading shared libraries' >&2; exit 127")
    with pytest.raises(MissingProgramError, match="prints no version: error while loading"):
        find_qemu()


@pytest.mark.parametrize(
    ("text", "version"),
    [("QEMU emulator version 10.0", (10, 0, 0)), ("qemu-img version 8.2.1", None), ("", None)],
)
def test_version_is_read_from_qemu_s_own_line(text, version):
    assert parse_qemu_version(text) == version


def test_the_mirror_is_the_main_archive_s():
    text = "\n".join(
        [
            "Debian|Debian-Security|oldstable-security|main|http://mirror.example/debian-security/",
            "Debian|Debian|oldstable-updates|main|http://updates.example/debian/",
            "Debian Backports|Debian Backports|oldstable-backports|main|http://backports.example/debian/",
            "Ubuntu|Ubuntu|noble|main|http://ubuntu.example/ubuntu/",
            "Debian|Debian|oldstable|contrib|http://contrib.example/debian/",
            "Debian|Debian|oldstable|main|http://mirror.example/debian/",
        ]
    )
    assert parse_targets(text) == "http://mirror.example/debian"


@pytest.mark.parametrize("text", ["", "Ubuntu|Ubuntu|noble|main|http://ubuntu.example/ubuntu/\n", "||\n"])
def test_no_debian_is_no_mirror(text):
    assert parse_targets(text) == ""
