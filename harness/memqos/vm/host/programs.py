"""Programs of the host: where they are, and which of the distribution's packages install a missing one.

memqos uses Debian's names of packages. The launcher of a checkout has the same table in sh; a test compares them.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError, MissingProgramError
from memqos.vm.architecture import AMD64, ARCHITECTURES, Architecture

__all__ = [
    "FAMILIES",
    "MIN_QEMU",
    "PACKAGES",
    "SBIN",
    "Qemu",
    "family_of",
    "find_program",
    "find_qemu",
    "install_advice",
    "namespace_obstacle",
    "need_namespaces",
    "parse_qemu_version",
    "search_path",
]


OS_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Distributions with the same packages.

    ids: ID and ID_LIKE of os-release(5). command: installs packages. packages: Debian's name to this family's, "" for a
    missing package; others have the same name.
    """

    name: str
    ids: frozenset[str]
    command: str
    packages: Mapping[str, str] = field(default_factory=dict)


WITHOUT_CROSS_LIBRARY = dict.fromkeys((name for one in ARCHITECTURES for name in one.compiler_packages), "")
"""Their cross compilers bring no C library, so they build kernels but no programs."""

DEBIAN = Family(name="Debian", ids=frozenset({"debian", "ubuntu"}), command="apt-get install --no-install-recommends")
FAMILIES = (
    DEBIAN,
    Family(
        name="Fedora",
        ids=frozenset({"fedora", "rhel", "centos"}),
        command="dnf install",
        packages={
            **WITHOUT_CROSS_LIBRARY,
            "debian-archive-keyring": "debian-keyring",
            "libc6-dev": "glibc-static",
            "openssh-client": "openssh-clients",
            "ovmf": "edk2-ovmf",
            "python3-venv": "python3",
            "qemu-efi-aarch64": "edk2-aarch64",
            "qemu-system-arm": "qemu-system-aarch64-core",
            "qemu-system-ppc": "qemu-system-ppc-core",
            "qemu-system-x86": "qemu-system-x86-core",
            "qemu-utils": "qemu-img",
            "uidmap": "shadow-utils",
        },
    ),
    Family(
        name="openSUSE",
        ids=frozenset({"opensuse", "suse", "opensuse-tumbleweed", "opensuse-leap", "sles"}),
        command="zypper install",
        packages={
            **WITHOUT_CROSS_LIBRARY,
            "debian-archive-keyring": "",
            "libc6-dev": "glibc-devel-static",
            "mmdebstrap": "",
            "openssh-client": "openssh-clients",
            "ovmf": "qemu-ovmf-x86_64",
            "python3-venv": "python3",
            "qemu-efi-aarch64": "qemu-uefi-aarch64",
            "qemu-system-arm": "qemu-arm",
            "qemu-system-ppc": "qemu-ppc",
            "qemu-system-x86": "qemu-x86",
            "qemu-utils": "qemu-tools",
            "uidmap": "shadow",
        },
    ),
)


def family_of(os_release: str) -> Family | None:
    """PURE. The family that an os-release file names, by ID first; None for others."""
    pairs = re.findall(r"""(?m)^(ID|ID_LIKE)=["']?([^"'\n]*)""", os_release)
    told = {str(name): str(value).lower().split() for name, value in pairs}
    for word in (*told.get("ID", []), *told.get("ID_LIKE", [])):
        for family in FAMILIES:
            if word in family.ids:
                return family
    return None


def install_advice(packages: Sequence[str], *, os_release: Path | None = None) -> str:
    """How to install these packages, given by Debian's names, on this host."""
    try:
        text = (os_release or OS_RELEASE).read_text(errors="replace")
    except OSError:
        text = ""
    family = family_of(text)
    if family is None:
        return f"Install what Debian calls {' '.join(packages)}."
    own = {name: family.packages.get(name, name) for name in packages}
    there = list(dict.fromkeys(package for package in own.values() if package))
    lacking = [name for name, package in own.items() if not package]
    advice = [f"Install it: {family.command} {' '.join(there)}"] if there else []
    if lacking:
        advice.append(
            f"{family.name} has no package {' or '.join(lacking)}: take it from Debian, or run memqos in a container "
            "(Containerfile)."
        )
    return ". ".join(advice)


