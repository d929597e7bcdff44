"""What a person chooses of a machine and puts into it, checked before anything is started.

Everything here that changes the guest is in `Choices.fingerprint` or in the kernel's command line, so that nothing that
was saved of one machine is taken for another.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError
from memqos.model.node import CgroupVersion
from memqos.vm.profile import Profile

__all__ = ["BootOptions", "Brought", "Choices", "boot_options", "check_options", "kernel_words"]

RECURSIVEPROT_OFF = "memqos.recursiveprot=0"
"""Read by the guest's memqos-cgroup.service."""

X86_64 = (62).to_bytes(2, "little")
"""An ELF file's machine, at byte 18."""

HUGETLB = "disable_hugetlb_controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOptions:
    """What a person chooses of a machine, beside its profile and topology. None and empty leave the image's own.

    runtime_binary: takes the place of the OCI runtime `runtime_name`, and containerd_binary that of containerd; the
    image's own stay beside them as NAME.dist. containerd_config: takes the place of /etc/containerd/config.toml.
    runtime_debs, kernel_debs: Debian packages that are installed, all of a kind at once.
    kernel_image, initrd: the kernel that QEMU starts; an initrd alone makes no sense, a kernel alone gets the image's.
    cgroup: which hierarchy systemd mounts. recursiveprot: whether cgroup v2 has the option memory_recursiveprot.
    checkpoint: restore the machine from a checkpoint, which is made if there is none; otherwise boot it.
    """

    runtime_binary: Path | None = None
    runtime_name: str = "runc"
    containerd_binary: Path | None = None
    containerd_config: Path | None = None
    runtime_debs: tuple[Path, ...] = ()
    kernel_debs: tuple[Path, ...] = ()
    kernel_image: Path | None = None
    initrd: Path | None = None
    cgroup: CgroupVersion = CgroupVersion.V2
    recursiveprot: bool = True
    checkpoint: bool = True


