"""What a guest says of the software in it: versions by component, and packages."""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.errors import ImageError
from memqos.target.base import Target, checked
from memqos.target.programs import version_in

__all__ = ["kernel_config_of", "packages_in", "packages_of", "place_of", "versions_of"]

VERSIONS: dict[str, tuple[str, ...]] = {
    "kernel": ("uname", "-r"),
    "systemd": ("systemctl", "--version"),
    "containerd": ("containerd", "--version"),
    "runc": ("runc", "--version"),
    "crun": ("crun", "--version"),
}
"""Component to the command whose first line tells its version."""

ADDED: dict[str, tuple[str, ...]] = {"runsc": ("runsc", "--version")}
"""The same of what only some images have."""

NOT_FOUND = 127

KERNEL_CONFIG = ("CONFIG_CPUSETS_V1", "CONFIG_LRU_GEN_ENABLED", "CONFIG_MEMCG_V1", "CONFIG_PSI", "CONFIG_ZSWAP")
"""What of a kernel's configuration decides about machines and results; recorded with the image."""


def place_of(target: Target, name: str, *, deadline: Deadline) -> str:
    """Where a guest has a program, "" if it has none."""
    return target.run(["sh", "-c", 'command -v "$1"', "sh", name], deadline=deadline).text.strip()


def versions_of(target: Target, *, deadline: Deadline) -> dict[str, str]:
    """Version by component.

    Raises TargetError for a command that fails, ImageError for an answer without a version.
    """
    versions = {}
    for name, argv in (VERSIONS | ADDED).items():
        result = target.run(argv, deadline=deadline)
        if name in ADDED and result.status == NOT_FOUND:
            continue
        told = checked(result, where=target.address).text
        version = version_in(told)
        if version is None:
            raise ImageError(f"found no version in '{told.strip()[:200]}'.", where=target.address)
        versions[name] = version
    return versions


def kernel_config_of(target: Target, release: str, *, deadline: Deadline) -> dict[str, str]:
    """The configuration of an installed kernel: name to "y" or "m", "n" for what it was built without.

    Older kernels have no option for what they always do, such as CONFIG_MEMCG_V1: that is "n" as well.
    Raises TargetError for a kernel whose configuration is not in /boot.
    """
    text = checked(target.run(["cat", f"/boot/config-{release}"], deadline=deadline), where=target.address).text
    said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: said.get(name, "n") for name in KERNEL_CONFIG}


def packages_of(target: Target, *, deadline: Deadline) -> dict[str, str]:
    """Package to version, of all that are installed."""
    return packages_in(checked(target.run(["dpkg-query", "-W"], deadline=deadline), where=target.address).text)


def packages_in(text: str) -> dict[str, str]:
    """Package to version, from dpkg-query's lines."""
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {name: version for name, version in pairs}  # noqa: C416 - a dict of pairs reads worse to a type checker
