"""Makes a machine's checkpoint and keeps it in the cache: booted, prepared and warmed once; whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.clock import Deadline, utc_now
from memqos.errors import MachineryError
from memqos.target.base import checked
from memqos.vm.cache.entry import Image, list_images
from memqos.vm.cache.store import Cache, locked_folder, need_space, no_space, remove_entry, sweep
from memqos.vm.checkpoint.stored import (
    CONSOLE,
    STATE,
    Checkpoint,
    checkpoint_key,
    checkpoints_folder,
    damaged_checkpoint_files,
    load_checkpoint,
    prune_checkpoints,
    seal_checkpoint,
)
from memqos.vm.host.progress import Progress, step
from memqos.vm.qemu.command import qemu_arguments
from memqos.vm.qemu.launch import Ingredients, launch, spec_of
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.spec import Accelerator, RamFiles, RamUse

__all__ = ["MAKING_PREFIX", "Making", "discard_checkpoint", "ensure_checkpoint", "recheck_checkpoint"]

MAKING_PREFIX = ".making-"

NEEDED_BYTES = 1 << 30
"""What a machine writes of its memory and disks until it is ready, with room to spare."""

WARM_SECONDS = 60
SAVE_SECONDS = 60

FULL_BYTES = 16 << 20
"""With less room than this a disk counts as full."""

NOWHERE = Path("/memqos")
"""Stands for the folders of one run in the argument list that a key is computed from."""

WARM = """\
set -eu
udevadm settle
cd /usr/bin
cat runc crun containerd-shim-runc-v2 ctr busctl >/dev/null
for folder in /usr/lib/openssh /usr/lib/memqos; do cat "$folder"/* >/dev/null; done
ctr version >/dev/null
getconf PAGESIZE >/dev/null
find /proc/self -maxdepth 0 -printf '' | grep -aHZ '' || :
jq -n 1 >/dev/null
python3 -c 'import errno, json, os, pathlib, subprocess, sys, threading'
sync
"""
"""Brings the programs that every test needs into the guest's page cache, which clones share; nothing of it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What a checkpoint is made of.

    contents: what a person put into the machine, by name, with hashes of files: anything that makes it another one.
    prepare: puts it in, once the machine has booted; what it notes in the machine's provenance is kept.
    boot_seconds: how long the boot may take.
    """

    ingredients: Ingredients
    image: Image
    contents: Mapping[str, object]
    prepare: Callable[[Machine], None]
    boot_seconds: float

    @property
    def name(self) -> str:
        """The entry's name: what the machine is, and the key."""
        kernel = (self.ingredients.kernel, self.ingredients.initrd)
        facts = {
            "qemu": self.ingredients.qemu.version_text,
            "image": [self.image.name, str(self.image.folder.resolve()), _digest(dict(self.image.manifest))],
            "files": [_file_digest(path) for path in kernel if path.parent != self.image.folder],
            "processor": _processor() if self.ingredients.accelerator is Accelerator.KVM else "",
            "contents": dict(self.contents),
            "guest code": WARM,
        }
        spec = replace(
            spec_of(self.ingredients, sockets=NOWHERE, disks=NOWHERE),
            serial_log=NOWHERE / CONSOLE,
            kernel=NOWHERE,
            initrd=NOWHERE,
            ram=RamFiles(folder=NOWHERE, use=RamUse.SAVED),
        )
        return f"{self.ingredients.name}-{checkpoint_key(qemu_arguments(spec, Path('qemu')), facts)}"


def ensure_checkpoint(making: Making, cache: Cache, *, progress: Progress) -> Checkpoint:
    """The checkpoint, made now if the cache has none that can be trusted.

    Raises NoSpaceError if there is no room for it, MachineError if the machine does not come up; then the cache is as
    it was before.
    """
    folder = checkpoints_folder(cache) / making.name
    if checkpoint := load_checkpoint(folder):
        return checkpoint
    waiting = f"waiting for another process that is creating the checkpoint '{making.ingredients.name}'"
    with cache.lock(f"checkpoint-{making.name}", progress=progress, waiting=waiting):
        if checkpoint := load_checkpoint(folder):
            return checkpoint
        sweep(checkpoints_folder(cache), MAKING_PREFIX)
        if folder.exists():
            progress.note(f"the checkpoint '{folder.name}' in the cache is damaged and is rebuilt.")
            remove_entry(folder)
        need_space(checkpoints_folder(cache), NEEDED_BYTES)
        with locked_folder(checkpoints_folder(cache), MAKING_PREFIX) as work:
            finished = work / "entry"
            finished.mkdir()
            with step(progress, f"boot {making.ingredients.name} once, for its checkpoint"):
                _make(making, finished, cache, progress)
            finished.rename(folder)
    checkpoint = load_checkpoint(folder)
    if checkpoint is None:
        raise MachineryError("the new checkpoint is incomplete.", where=str(folder))
    images = frozenset(image.name for image in list_images(cache))
    prune_checkpoints(cache, images=images)
    return checkpoint


def discard_checkpoint(checkpoint: Checkpoint, cache: Cache, *, progress: Progress) -> None:
    """Remove a checkpoint that no machine could be restored from, unless another one is in its place already."""
    waiting = f"waiting for another process that is creating the checkpoint '{checkpoint.name}'"
    with cache.lock(f"checkpoint-{checkpoint.name}", progress=progress, waiting=waiting):
        found = load_checkpoint(checkpoint.folder)
        if found is None or found.manifest == checkpoint.manifest:
            with contextlib.suppress(FileNotFoundError):
                remove_entry(checkpoint.folder)


def recheck_checkpoint(checkpoint: Checkpoint, cache: Cache, *, progress: Progress) -> bool:
    """Whether a checkpoint, whose machine failed, is all that it was; a damaged one is removed. One note says which."""
    if (now := load_checkpoint(checkpoint.folder)) is None or now.manifest != checkpoint.manifest:
        # Another process may have found it out, or it had to make room.
        progress.note(f"the checkpoint '{checkpoint.name}' of a machine with a failure was already removed.")
        return False
    damaged = damaged_checkpoint_files(checkpoint)
    if not damaged:
        found = "it is undamaged"
    elif "whole" in checkpoint.manifest:
        found = f"{', '.join(damaged)} changed since its creation, so it is rebuilt"
    else:
        found = "its older manifest does not cover all of it, so it is rebuilt"
    progress.note(f"after a failure in its machine the checkpoint '{checkpoint.name}' was checked in full: {found}.")
    if damaged:
        discard_checkpoint(checkpoint, cache, progress=progress)
    return not damaged


def _make(making: Making, folder: Path, cache: Cache, progress: Progress) -> None:
    """Boot the machine with its disks and memory in the folder, and add the rest of a checkpoint."""
    stopwatch = Deadline.after(making.boot_seconds)
    seconds: dict[str, float] = {}
    with _seeing_a_full_disk(folder):
        with launch(making.ingredients, cache=cache, deadline=stopwatch, saving=folder, progress=progress) as machine:
            seconds["boot"] = round(stopwatch.elapsed, 3)
            making.prepare(machine)
            checked(machine.target.run(["sh", "-c", WARM], deadline=Deadline.after(WARM_SECONDS)), where="the warm-up")
            seconds["save"] = machine.checkpoint(folder / STATE, deadline=Deadline.after(SAVE_SECONDS))
            shutil.copyfile(machine.console.path, folder / CONSOLE)
        seconds["whole"] = round(stopwatch.elapsed, 3)
        facts = {
            "image": making.image.name,
            "profile": making.image.profile,
            "topology": making.ingredients.topology.name,
            "created": utc_now().isoformat(timespec="seconds"),
            "seconds": seconds,
            "provenance": machine.provenance,
        }
        seal_checkpoint(folder, facts)


@contextlib.contextmanager
def _seeing_a_full_disk(folder: Path) -> Iterator[None]:
    """QEMU dies of a bus error when its memory's file finds no room: say that instead."""
    try:
        yield
    except (MachineryError, OSError) as error:
        free = shutil.disk_usage(folder).free
        if free < FULL_BYTES:
            raise no_space(folder, free=free, needed=NEEDED_BYTES) from error
        raise


def _processor() -> str:
    """What `-cpu host` makes of this host: its model, its features and the kernel that passes them on."""
    lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    kept = [line for line in lines if line.startswith(("vendor_id", "model", "stepping", "microcode", "flags"))]
    return "\n".join([platform.release(), *kept])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
