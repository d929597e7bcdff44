"""The user's options and files for a machine, checked before anything is started.

What changes the guest before it is saved is in `Choices.fingerprint` or in the kernel's command line, so that a
checkpoint is never used for another machine. The rest, in LATE, is installed in each clone.

Files replace the image's, or are packages, or trees with destinations of their own (`vm.trees`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import struct
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError
from memqos.model.node import CgroupVersion
from memqos.plain_file import read_plain
from memqos.vm.architecture import AMD64, ARCHITECTURES, Architecture
from memqos.vm.kernel_tree import KernelTree, kernel_tree
from memqos.vm.profile import Profile
from memqos.vm.trees import BroughtTree, CopiedTree, bring_tree

__all__ = [
    "BootOptions",
    "Brought",
    "Choices",
    "RuntimeBinary",
    "bring",
    "check_options",
    "kernel_words",
    "passes_hugetlb",
]

ELF = b"\x7fELF"
MAX_BYTES = 1 << 30
"""A larger file is rejected: files are read into memory, and no program, package or initrd is larger."""

RUNNABLE = frozenset({2, 3})
"""The types of an ELF file that is a program: at a fixed address, or at any."""

HEADER = struct.Struct("<16xHHIQQQIHHH")
"""An ELF64 file's header up to e_phnum: type, machine, …, e_phoff, …, e_phentsize, e_phnum."""

SEGMENT = struct.Struct("<IIQQQQ")
"""One program header: type, flags, offset, two addresses, size in the file."""

LOADED = 1

