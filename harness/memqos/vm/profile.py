"""A profile: which system a machine runs, and everything that goes into its image. A value with all its content."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GuestFile", "Profile", "Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFile:
    """A file of ours in the guest: its absolute path and its content.

    A script, told by its first two bytes, is executable; everything else is not.
    """

    path: str
    content: bytes

    @property
    def mode(self) -> int:
        """Permission bits."""
        return 0o755 if self.content.startswith(b"#!") else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One C program of the workload: the program's name and its source."""

    program: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a machine's image is made of.

    suite: Debian's code name; kernel: the package that brings it; packages: the others.
    kernel_arguments: the words of the kernel's command line, whatever the topology.
    masked_units, enabled_units: systemd units that are made impossible to start, and started with multi-user.target.
    files: laid over the installed root, later ones over earlier ones.
    sources: programs that become container images in the guest's store.
    """

    name: str
    purpose: str
    suite: str
    kernel: str
    packages: tuple[str, ...]
    kernel_arguments: tuple[str, ...]
    masked_units: tuple[str, ...]
    enabled_units: tuple[str, ...]
    files: tuple[GuestFile, ...]
    sources: tuple[Source, ...]
