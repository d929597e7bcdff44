"""Packages have the names of this host's distribution, in the launcher as in Python."""

import re
from pathlib import Path

import pytest

from memqos.vm.host.programs import FAMILIES, WITHOUT_CROSS_LIBRARY, family_of, install_advice

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