INITRDS = (
    b"070701",
    b"070702",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"\x02\x21\x4c\x18",
    b"\x04\x22\x4d\x18",
    b"BZh",
    b"\x5d\x00",
)
"""The magic of a cpio archive, and of compressed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """One file that the user brings: the option that named it, its path, the hash of its content, and its bytes.

    name: of the OCI runtime that it is, "" for another file.
    """

    option: str
    path: Path
    sha256: str
    size: int
    name: str = ""

    def content(self) -> bytes:
        """Its content; raises UsageError if it changed since it was checked."""
        data = _read(self.path, self.option)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise UsageError(f"'{self.path}' was changed while it was in use.", where=self.option)
        return data

    @property
    def facts(self) -> dict[str, object]:
        """Its JSON in a bundle."""
        return {"path": str(self.path), "sha256": self.sha256, "bytes": self.size}


def bring(option: str, path: Path, check: Callable[[Path, str, bytes], None], name: str = "") -> Brought:
    """The file, checked; raises UsageError naming the option for an unreadable one, or what `check` raises."""
    data = _read(path, option)
    check(path, option, data)
    sha256 = hashlib.sha256(data).hexdigest()
    return Brought(option=option, path=path.absolute(), sha256=sha256, size=len(data), name=name)


def _bring_runtime(asked: RuntimeBinary, check: Callable[[Path, str, bytes], None]) -> Brought:
    """The file of an OCI runtime; raises as `bring` does, and for a path followed by arguments."""
    program, _, arguments = str(asked.path).partition(" ")
    if arguments and not asked.path.exists() and Path(program).is_file():
        raise UsageError(
            f"'{asked.path}': a runtime must be a file without arguments; '{program}' is one.",
            where=asked.option,
            next_step=f"Copy it with --guest-file {program}:/opt/{Path(program).name}, and name a script that runs it: "
            f'#!/bin/sh, exec /opt/{Path(program).name} {arguments} "$@".',
        )
    return bring(asked.option, asked.path, check, asked.name)


def _read(path: Path, option: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"'{path}' is not a file.", where=option, next_step="Name the file itself.")
        return read_plain(path, most=MAX_BYTES, where=option)
    except OSError as error:
        here = isinstance(error, FileNotFoundError) and not path.is_absolute()
        raise UsageError(
            f"'{path}' cannot be read: {error.strerror}.",
            where=option,
            next_step=f"A relative path starts from {Path.cwd()}." if here else "",
        ) from error


def check_program(path: Path, option: str, data: bytes, *, architectures: Sequence[Architecture]) -> None:
    """UsageError for a file that a kernel of these architectures could not start: for another one, or truncated."""
    if not os.access(path, os.X_OK):
        raise UsageError(f"'{path}' is not executable.", where=option, next_step=f"chmod +x '{path}'")
    if data.startswith(ELF):
        if fault := _elf_fault(data):
            raise UsageError(f"'{path}' {fault}.", where=option)
        _need_architecture(path, option, HEADER.unpack_from(data)[1], architectures)
    elif not data.startswith(b"#!"):
        raise UsageError(f"'{path}' is neither a program (ELF) nor a script (#!).", where=option)


def _elf_fault(data: bytes) -> str:
    """Why an ELF file is no whole program, "" if it looks like one."""
    if len(data) < HEADER.size:
        return f"is truncated: it has {len(data)} bytes, less than an ELF header"
    kind, machine, _, _, offset, _, _, _, entry, count = HEADER.unpack_from(data)
    if machine not in {one.elf for one in ARCHITECTURES}:
        return ""
    if kind not in RUNNABLE:
        return "is an ELF file, but not a program: an object file or a core dump"
    ends = [offset + entry * count]
    for place in range(offset, ends[0], max(entry, SEGMENT.size)):
        if place + SEGMENT.size <= len(data):
            segment, _, start, _, _, size = SEGMENT.unpack_from(data, place)
            ends += [start + size] if segment == LOADED else []
    end = max(ends)
    return f"is truncated: it has {len(data)} bytes, but its segments end at {end}" if end > len(data) else ""


def _need_architecture(path: Path, option: str, machine: int, architectures: Sequence[Architecture]) -> None:
    """Raise UsageError for a program of another CPU. machine: its e_machine."""
    others = [one.name for one in architectures if one.elf != machine]
    if others:
        built = next((one.name for one in ARCHITECTURES if one.elf == machine), "another CPU")
        raise UsageError(
            f"'{path}' is built for {built}, and the machines are {' and '.join(others)}.",
            where=option,
            next_step=f"Give a build for {others[0]}"
            + (
                ", and run once for each architecture." if len(architectures) > 1 else ", or choose others with --arch."
            ),
        )


def check_config(path: Path, option: str, data: bytes) -> None:
    """UsageError for a file that is not TOML."""
    try:
        tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"'{path}' is not TOML: {error}.", where=option) from error


def check_deb(path: Path, option: str, data: bytes) -> None:
    """UsageError for a file that is not a Debian package."""
    if not data.startswith(b"!<arch>\ndebian-binary"):
        raise UsageError(f"'{path}' is not a Debian package.", where=option)


def check_kernel(path: Path, option: str, data: bytes) -> None:
    """UsageError for a file that is not a kernel in a format that QEMU starts."""
    if data[0x202:0x206] != b"HdrS":
        raise UsageError(
            f"'{path}' is not a kernel that QEMU can start.",
            where=option,
            next_step="Name the bzImage (arch/x86/boot/bzImage, /boot/vmlinuz-…), not vmlinux.",
        )


def check_initrd(path: Path, option: str, data: bytes) -> None:
    """UsageError for a file that is neither a cpio archive nor a compressed one."""
    if not data.startswith(INITRDS):
        raise UsageError(f"'{path}' is not an initrd: neither a cpio archive nor a compressed one.", where=option)


RECURSIVEPROT_OFF = "memqos.recursiveprot=0"
"""Read by the guest's memqos-cgroup.service."""

HUGETLB = "disable_hugetlb_controller"

