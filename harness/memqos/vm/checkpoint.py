"""Checkpoints in the cache: a booted machine's memory, disks and state, and whether all of it can be trusted.

checkpoints/PROFILE-TOPOLOGY-KEY/
├── numaN.ram           the memory of a NUMA node; sparse, mapped privately by every clone
├── state               processors and devices
├── root.qcow2          what the boot wrote to the root disk: a layer over the image
├── swapN.img           the swap disks
├── console.log         what the boot said
└── checkpoint.json     the manifest, written last

One is made whole or not at all, from a machine that was booted, prepared and warmed once. A clone never writes to these
files: it gets layers of its own over the disks. The key is computed from everything that the saved machine depends on,
so a checkpoint never has to be told that it is out of date.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memqos.clock import Deadline, utc_now
from memqos.errors import MachineryError
from memqos.target.base import Target, checked
from memqos.vm.cache.entry import Image, list_images, read_manifest, whole_digest, write_manifest
from memqos.vm.cache.store import Cache, Entry, locked_folder, need_space, no_space, remove_entry, sweep, whole_entries
from memqos.vm.host.progress import Progress, step
from memqos.vm.qemu.launch import QEMU_LOG, ROOT_OVERLAY, Ingredients, connected, launch, make_overlay, spec_of
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import Run, opened_run, started
from memqos.vm.qemu.spec import Accelerator, DiskFormat, MachineSpec, RamFiles, RamUse, qemu_arguments

__all__ = [
    "MAKING_PREFIX",
    "WARM",
    "Checkpoint",
    "Making",
    "checkpoint_key",
    "checkpoints_folder",
    "damaged_checkpoint_files",
    "discard_checkpoint",
    "ensure_checkpoint",
    "list_checkpoints",
    "load_checkpoint",
    "prune_checkpoints",
    "recheck_checkpoint",
    "restored",
    "seal_checkpoint",
    "useless_checkpoints",
]

STATE = "state"
CONSOLE = "console.log"
MANIFEST = "checkpoint.json"

KEPT_BYTES = 12 << 30
"""The most that all checkpoints together may take; beyond it the least recently used ones are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Entry):
    """A complete checkpoint, named PROFILE-TOPOLOGY-KEY.

    manifest: checkpoint.json: image, profile, topology, created, seconds (of each step of its creation), provenance (of
    the saved machine), and size, time and hash of each file.
    """

    @property
    def image(self) -> str:
        """The name of the image that its disk is a layer over."""
        return str(self.manifest["image"])

    @property
    def profile(self) -> str:
        """The name of its profile; empty if its creator did not record it."""
        return str(self.manifest.get("profile", ""))

    @property
    def topology(self) -> str:
        """The name of its topology; empty as for profile."""
        return str(self.manifest.get("topology", ""))

    @property
    def state(self) -> Path:
        """Processors and devices."""
        return self.folder / STATE

    @property
    def disk(self) -> Path:
        """The frozen root disk, qcow2."""
        return self.folder / ROOT_OVERLAY

    @property
    def console(self) -> Path:
        """What the booting machine wrote to its serial console."""
        return self.folder / CONSOLE

    @property
    def provenance(self) -> dict[str, object]:
        """The provenance of the saved machine, such as its kernel command line and runtimes."""
        known = self.manifest["provenance"]
        return {str(key): value for key, value in known.items()} if isinstance(known, dict) else {}

    @property
    def versions(self) -> dict[str, str]:
        """Version by program in it."""
        known = self.provenance.get("versions")
        return {str(name): str(version) for name, version in known.items()} if isinstance(known, dict) else {}

    @property
    def has_its_disk_file(self) -> bool:
        """Whether it belongs to a disk image outside the cache that still exists unchanged."""
        told = self.manifest.get("disk_file")
        if not isinstance(told, dict) or not told:
            return False
        try:
            status = Path(str(told["path"])).stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (told["bytes"], told["changed"])

    @property
    def used_at(self) -> float:
        """When a machine was last restored from it, in seconds of the wall clock."""
        return (self.folder / MANIFEST).stat().st_mtime

    def touch(self) -> None:
        """Record that it is being used now."""
        os.utime(self.folder / MANIFEST)