def boot_options(values: Mapping[str, object]) -> BootOptions:
    """The boot options among settings, by the settings' names as Python identifiers; what is not said stays as it is.

    The settings `runtime`, `no_recursiveprot` and `no_checkpoint` are runtime_name and the opposites of recursiveprot
    and checkpoint.
    """

    def path(name: str) -> Path | None:
        value = values.get(name)
        return value if isinstance(value, Path) else None

    def paths(name: str) -> tuple[Path, ...]:
        value = values.get(name)
        return tuple(Path(file) for file in value) if isinstance(value, tuple) else ()

    return BootOptions(
        runtime_binary=path("runtime_binary"),
        runtime_name=str(values.get("runtime", "runc")),
        containerd_binary=path("containerd_binary"),
        containerd_config=path("containerd_config"),
        runtime_debs=paths("runtime_deb"),
        kernel_debs=paths("kernel_deb"),
        kernel_image=path("kernel_image"),
        initrd=path("initrd"),
        cgroup=CgroupVersion(str(values.get("cgroup", CgroupVersion.V2))),
        recursiveprot=values.get("no_recursiveprot") is not True,
        checkpoint=values.get("no_checkpoint") is not True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """One file that a person brings: the option that named it, its path, the hash of its content, and its bytes."""

    option: str
    path: Path
    sha256: str
    size: int

    def content(self) -> bytes:
        """What is in it; raises UsageError if that is not what was checked any more."""
        data = _read(self.path, self.option)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise UsageError(f"'{self.path}' was changed while it was in use.", where=self.option)
        return data

    @property
    def facts(self) -> dict[str, object]:
        """What a bundle says of it."""
        return {"path": str(self.path), "sha256": self.sha256, "bytes": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Boot options whose files were read and found fit."""

    options: BootOptions
    brought: tuple[Brought, ...]

    def of(self, option: str) -> tuple[Brought, ...]:
        """The files that this option named."""
        return tuple(file for file in self.brought if file.option == option)

    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits that change with every file's content and use; empty if nothing was brought.

        The order of packages of one kind counts, paths do not. cgroup and recursiveprot are words of the kernel's
        command line, and not in here.
        """
        if not self.brought:
            return ""
        facts = [self.options.runtime_name, *([file.option, file.sha256] for file in self.brought)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]

    @property
    def provenance(self) -> Mapping[str, object]:
        """What a bundle says of the files, by option as a Python identifier; empty if nothing was brought."""
        options = dict.fromkeys(file.option for file in self.brought)
        return {
            option.removeprefix("--").replace("-", "_"): [file.facts for file in self.of(option)] for option in options
        }


def kernel_words(profile: Profile, options: BootOptions) -> tuple[str, ...]:
    """The kernel's command line as far as profile and options say it.

    Raises UsageError for a hierarchy that this profile's kernel and systemd cannot have.
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
                "cgroup v1 has no memory_recursiveprot that could be off.",
                where="--no-recursiveprot",
                next_step="Leave one of the two options out.",
            )
        return (*words, *profile.cgroup_v1.kernel_arguments)
    return words if options.recursiveprot else (*words, RECURSIVEPROT_OFF)


def check_options(options: BootOptions) -> Choices:
    """The options with every file read once; raises UsageError naming the option and what is wrong with its file."""
    if options.initrd and not options.kernel_image:
        raise UsageError("an initrd needs the kernel that it belongs to.", where="--initrd", next_step=KERNEL_IMAGE)
    if options.kernel_image and options.kernel_debs:
        raise UsageError(
            "a kernel comes from --kernel-image or from --kernel-deb, not from both.", where="--kernel-image"
        )
    given: list[tuple[str, Path | None, Callable[[Path, str, bytes], None]]] = [
        ("--runtime-binary", options.runtime_binary, _check_program),
        ("--containerd-binary", options.containerd_binary, _check_program),
        ("--containerd-config", options.containerd_config, _check_config),
        *(("--runtime-deb", path, _check_deb) for path in options.runtime_debs),
        *(("--kernel-deb", path, _check_deb) for path in options.kernel_debs),
        ("--kernel-image", options.kernel_image, _check_kernel),
        ("--initrd", options.initrd, _check_initrd),
    ]
    brought = tuple(_brought(option, path, check) for option, path, check in given if path is not None)
    return Choices(options=options, brought=brought)


KERNEL_IMAGE = "Name it with --kernel-image."


def passes_hugetlb(config: bytes) -> bool:
    """Whether containerd with this configuration passes huge page limits on; its default is not to."""
    plugins = tomllib.loads(config.decode()).get("plugins", {})
    names = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
    return any(plugins.get(name, {}).get(HUGETLB) is False for name in names)


def _brought(option: str, path: Path, check: Callable[[Path, str, bytes], None]) -> Brought:
    data = _read(path, option)
    check(path, option, data)
    return Brought(option=option, path=path.absolute(), sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def _read(path: Path, option: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"'{path}' is not a file.", where=option, next_step="Name the file itself.")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.", where=option) from error


def _check_program(path: Path, option: str, data: bytes) -> None:
    if not os.access(path, os.X_OK):
        raise UsageError(f"'{path}' is not executable.", where=option, next_step=f"chmod +x '{path}'")
    if data.startswith(b"\x7fELF"):
        if data[18:20] != X86_64:
            raise UsageError(f"'{path}' is built for another CPU than x86-64, which the machines have.", where=option)
    elif not data.startswith(b"#!"):
        raise UsageError(f"'{path}' is neither a program (ELF) nor a script (#!).", where=option)


def _check_config(path: Path, option: str, data: bytes) -> None:
    try:
        tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"'{path}' is not TOML: {error}.", where=option) from error


def _check_deb(path: Path, option: str, data: bytes) -> None:
    if not data.startswith(b"!<arch>\ndebian-binary"):
        raise UsageError(f"'{path}' is not a Debian package.", where=option)


def _check_kernel(path: Path, option: str, data: bytes) -> None:
    if data[0x202:0x206] != b"HdrS":
        raise UsageError(
            f"'{path}' is not a kernel that QEMU can start.",
            where=option,
            next_step="Name the bzImage (arch/x86/boot/bzImage, /boot/vmlinuz-…), not vmlinux.",
        )


def _check_initrd(path: Path, option: str, data: bytes) -> None:
    starts = (
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
    if not data.startswith(starts):
        raise UsageError(f"'{path}' is not an initrd: neither a cpio archive nor a compressed one.", where=option)