LATE = frozenset({"--containerd-binary", "--containerd-config"})
"""Their files, and OCI runtimes, are installed in each running machine: it takes seconds, a boot a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBinary:
    """A file of this host with the OCI runtime of this name; option: the option that named it."""

    name: str
    path: Path
    option: str = "--runtime-binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOptions:
    """The user's choices for a machine, besides its profile and topology. None and empty keep the image's own.

    runtime_files: OCI runtimes; each replaces the image's own, if any, and containerd_binary replaces containerd: the
    image's own stay next to them as NAME.dist. handlers, docker_runtimes, podman_runtimes: OCI runtimes that the image
    does not have, and that are added to containerd's, Docker's or Podman's configuration. containerd_config: replaces
    /etc/containerd/config.toml. runtime_debs, guest_debs, kernel_debs: Debian packages that are installed, all of a
    kind at once. guest_files: files with destinations of their own. guest_units: systemd units that are then enabled
    and started. kernel_tree: the folder of a built kernel, which is installed with its modules. kernel_image, initrd:
    the kernel that QEMU starts; an initrd alone is rejected, a kernel alone gets the image's. cgroup: which hierarchy
    systemd mounts. recursiveprot: whether cgroup v2 has the option memory_recursiveprot. checkpoint: restore the
    machine from a checkpoint, which is created if there is none; otherwise boot it.
    """

    runtime_files: tuple[RuntimeBinary, ...] = ()
    handlers: tuple[str, ...] = ()
    docker_runtimes: tuple[str, ...] = ()
    podman_runtimes: tuple[str, ...] = ()
    containerd_binary: Path | None = None
    containerd_config: Path | None = None
    runtime_debs: tuple[Path, ...] = ()
    guest_files: tuple[CopiedTree, ...] = ()
    guest_units: tuple[str, ...] = ()
    guest_debs: tuple[Path, ...] = ()
    kernel_debs: tuple[Path, ...] = ()
    kernel_tree: Path | None = None
    kernel_image: Path | None = None
    initrd: Path | None = None
    cgroup: CgroupVersion = CgroupVersion.V2
    recursiveprot: bool = True
    checkpoint: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Boot options whose files were read and accepted.

    trees: files with destinations of their own. kernel: of a build tree.
    """

    options: BootOptions
    brought: tuple[Brought, ...]
    trees: tuple[BroughtTree, ...] = ()
    kernel: KernelTree | None = None

    @property
    def kernel_packages(self) -> tuple[Brought | KernelTree, ...]:
        """The packages of another kernel than the image's."""
        return self.of("--kernel-deb") if self.kernel is None else (self.kernel,)

    def of(self, option: str) -> tuple[Brought, ...]:
        """The files that this option named."""
        return tuple(file for file in self.brought if file.option == option)

    @property
    def runtimes(self) -> tuple[Brought, ...]:
        """The OCI runtimes."""
        return tuple(file for file in self.brought if file.name)

    @property
    def saved(self) -> tuple[Brought, ...]:
        """The files that a checkpoint of the machine includes, or that it boots from."""
        return tuple(file for file in self.brought if file not in self.late)

    @property
    def files(self) -> tuple[Brought | BroughtTree | KernelTree, ...]:
        """All files."""
        return (*self.brought, *self.trees, *([] if self.kernel is None else [self.kernel]))

    @property
    def late(self) -> tuple[Brought, ...]:
        """The files that are installed in each machine."""
        return tuple(file for file in self.brought if file.name or file.option in LATE)

    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits that change with the content and use of every saved file; empty without any.

        The order of packages of one kind counts, paths do not. cgroup and recursiveprot are in the kernel's command
        line, and not included here.
        """
        facts: list[list[object]] = [[file.option, file.sha256] for file in self.saved]
        facts += [[tree.option, tree.sha256, tree.destination, tree.mode] for tree in self.trees]
        facts += [["--guest-unit", unit] for unit in self.options.guest_units]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12] if facts else ""

    @property
    def provenance(self) -> Mapping[str, object]:
        """The saved files' JSON in a bundle, by option as a Python identifier; empty without any."""
        options = dict.fromkeys(file.option for file in self.saved)
        told: dict[str, object] = {
            option.removeprefix("--").replace("-", "_"): [file.facts for file in self.of(option)] for option in options
        }
        if self.trees:
            told["guest_file"] = [tree.facts for tree in self.trees]
        if self.kernel is not None:
            told["kernel_tree"] = [self.kernel.facts]
        if self.options.guest_units:
            told["guest_unit"] = list(self.options.guest_units)
        return told


