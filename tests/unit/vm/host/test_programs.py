"""Programs of the host, and the packages that install them, named as in the launcher."""

import re
from pathlib import Path

import pytest

from memqos.errors import ExitCode, MissingProgramError
from memqos.vm.host.programs import (
    FAMILIES,
    WITHOUT_CROSS_LIBRARY,
    family_of,
    find_program,
    find_qemu,
    install_advice,
    parse_qemu_version,
)
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


LAUNCHER = Path(__file__).parents[4] / "memqos"

FEDORA = 'NAME="Fedora Linux"\nVERSION="43 (Cloud Edition)"\nID=fedora\nVERSION_ID=43\n'
ALMA = 'NAME="AlmaLinux"\nID="almalinux"\nID_LIKE="rhel centos fedora"\n'
TUMBLEWEED = 'NAME="openSUSE Tumbleweed"\nID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n'
UBUNTU = "ID=ubuntu\nID_LIKE=debian\n"
OTHERS = ["", "ID=arch\n", "NAME=Fedora-like\nID=nixos\nVARIANT_ID=fedora\n", "\0\0", "ID=\n"]


@pytest.mark.parametrize(
    ("text", "name"),
    [(FEDORA, "Fedora"), (ALMA, "Fedora"), (TUMBLEWEED, "openSUSE"), (UBUNTU, "Debian"), ("ID=debian", "Debian")],
)
def test_os_release_decides_the_family(text, name):
    assert family_of(text).name == name


@pytest.mark.parametrize("text", OTHERS)
def test_other_distributions_have_none(text):
    assert family_of(text) is None


def advice(tmp_path, text, *packages):
    file = tmp_path / "os-release"
    file.write_text(text)
    return install_advice(packages, os_release=file)


def test_each_family_has_its_command_and_names(tmp_path):
    asked = ("qemu-utils", "openssh-client", "e2fsprogs")
    assert advice(tmp_path, UBUNTU, *asked) == (
        "Install it: apt-get install --no-install-recommends qemu-utils openssh-client e2fsprogs"
    )
    assert advice(tmp_path, FEDORA, *asked) == "Install it: dnf install qemu-img openssh-clients e2fsprogs"
    assert advice(tmp_path, TUMBLEWEED, *asked) == "Install it: zypper install qemu-tools openssh-clients e2fsprogs"


def test_a_package_that_a_distribution_lacks_is_named(tmp_path):
    told = advice(tmp_path, TUMBLEWEED, "mmdebstrap")
    assert told.startswith("openSUSE has no package mmdebstrap: take it from Debian")


def test_machines_of_another_architecture_have_packages_too(tmp_path):
    compiler = ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    asked = ("qemu-system-arm", *compiler, "kmod")
    rest = "take it from Debian, or run memqos in a container (Containerfile)."
    assert advice(tmp_path, UBUNTU, *asked) == (
        f"Install it: apt-get install --no-install-recommends {' '.join(asked)}"
    )
    assert advice(tmp_path, FEDORA, *asked) == (
        f"Install it: dnf install qemu-system-aarch64-core kmod. Fedora has no package {' or '.join(compiler)}: {rest}"
    )
    assert advice(tmp_path, TUMBLEWEED, *asked) == (
        f"Install it: zypper install qemu-arm kmod. openSUSE has no package {' or '.join(compiler)}: {rest}"
    )


def test_qemu_for_ppc64le_by_its_own_names(tmp_path):
    assert advice(tmp_path, FEDORA, "qemu-system-ppc") == "Install it: dnf install qemu-system-ppc-core"
    assert advice(tmp_path, TUMBLEWEED, "qemu-system-ppc") == "Install it: zypper install qemu-ppc"


@pytest.mark.parametrize("text", OTHERS)
def test_an_unknown_distribution_gets_debians_names(tmp_path, text):
    assert advice(tmp_path, text, "qemu-utils") == "Install what Debian calls qemu-utils."


def test_a_host_without_os_release_gets_them_too(tmp_path):
    assert install_advice(["uidmap"], os_release=tmp_path / "none") == "Install what Debian calls uidmap."


def test_the_launcher_has_the_same_names():
    script = LAUNCHER.read_text()
    table = script[script.index("named() {") : script.index("need() {")]
    found = {}
    for patterns, name in re.findall(r"(?m)^ +(\S+,[^)]*)\)(?: echo ([\w.-]+))? ;;$", table):
        for pattern in patterns.split(" | "):
            family, _, package = pattern.partition(",")
            found.setdefault(family, {})[package] = name
    wanted = {family.name.lower(): dict(family.packages) for family in FAMILIES if family.packages}
    # The launcher of a checkout requires neither UEFI nor cross compilers.
    unused = {"ovmf", "qemu-efi-aarch64", *WITHOUT_CROSS_LIBRARY}
    assert found == {name: {k: v for k, v in names.items() if k not in unused} for name, names in wanted.items()}
    for family in FAMILIES:
        assert all(re.search(rf"(?m)^ +[\w| -]*\b{re.escape(one)}\b.*\) family=", script) for one in family.ids)
