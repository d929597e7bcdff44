"""A profile: the system that a machine runs, as a value with everything that goes into its image.

Also the known programs of a machine, which plans and expectations depend on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memqos.vm.architecture import AMD64, Architecture

__all__ = ["Contents", "GuestFile", "LegacyBoot", "Profile", "Program", "ReportedProgram", "SourceFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFile:
    """A file of memqos in the guest: its absolute path and its content.

    A script, recognized by its first two bytes, is executable; other files are not.
    """

    path: str
    content: bytes

    @property
    def mode(self) -> int:
        """Permission bits."""
        return 0o755 if self.content.startswith(b"#!") else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One source file of a C program: its name and content."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One C program of memqos, and its source files: its .c files, which include its .h files."""

    name: str
    sources: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyBoot:
    """How a system boots with cgroup v1: with additional words of the kernel's command line, or not at all.

    refused: why it cannot, as a sentence without its full stop; empty if it can, and then there are words.
    """

    kernel_arguments: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The definition of a machine's image.

    suite: Debian's code name; kernel: the kernel's package; packages: the others, in apt's notation: NAME, or
    NAME/SUITE for one of another suite. kernel_suite: where the kernel is taken from, such as "trixie-backports"; empty
    is the suite itself. kernel_arguments: the words of the kernel's command line, whatever the topology. cgroup_v1: how
    its kernel and systemd boot with cgroup v1. masked_units, enabled_units: systemd units that are masked, and started
    with multi-user.target. files: laid over the installed root, later ones over earlier ones. programs: those that
    become container images in the guest's store; probes: those for the guest itself. additions: what was added to it
    for this use, by name, such as "docker". architecture: its CPU's. init: the program that mounts the root in memqos's
    own initrd; None leaves the initrd to Debian's initramfs-tools, which only runs on a host of the same architecture.
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
    programs: tuple[Program, ...]
    probes: tuple[Program, ...] = ()
    kernel_suite: str = ""
    cgroup_v1: LegacyBoot = LegacyBoot(refused="the profile does not support it")
    additions: tuple[str, ...] = ()
    architecture: Architecture = AMD64
    init: Program | None = None

    @property
    def suites(self) -> tuple[str, ...]:
        """All suites that its packages are taken from, its own first."""
        others = (self.kernel_suite, *(package.partition("/")[2] for package in self.packages))
        return tuple(dict.fromkeys((self.suite, *(suite for suite in others if suite))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProgram:
    """A program's own report of its name and version; "" if missing."""

    name: str = ""
    version: str = ""


@dataclass(slots=True, kw_only=True)
class Contents:
    """The current programs of a machine.

    versions: by the program's name; a missing one is unknown. brought: the identity that the user's file reports, by
    the name of the replaced program. places: the paths of the brought OCI runtimes. hugetlb: whether containerd passes
    huge page limits on, as memqos's own configuration does (vm/guest).
    """

    versions: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    brought: dict[str, ReportedProgram] = field(default_factory=dict)
    hugetlb: bool = True
