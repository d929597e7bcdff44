"""An image with another kernel: a copy of a profile's image in which a kernel's Debian packages were installed.

The guest itself installs the packages, with its own dpkg and its own tool for the initrd, so the result equals the
recipe's. It is kept in the cache like any image.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import ImageError, UsageError
from memqos.model.topology import Topology, TopologyNode
from memqos.target.base import Target, checked
from memqos.vm.cache import entry
from memqos.vm.cache.entry import Image, load_image
from memqos.vm.cache.store import Cache, client_key, locked_folder, need_space, remove_entry, sweep
from memqos.vm.guest.installing import install_packages
from memqos.vm.guest.view import kernel_config_of, packages_of, versions_of
from memqos.vm.host.programs import Qemu, find_program
from memqos.vm.host.progress import Progress, step
from memqos.vm.kernel_tree import KernelTree
from memqos.vm.options import Brought
from memqos.vm.profile import Profile
from memqos.vm.qemu.launch import Ingredients, launch
from memqos.vm.qemu.run import outliving_console
from memqos.vm.qemu.spec import Accelerator

__all__ = ["DERIVING_PREFIX", "derived_name", "ensure_derived_image"]

DERIVE_SECONDS = 600
"""Generating an initrd takes a minute under software emulation on a busy host."""

COPY_BYTES = 2 << 30
TOPOLOGY = Topology(name="provisioning", cpus=2, numa_nodes=(TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0, 1)),))
DERIVING_PREFIX = ".deriving-"

MAKE_INITRD = """
depmod "$1"
[ -e "/boot/initrd.img-$1" ] || update-initramfs -c -k "$1"
"""
"""Generates the initrd of this release's kernel, unless its package did so already."""


def derived_name(base: Image, kernel_debs: Sequence[Brought | KernelTree]) -> str:
    """The name of the entry for a base image and the packages to be installed in it, by their content."""
    digest = hashlib.sha256(" ".join(file.sha256 for file in kernel_debs).encode()).hexdigest()
    return f"{base.name}-with-{digest[:12]}"


def ensure_derived_image(
    base: Image,
    profile: Profile,
    kernel_debs: Sequence[Brought | KernelTree],
    *,
    qemu: Qemu,
    accelerator: Accelerator,
    cache: Cache,
    progress: Progress,
) -> Image:
    """The base image with the kernel of these packages; built now if the cache has no complete one.

    Raises UsageError for packages that do not install or bring no kernel, NoSpaceError, MachineError or ImageError;
    then the cache is unchanged.
    """
    folder = cache.images / derived_name(base, kernel_debs)
    waiting = "waiting for another process that is installing the same kernel in an image"
    with cache.lock(f"image-{folder.name}", progress=progress, waiting=waiting):
        if image := load_image(folder):
            return image
        prefix = f"{DERIVING_PREFIX}{folder.name}-"
        sweep(cache.images, prefix)
        if folder.exists():
            remove_entry(folder)
        need_space(cache.images, COPY_BYTES)
        with locked_folder(cache.images, prefix) as work, outliving_console(work):
            finished = work / "entry"
            finished.mkdir()
            with step(progress, f"install another kernel in {profile.name}, with its initrd"):
                copy_disk(base.disk, finished / entry.DISK)
                for name in (entry.KERNEL, entry.INITRD, entry.KNOWN_HOSTS):
                    shutil.copyfile(base.folder / name, finished / name)
                identity = client_key(cache, progress=progress)
                ingredients = ingredients_of(
                    base, profile, folder=finished, qemu=qemu, accelerator=accelerator, identity=identity
                )
                facts = install_kernel(ingredients, kernel_debs, folder=finished, cache=cache, progress=progress)
            entry.seal_image(finished, {**base.manifest, **facts, "derived_from": base.name})
            finished.rename(folder)
    image = load_image(folder)
    if image is None:
        raise ImageError("the new image is incomplete.", where=str(folder))
    return image


def ingredients_of(
    base: Image, profile: Profile, *, folder: Path, qemu: Qemu, accelerator: Accelerator, identity: Path
) -> Ingredients:
    """The machine that changes the copy in this folder: the base's kernel on the copy's own disk."""
    return Ingredients(
        name=f"{profile.name}-provisioning",
        qemu=qemu,
        accelerator=accelerator,
        topology=TOPOLOGY,
        kernel=base.kernel,
        initrd=base.initrd,
        kernel_arguments=profile.kernel_arguments,
        disk=folder / entry.DISK,
        identity=identity,
        known_hosts=folder / entry.KNOWN_HOSTS,
        log_dir=folder.parent,
        writes_through=True,
        architecture=profile.architecture,
    )


def copy_disk(base: Path, disk: Path) -> None:
    """A writable copy of a frozen disk; its holes stay holes."""
    told = subprocess.run(
        [find_program("cp"), "--sparse=always", "--reflink=auto", base, disk],
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise ImageError(f"the disk could not be copied: {told.stderr.strip()}", where=str(disk))
    disk.chmod(0o644)


def install_kernel(
    ingredients: Ingredients,
    kernel_debs: Sequence[Brought | KernelTree],
    *,
    folder: Path,
    cache: Cache,
    progress: Progress,
) -> dict[str, object]:
    """Boot the copy with its own kernel, install the packages, copy the new kernel and initrd out, and power it off.

    Returns the manifest's facts.
    """
    deadline = Deadline.after(DERIVE_SECONDS)
    with launch(ingredients, cache=cache, deadline=deadline, progress=progress) as machine:
        target = machine.target
        versions = versions_of(target, deadline=deadline)
        names = install_packages(target, kernel_debs, deadline=deadline)
        release = kernel_release(target, names, deadline=deadline)
        checked(target.run(["sh", "-euc", MAKE_INITRD, "sh", release], deadline=deadline), where=target.address)
        for name, place in ((entry.KERNEL, f"/boot/vmlinuz-{release}"), (entry.INITRD, f"/boot/initrd.img-{release}")):
            content = target.read(place, deadline=deadline)
            if content is None:
                raise ImageError(f"the packages did not install '{place}'.", where=target.address)
            (folder / name).write_bytes(content)
        packages = packages_of(target, deadline=deadline)
        config = kernel_config_of(target, release, deadline=deadline)
        machine.power_off(deadline=deadline)
    return {
        "versions": {**versions, "kernel": release},
        "kernel_config": config,
        "packages": packages,
        "kernel_debs": [file.facts for file in kernel_debs],
    }


def kernel_release(target: Target, packages: Sequence[str], *, deadline: Deadline) -> str:
    """The release of the single kernel in these installed packages; UsageError if there is none, or several."""
    listed = checked(target.run(["dpkg", "--listfiles", *packages], deadline=deadline), where=target.address).text
    found = sorted({match[1] for match in re.finditer(r"(?m)^/boot/vmlinuz-(\S+)$", listed)})
    if len(found) != 1:
        raise UsageError(
            f"the packages {', '.join(packages)} contain {len(found) or 'no'} kernels (/boot/vmlinuz-…) "
            "instead of one.",
            where="--kernel-deb",
            next_step="Give the option once for each package of one kernel: the image, and the modules if they are "
            "separate.",
        )
    return found[0]