MIN_QEMU = (8, 2)
"""Older QEMUs corrupt CPU flags under multi-threaded software emulation, which crashes 6.12 guests."""

PACKAGES: dict[str, str] = {
    **{one.qemu: one.qemu_package for one in ARCHITECTURES if one.qemu},
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "gcc": "gcc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "depmod": "kmod",
    "newuidmap": "uidmap",
}
"""Program to the Debian and Ubuntu package with it; other distributions' names are in `vm.host.programs`."""

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of programs that may be missing from an ordinary user's PATH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qemu:
    """A usable QEMU: the program and its version as (major, minor, micro)."""

    program: Path
    version: tuple[int, int, int]

    @property
    def version_text(self) -> str:
        """The version as QEMU prints it: 10.0.2."""
        return ".".join(map(str, self.version))


def search_path(environment: Mapping[str, str]) -> str:
    """A PATH that includes the system's sbin folders, for a program that starts others by name."""
    return ":".join((environment.get("PATH", os.defpath), *SBIN))


def find_program(name: str) -> Path:
    """Where a program is, on PATH or in the system's sbin folders.

    Raises MissingProgramError naming the package.
    """
    found = shutil.which(name) or shutil.which(name, path=":".join(SBIN))
    if found is None:
        package = PACKAGES.get(name, name)
        raise MissingProgramError(
            f"the program '{name}' is not installed.",
            next_step=install_advice([package]),
            data={"program": name, "package": package},
        )
    return Path(found)


def parse_qemu_version(text: str) -> tuple[int, int, int] | None:
    """The version in what `qemu-system-x86_64 --version` prints, or None if none is there."""
    match = re.search(r"QEMU emulator version (\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def find_qemu(architecture: Architecture = AMD64) -> Qemu:
    """The host's QEMU for machines of an architecture.

    Raises MissingProgramError if there is none, if it does not print its version, or if that is older than MIN_QEMU.
    """
    program = find_program(architecture.qemu)
    package = architecture.qemu_package
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = parse_qemu_version(told.stdout)
    wanted = ".".join(map(str, MIN_QEMU))
    if version is None:
        raise MissingProgramError(
            f"'{program} --version' prints no version: {(told.stderr or told.stdout).strip()[-300:]}",
            next_step=f"QEMU {wanted} or newer is needed. {install_advice([package])}",
            data={"program": str(program)},
        )
    if version[:2] < MIN_QEMU:
        shown = ".".join(map(str, version))
        raise MissingProgramError(
            f"QEMU {shown} ({program}) is too old: its software emulation crashes the guests.",
            next_step=f"Install QEMU {wanted} or newer. On Debian 12 it is in bookworm-backports: "
            f"apt-get install -t bookworm-backports {package} (./memqos sets that up).",
            data={"program": str(program), "version": shown, "minimum": wanted},
        )
    return Qemu(program=program, version=version)


TRY = ("--user", "--map-root-user", "--map-auto", "--mount", "true")
"""The unshare command of a build, without an effect."""


def namespace_obstacle() -> str | None:
    """Why this user cannot create such a namespace, in unshare's words; None if it works, or as root.

    Raises MissingProgramError for a missing program.
    """
    if os.geteuid() == 0:
        return None
    find_program("newuidmap")
    argv = [str(find_program("unshare")), *TRY]
    told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if told.returncode == 0:
        return None
    said = told.stderr.strip().removeprefix("unshare: ").removesuffix(": Success")
    return said or f"unshare ended with status {told.returncode}"


def need_namespaces() -> None:
    """Raise EnvironmentNotAbleError, naming what to change on the host, if this user cannot build images."""
    if obstacle := namespace_obstacle():
        user = getpass.getuser()
        raise EnvironmentNotAbleError(
            f"this host does not let '{user}' create a user namespace with subordinate ids: {obstacle}.",
            next_step=f"As root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}; "
            "where AppArmor restricts it (Ubuntu), sysctl kernel.apparmor_restrict_unprivileged_userns=0. "
            "Or build as root.",
            data={"user": user, "obstacle": obstacle},
        )
