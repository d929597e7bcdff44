"""What a person chooses of a machine and puts into it, checked before anything is started.

What changes the guest before it is saved is in `Choices.fingerprint` or in the kernel's command line, so that nothing
that was saved of one machine is taken for another. The rest, in LATE, is put into each clone.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError
from memqos.model.node import CgroupVersion
from memqos.vm.brought import (
    AskedTree,
    Brought,
    BroughtTree,
    bring,
    bring_tree,
    check_config,
    check_deb,
    check_initrd,
    check_kernel,
    check_program,
)
from memqos.vm.profile import Profile

__all__ = ["BootOptions", "Choices", "check_options", "kernel_words"]

RECURSIVEPROT_OFF = "memqos.recursiveprot=0"
"""Read by the guest's memqos-cgroup.service."""

HUGETLB = "disable_hugetlb_controller"

LATE = frozenset({"--runtime-binary", "--containerd-binary", "--containerd-config"})
"""The options whose files are put into each machine that runs: that takes seconds, where a boot takes a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOptions:
    """What a person chooses of a machine, beside its profile and topology. None and empty leave the image's own.

    runtime_binary: takes the place of the OCI runtime `runtime_name`, and containerd_binary that of containerd; the
    image's own stay beside them as NAME.dist. containerd_config: takes the place of /etc/containerd/config.toml.
    runtime_debs, guest_debs, kernel_debs: Debian packages that are installed, all of a kind at once.
    guest_files: what gets a place of its own. guest_units: systemd units that are enabled and started then.
    kernel_image, initrd: the kernel that QEMU starts; an initrd alone makes no sense, a kernel alone gets the image's.
    cgroup: which hierarchy systemd mounts. recursiveprot: whether cgroup v2 has the option memory_recursiveprot.
    checkpoint: restore the machine from a checkpoint, which is made if there is none; otherwise boot it.
    """

    runtime_binary: Path | None = None
    runtime_name: str = "runc"
    containerd_binary: Path | None = None
    containerd_config: Path | None = None
    runtime_debs: tuple[Path, ...] = ()
    guest_files: tuple[AskedTree, ...] = ()
    guest_units: tuple[str, ...] = ()
    guest_debs: tuple[Path, ...] = ()
    kernel_debs: tuple[Path, ...] = ()
    kernel_image: Path | None = None
    initrd: Path | None = None
    cgroup: CgroupVersion = CgroupVersion.V2
    recursiveprot: bool = True
    checkpoint: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Boot options whose files were read and found fit; trees: what gets a place of its own."""

    options: BootOptions
    brought: tuple[Brought, ...]
    trees: tuple[BroughtTree, ...] = ()

    def of(self, option: str) -> tuple[Brought, ...]:
        """The files that this option named."""
        return tuple(file for file in self.brought if file.option == option)

    @property
    def saved(self) -> tuple[Brought, ...]:
        """The files that a checkpoint of the machine holds, or that it boots from."""
        return tuple(file for file in self.brought if file.option not in LATE)

    @property
    def files(self) -> tuple[Brought | BroughtTree, ...]:
        """All that was brought."""
        return (*self.brought, *self.trees)

    @property
    def late(self) -> tuple[Brought, ...]:
        """The files that are put into each machine."""
        return tuple(file for file in self.brought if file.option in LATE)

    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits that change with the content and use of every saved file; empty without any.

        The order of packages of one kind counts, paths do not. cgroup and recursiveprot are words of the kernel's
        command line, and not in here.
        """
        facts: list[list[object]] = [[file.option, file.sha256] for file in self.saved]
        facts += [[tree.option, tree.sha256, tree.destination, tree.mode] for tree in self.trees]
        facts += [["--guest-unit", unit] for unit in self.options.guest_units]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12] if facts else ""

    @property
    def provenance(self) -> Mapping[str, object]:
        """What a bundle says of the saved files, by option as a Python identifier; empty without any."""
        options = dict.fromkeys(file.option for file in self.saved)
        told: dict[str, object] = {
            option.removeprefix("--").replace("-", "_"): [file.facts for file in self.of(option)] for option in options
        }
        if self.trees:
            told["guest_file"] = [tree.facts for tree in self.trees]
        if self.options.guest_units:
            told["guest_unit"] = list(self.options.guest_units)
        return told


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
                "cgroup v1 has no memory_recursiveprot.",
                where="--no-recursiveprot",
                next_step="Leave one of the two options out.",
            )
        return (*words, *profile.cgroup_v1.kernel_arguments)
    return words if options.recursiveprot else (*words, RECURSIVEPROT_OFF)


def check_options(options: BootOptions) -> Choices:
    """The options with every file read once; raises UsageError naming the option and what is wrong with its file."""
    if options.initrd and not options.kernel_image:
        raise UsageError("an initrd needs its kernel.", where="--initrd", next_step=KERNEL_IMAGE)
    if options.kernel_image and options.kernel_debs:
        raise UsageError("give --kernel-image or --kernel-deb, not both.", where="--kernel-image")
    given: list[tuple[str, Path | None, Callable[[Path, str, bytes], None]]] = [
        ("--runtime-binary", options.runtime_binary, check_program),
        ("--containerd-binary", options.containerd_binary, check_program),
        ("--containerd-config", options.containerd_config, check_config),
        *(("--runtime-deb", path, check_deb) for path in options.runtime_debs),
        *(("--guest-deb", path, check_deb) for path in options.guest_debs),
        *(("--kernel-deb", path, check_deb) for path in options.kernel_debs),
        ("--kernel-image", options.kernel_image, check_kernel),
        ("--initrd", options.initrd, check_initrd),
    ]
    brought = tuple(bring(option, path, check) for option, path, check in given if path is not None)
    trees = tuple(bring_tree("--guest-file", file) for file in options.guest_files)
    places = [tree.destination for tree in trees if not tree.is_folder]
    for place in places:
        if places.count(place) > 1:
            raise UsageError(f"'{place}' is the destination of several files.", where="--guest-file")
    return Choices(options=options, brought=brought, trees=trees)


KERNEL_IMAGE = "Name it with --kernel-image."


def passes_hugetlb(config: bytes) -> bool:
    """Whether containerd with this configuration passes huge page limits on; its default is not to."""
    plugins = tomllib.loads(config.decode()).get("plugins", {})
    names = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
    return any(plugins.get(name, {}).get(HUGETLB) is False for name in names)
