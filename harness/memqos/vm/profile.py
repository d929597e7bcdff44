"""A profile: which system a machine runs, and everything that goes into its image. A value with all its content.

And which programs are in a machine, as far as it is known: what plans and expectations rest on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memqos.vm.architecture import AMD64, Architecture

__all__ = ["Contents", "GuestFile", "LegacyBoot", "Profile", "Program", "SourceFile", "Told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFile:
    """A file of memqos in the guest: its absolute path and its content.

    A script, told by its first two bytes, is executable; everything else is not.
    """

    path: str
    content: bytes

    @property
    def mode(self) -> int:
        """Permission bits."""
        return 0o755 if self.content.startswith(b"#!") else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a C program: its name, and what is in it."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One C program of memqos, and the files it is compiled from: its .c files, which include its .h files."""

    name: str
    sources: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyBoot:
    """How a system boots with cgroup v1: by further words of the kernel's command line, or not at all.

    refused: why it cannot, as a sentence without its full stop; empty where it can, and then there are words.
    """

    kernel_arguments: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a machine's image is made of.

    suite: Debian's code name; kernel: the package that brings it; packages: the others.
    kernel_suite: where the kernel is taken from, such as "trixie-backports"; empty is the suite itself.
    kernel_arguments: the words of the kernel's command line, whatever the topology.
    cgroup_v1: how its kernel and systemd boot with cgroup v1.
    masked_units, enabled_units: systemd units that are made impossible to start, and started with multi-user.target.
    files: laid over the installed root, later ones over earlier ones.
    programs: those that become container images in the guest's store; probes: those that are for the guest itself.
    additions: what was added to it for this use, by name, such as "docker".
    architecture: its CPU's.
    init: the program that mounts the root, of which memqos makes the initrd itself; None leaves the initrd to Debian's
    initramfs-tools, which only runs on a host of the same architecture.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a program says that it is, by its own name and version; "" for what it does not say."""

    name: str = ""
    version: str = ""


@dataclass(slots=True, kw_only=True)
class Contents:
    """What is in a machine by now.

    versions: by the program's name; one that is not in it is not known. brought: what the user's file says of itself,
    by the name of the program whose place it took. places: where the brought OCI runtimes are. hugetlb: whether
    containerd passes huge page limits on, which memqos's own configuration of it does (vm/guest).
    """

    versions: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    brought: dict[str, Told] = field(default_factory=dict)
    hugetlb: bool = True
