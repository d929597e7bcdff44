"""Package names and install commands of this host's distribution, for error messages and the doctor.

memqos uses Debian's names. The launcher of a checkout has the same table in sh; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memqos.vm.architecture import ARCHITECTURES

__all__ = ["DEBIAN", "FAMILIES", "OS_RELEASE", "Family", "family_of", "install_advice"]

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