def checkpoint_key(argv: Sequence[str], facts: Mapping[str, object]) -> str:
    """12 hexadecimal digits that change with anything the saved machine depends on.

    argv: QEMU's argument list with placeholders for the paths of one run. facts: the rest, as JSON: QEMU's version, the
    image, what the user put into the machine.
    """
    text = json.dumps({"argv": list(argv), "facts": facts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def checkpoints_folder(cache: Cache) -> Path:
    """The folder of the cache's checkpoints; only readable by its owner, since they hold a machine's whole memory."""
    return cache.folder("checkpoints", mode=0o700)


def seal_checkpoint(folder: Path, facts: Mapping[str, object]) -> None:
    """Turn the folder into a checkpoint: freeze its files, and write the manifest."""
    whole = {file.name: whole_digest(file) for file in sorted(folder.iterdir())}
    write_manifest(folder / MANIFEST, {**facts, "whole": whole}, mode=0o400, times=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint in a folder, or None if it is incomplete or changed."""
    manifest = read_manifest(folder / MANIFEST, needed=frozenset({STATE, ROOT_OVERLAY}))
    return None if manifest is None else Checkpoint(folder=folder, manifest=manifest)


def damaged_checkpoint_files(checkpoint: Checkpoint) -> list[str]:
    """The files that changed since the checkpoint was created, by their whole content; takes seconds.

    For one from before whole files were hashed: all of its files.
    """
    files, whole = checkpoint.manifest["files"], checkpoint.manifest.get("whole")
    names = sorted(files) if isinstance(files, dict) else []
    known = whole if isinstance(whole, dict) else {}
    return [name for name in names if not _holds(checkpoint.folder / name, known.get(name))]


def _holds(path: Path, digest: object) -> bool:
    try:
        return digest is not None and whole_digest(path) == digest
    except OSError:
        return False


def list_checkpoints(cache: Cache) -> Iterator[Checkpoint]:
    """The complete checkpoints, by name; damaged ones and those under construction are skipped."""
    return whole_entries(checkpoints_folder(cache), load_checkpoint)


def useless_checkpoints(cache: Cache, *, images: frozenset[str], kept_bytes: int = KEPT_BYTES) -> list[Path]:
    """Unusable checkpoints, and the least recently used ones beyond `kept_bytes`; by name.

    images: the names of the complete images: a checkpoint without its image, or a damaged one, is unusable.
    """
    whole = {one.name: one for one in list_checkpoints(cache) if one.image in images or one.has_its_disk_file}
    folders = [path for path in checkpoints_folder(cache).iterdir() if not path.name.startswith(".")]
    doomed = [folder for folder in folders if folder.name not in whole]
    room = kept_bytes
    for checkpoint in sorted(whole.values(), key=lambda one: one.used_at, reverse=True):
        room -= checkpoint.used_bytes
        if room < 0:
            doomed.append(checkpoint.folder)
    return sorted(doomed)


def prune_checkpoints(cache: Cache, *, images: frozenset[str], kept_bytes: int = KEPT_BYTES) -> list[str]:
    """Remove these checkpoints; returns their names."""
    doomed = useless_checkpoints(cache, images=images, kept_bytes=kept_bytes)
    for folder in doomed:
        remove_entry(folder)
    return [folder.name for folder in doomed]


MAKING_PREFIX = ".making-"

NEEDED_BYTES = 1 << 30
"""What a machine writes of its memory and disks until it is ready, plus a margin."""

WARM_SECONDS = 60
SAVE_SECONDS = 60

FULL_BYTES = 16 << 20
"""With less room than this a disk counts as full."""

NOWHERE = Path("/memqos")
"""Placeholder for the folders of one run in the argument list from which a key is computed."""

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
"""Reads the programs that every test needs into the guest's page cache, which clones share; nothing else changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The ingredients of a checkpoint.

    contents: what the user put into the machine, by name, with hashes of files: anything that makes it another one.
    prepare: installs it, once the machine has booted; what it adds to the machine's provenance is stored. boot_seconds:
    how long the boot may take. warm: the last command before the machine is saved, "" for that of memqos's own images.
    disk_file: path, size in bytes and modification time in ns of a disk image outside the cache; empty for one in it.
    """

    ingredients: Ingredients
    image: Image
    contents: Mapping[str, object]
    prepare: Callable[[Machine], None]
    boot_seconds: float
    warm: str = ""
    disk_file: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The entry's name: profile, topology, and the key."""
        kernel = [path for path in (self.ingredients.kernel, self.ingredients.initrd) if path is not None]
        facts = {
            "qemu": self.ingredients.qemu.version_text,
            "image": [self.image.name, str(self.image.folder.resolve()), _digest(dict(self.image.manifest))],
            "files": [_file_digest(path) for path in kernel if path.parent != self.image.folder],
            "processor": _processor() if self.ingredients.accelerator is Accelerator.KVM else "",
            "contents": dict(self.contents),
            "guest code": self.warm or WARM,
            # Omitted if empty: an older memqos does not have it.
            **({"disk file": dict(self.disk_file)} if self.disk_file else {}),
            **({"seed": hashlib.sha256(self.ingredients.seed).hexdigest()} if self.ingredients.seed else {}),
        }
        spec = replace(
            spec_of(self.ingredients, sockets=NOWHERE, disks=NOWHERE),
            serial_log=NOWHERE / CONSOLE,
            kernel=None if self.ingredients.kernel is None else NOWHERE,
            initrd=None if self.ingredients.initrd is None else NOWHERE,
            ram=RamFiles(folder=NOWHERE, use=RamUse.SAVED),
        )
        return f"{self.ingredients.name}-{checkpoint_key(qemu_arguments(spec, Path('qemu')), facts)}"


def ensure_checkpoint(making: Making, cache: Cache, *, progress: Progress) -> Checkpoint:
    """The checkpoint, created now if the cache has no valid one.

    Raises NoSpaceError if there is no room for it, MachineError if the machine does not come up; then the cache is
    unchanged.
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
    """Remove a checkpoint that cannot be restored, unless another one has already replaced it."""
    waiting = f"waiting for another process that is creating the checkpoint '{checkpoint.name}'"
    with cache.lock(f"checkpoint-{checkpoint.name}", progress=progress, waiting=waiting):
        found = load_checkpoint(checkpoint.folder)
        if found is None or found.manifest == checkpoint.manifest:
            with contextlib.suppress(FileNotFoundError):
                remove_entry(checkpoint.folder)


def recheck_checkpoint(checkpoint: Checkpoint, cache: Cache, *, progress: Progress) -> bool:
    """Whether a checkpoint is undamaged, after its machine failed; a damaged one is removed. A note says which."""
    if (now := load_checkpoint(checkpoint.folder)) is None or now.manifest != checkpoint.manifest:
        # Another process may have found the damage, or needed room.
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
            checked(
                machine.target.run(["sh", "-c", making.warm or WARM], deadline=Deadline.after(WARM_SECONDS)),
                where="the warm-up",
            )
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
            "disk_file": dict(making.disk_file),
        }
        seal_checkpoint(folder, facts)


@contextlib.contextmanager
def _seeing_a_full_disk(folder: Path) -> Iterator[None]:
    """Turn QEMU's death by a bus error, after its memory's file found no room, into the error for that."""
    try:
        yield
    except (MachineryError, OSError) as error:
        free = shutil.disk_usage(folder).free
        if free < FULL_BYTES:
            raise no_space(folder, free=free, needed=NEEDED_BYTES) from error
        raise


def _processor() -> str:
    """The facts of this host that `-cpu host` depends on: its CPU model and features, and the kernel."""
    lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    kept = [line for line in lines if line.startswith(("vendor_id", "model", "stepping", "microcode", "flags"))]
    return "\n".join([platform.release(), *kept])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


RESUME_SECONDS = 20

WAKE = 'printf %s "$1" >/dev/urandom; exec date --utc --set="@$2"'
"""The guest's first command. On kernels without vmgenid the clone gets at least this entropy of its own."""

CLOCK_SECONDS = 0.5
"""The tolerated error of the guest's clock: the time that setting it took."""

CLOCK_TRIES = 3


@contextlib.contextmanager
def restored(
    ingredients: Ingredients, checkpoint: Checkpoint, *, cache: Cache, deadline: Deadline
) -> Iterator[Machine]:
    """A clone of a checkpoint's machine, ready, with the right time and its own entropy; it is removed completely.

    ingredients: those of the checkpoint, except for where logs go. The machine's provenance says after how many seconds
    it was running, and had run its first command.

    Raises MachineryError, with the cause, if it does not come to answer.
    """
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(opened_run(cache, keepable=ingredients.keepable, doomed=ingredients.doomed))
        machine = stack.enter_context(_resumed(ingredients, checkpoint, run))
        seconds = {"running": round(deadline.elapsed, 3)}
        target = stack.enter_context(connected(machine, run, ingredients, deadline=deadline))
        _wake(machine, target, deadline)
        seconds["answered"] = round(deadline.elapsed, 3)
        machine.note({**checkpoint.provenance, "restore_seconds": seconds})
        machine.contents.versions = checkpoint.versions
        machine.checkpoint_name = checkpoint.name
        machine.ready(target)
        yield machine


@contextlib.contextmanager
def _resumed(ingredients: Ingredients, checkpoint: Checkpoint, run: Run) -> Iterator[Machine]:
    """A machine that continues where the checkpoint stopped; its console's file begins with the boot's."""
    spec = _clone_spec(spec_of(ingredients, sockets=run.sockets, disks=run.disks), checkpoint)
    make_overlay(checkpoint.disk, spec.disk, base_format=DiskFormat.QCOW2)
    for path in spec.swap_disks:
        make_overlay(checkpoint.folder / path.with_suffix(".img").name, path)
    own = [*([spec.seed] if spec.seed else []), *([spec.flash.variables] if spec.flash else [])]
    for path in own:
        shutil.copyfile(checkpoint.folder / path.name, path)
        path.chmod(0o600)
    shutil.copyfile(checkpoint.console, spec.serial_log)
    machine = Machine(spec, qemu=ingredients.qemu, group=run.group, qemu_log=ingredients.log_dir / QEMU_LOG)
    with started(machine):
        checkpoint.touch()
        machine.resume(checkpoint.state, deadline=Deadline.after(RESUME_SECONDS))
        yield machine


def _clone_spec(spec: MachineSpec, checkpoint: Checkpoint) -> MachineSpec:
    return replace(
        spec,
        swap_disks=tuple(path.with_suffix(".qcow2") for path in spec.swap_disks),
        swap_format=DiskFormat.QCOW2,
        ram=RamFiles(folder=checkpoint.folder, use=RamUse.CLONED),
    )


def _wake(machine: Machine, target: Target, deadline: Deadline) -> None:
    """Set the guest's clock, which stood still since the checkpoint, and stir its entropy.

    The clock then lags by at most the command's time; on a busy host it is set again.
    """
    with machine.failing("its clock was being set"):
        for _ in range(CLOCK_TRIES):
            argv = ["sh", "-c", WAKE, "sh", secrets.token_hex(32), f"{utc_now().timestamp():.6f}"]
            if checked(target.run(argv, deadline=deadline), where=target.address).seconds <= CLOCK_SECONDS:
                return
