"""The host's programs for building and running machines: their paths, versions, and packages.

Used by both `memqos doctor` and errors, so that they name the same packages. Whether an ordinary user can build images
here depends on a user namespace in which they are root and have further ids.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError, MissingProgramError
from memqos.vm.architecture import AMD64, ARCHITECTURES, Architecture
from memqos.vm.host.packages import install_advice

__all__ = [
    "MIN_QEMU",
    "PACKAGES",
    "SBIN",
    "Qemu",
    "find_program",
    "find_qemu",
    "namespace_obstacle",
    "need_namespaces",
    "parse_qemu_version",
    "search_path",
]

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
"""Program to the Debian and Ubuntu package with it; other distributions' names are in `vm.host.packages`."""

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
