"""What a guest says of the software in it: versions by component, and packages."""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.errors import ImageError
from memqos.target.base import Target, checked

__all__ = ["packages_in", "packages_of", "version_in", "versions_of"]

VERSIONS: dict[str, tuple[str, ...]] = {
    "kernel": ("uname", "-r"),
    "systemd": ("systemctl", "--version"),
    "containerd": ("containerd", "--version"),
    "runc": ("runc", "--version"),
    "crun": ("crun", "--version"),
}
"""Component to the command whose first line tells its version."""


def versions_of(target: Target, *, deadline: Deadline, strict: bool = True) -> dict[str, str]:
    """Version by component.

    strict: whether a component that does not tell its version is an error; else it is left out, since a program that a
    person brought need not know the option.
    Raises TargetError for a command that fails, ImageError for an answer without a version.
    """
    versions = {}
    for name, argv in VERSIONS.items():
        told = target.run(argv, deadline=deadline)
        if strict:
            checked(told, where=target.address)
        version = version_in(told.text) if told.status == 0 else None
        if version is not None:
            versions[name] = version
        elif strict:
            raise ImageError(f"no version is in '{told.text.strip()[:200]}'.", where=target.address)
    return versions


def version_in(text: str) -> str | None:
    """The version in a program's first line: the first word that begins with a digit; None if there is none."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if word[:1].isdigit()), None)


def packages_of(target: Target, *, deadline: Deadline) -> dict[str, str]:
    """Package to version, of all that are installed."""
    return packages_in(checked(target.run(["dpkg-query", "-W"], deadline=deadline), where=target.address).text)


def packages_in(text: str) -> dict[str, str]:
    """Package to version, from dpkg-query's lines."""
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {name: version for name, version in pairs}  # noqa: C416 - a dict of pairs reads worse to a type checker