def kernel_words(profile: Profile, options: BootOptions) -> tuple[str, ...]:
    """The kernel's command line, as given by profile and options.

    Raises UsageError for a hierarchy that this profile's kernel and systemd do not support.
    """
    words = profile.kernel_arguments
    if options.cgroup is CgroupVersion.V1:
        if profile.cgroup_v1.refused:
            raise UsageError(
                f"the profile '{profile.name}' cannot boot with cgroup v1: {profile.cgroup_v1.refused}.",
                where="--cgroup",
                next_step="Choose another profile: `memqos vm list` names those that can.",
            )
        if not options.recursiveprot:
            raise UsageError(
                "cgroup v1 has no memory_recursiveprot.",
                where="--no-recursiveprot",
                next_step="Leave one of the two options out.",
            )
        return (*words, *profile.cgroup_v1.kernel_arguments)
    return words if options.recursiveprot else (*words, RECURSIVEPROT_OFF)


def check_options(options: BootOptions, architectures: Sequence[Architecture] = (AMD64,)) -> Choices:
    """The options with every file read once; raises UsageError naming the option and the fault of its file.

    architectures: of the machines that get the files.
    """
    if options.initrd and not options.kernel_image:
        raise UsageError("an initrd needs its kernel.", where="--initrd", next_step=KERNEL_IMAGE)
    kernels = {
        "--kernel-image": options.kernel_image,
        "--kernel-deb": options.kernel_debs,
        "--kernel-tree": options.kernel_tree,
    }
    if len(several := [option for option, value in kernels.items() if value]) > 1:
        raise UsageError(f"give {' or '.join(several)}, not both.", where=several[0])
    _need_amd64([option for option, value in kernels.items() if value and option != "--kernel-deb"], architectures)
    program = functools.partial(check_program, architectures=architectures)
    given: list[tuple[str, Path | None, Callable[[Path, str, bytes], None]]] = [
        ("--containerd-binary", options.containerd_binary, program),
        ("--containerd-config", options.containerd_config, check_config),
        *(("--runtime-deb", path, check_deb) for path in options.runtime_debs),
        *(("--guest-deb", path, check_deb) for path in options.guest_debs),
        *(("--kernel-deb", path, check_deb) for path in options.kernel_debs),
        ("--kernel-image", options.kernel_image, check_kernel),
        ("--initrd", options.initrd, check_initrd),
    ]
    programs = tuple(_bring_runtime(one, program) for one in options.runtime_files)
    brought = (*programs, *(bring(option, path, check) for option, path, check in given if path is not None))
    trees = tuple(bring_tree("--guest-file", file) for file in options.guest_files)
    places = [tree.destination for tree in trees if not tree.is_folder]
    for place in places:
        if places.count(place) > 1:
            raise UsageError(f"'{place}' is the destination of several files.", where="--guest-file")
    kernel = None if options.kernel_tree is None else kernel_tree(options.kernel_tree)
    return Choices(options=options, brought=brought, trees=trees, kernel=kernel)


def _need_amd64(options: Sequence[str], architectures: Sequence[Architecture]) -> None:
    """Raise UsageError for an option with a kernel's file, which memqos knows of amd64 alone."""
    if options and (others := [one.name for one in architectures if one is not AMD64]):
        raise UsageError(
            f"it takes kernels of amd64 only, and the machines are {' and '.join(others)}.",
            where=options[0],
            next_step="Leave it out, or choose machines of amd64.",
        )


KERNEL_IMAGE = "Name it with --kernel-image."


def passes_hugetlb(config: bytes) -> bool:
    """Whether containerd with this configuration passes huge page limits on; by default it does not."""
    plugins = tomllib.loads(config.decode()).get("plugins", {})
    names = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
    return any(plugins.get(name, {}).get(HUGETLB) is False for name in names)
