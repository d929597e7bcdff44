"""One checkpoint in the cache: a booted machine's memory, disks and state, and whether all of it can be trusted.

checkpoints/PROFILE-TOPOLOGY-KEY/
├── zoneN.ram           the memory of a NUMA zone; sparse, mapped privately by every clone
├── state               processors and devices
├── root.qcow2          what the boot wrote to the root disk: a layer over the image
├── swapN.img           the swap disks
├── console.log         what the boot said
└── checkpoint.json     the manifest, written last

A clone never writes to these files: it gets layers of its own over the disks. The key is computed from everything that
the saved machine depends on, so a checkpoint never has to be told that it is out of date.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.vm.cache.entry import read_manifest, whole_digest, write_manifest
from memqos.vm.cache.store import Cache, Entry, remove_entry, whole_entries
from memqos.vm.qemu.launch import ROOT_OVERLAY

__all__ = [
    "CONSOLE",
    "STATE",
    "Checkpoint",
    "checkpoint_key",
    "checkpoints_folder",
    "damaged_checkpoint_files",
    "list_checkpoints",
    "load_checkpoint",
    "prune_checkpoints",
    "seal_checkpoint",
    "useless_checkpoints",
]

STATE = "state"
CONSOLE = "console.log"
MANIFEST = "checkpoint.json"

KEPT_BYTES = 12 << 30
"""What all checkpoints together may take; beyond it those that were not used for longest go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Entry):
    """A whole checkpoint, named PROFILE-TOPOLOGY-KEY.

    manifest: checkpoint.json: image, profile, topology, created, seconds (what making it took, by step), provenance
    (of the machine that was saved), and size, time and hash of each file.
    """

    @property
    def image(self) -> str:
        """The name of the image whose disk the checkpoint's own is a layer of."""
        return str(self.manifest["image"])

    @property
    def profile(self) -> str:
        """The name of the profile that it is of; empty if its maker did not say."""
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
        """What was known of the machine that was saved, its kernel command line and runtimes among it."""
        known = self.manifest["provenance"]
        return {str(key): value for key, value in known.items()} if isinstance(known, dict) else {}

    @property
    def versions(self) -> dict[str, str]:
        """Version by program, of those that were in it."""
        known = self.provenance.get("versions")
        return {str(name): str(version) for name, version in known.items()} if isinstance(known, dict) else {}

    @property
    def used_at(self) -> float:
        """When a machine was last restored from it, in seconds of the wall clock."""
        return (self.folder / MANIFEST).stat().st_mtime

    def touch(self) -> None:
        """Note that it is being used now."""
        os.utime(self.folder / MANIFEST)


def checkpoint_key(argv: Sequence[str], facts: Mapping[str, object]) -> str:
    """12 hexadecimal digits that change with anything the saved machine depends on.

    argv: QEMU's argument list with stand-ins for the paths of one run. facts: the rest, as JSON can say it: QEMU's
    version, the image, what a person put into the machine.
    """
    text = json.dumps({"argv": list(argv), "facts": facts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def checkpoints_folder(cache: Cache) -> Path:
    """Where the cache's checkpoints are; its owner's only, since they hold a machine's whole memory."""
    return cache.folder("checkpoints", mode=0o700)


def seal_checkpoint(folder: Path, facts: Mapping[str, object]) -> None:
    """Make the folder a checkpoint: its files are frozen, and the manifest is written."""
    whole = {file.name: whole_digest(file) for file in sorted(folder.iterdir())}
    write_manifest(folder / MANIFEST, {**facts, "whole": whole}, mode=0o400, times=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint in a folder, or None if it is not whole or not as it was written."""
    manifest = read_manifest(folder / MANIFEST, needed=frozenset({STATE, ROOT_OVERLAY}))
    return None if manifest is None else Checkpoint(folder=folder, manifest=manifest)


def damaged_checkpoint_files(checkpoint: Checkpoint) -> list[str]:
    """The files that are not what they were when the checkpoint was made, by all that is in them; takes seconds.

    Of one that was made before whole files were hashed nothing can be vouched for: all of its files.
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
    """The whole checkpoints, by name; damaged ones and those under construction are passed over."""
    return whole_entries(checkpoints_folder(cache), load_checkpoint)


def useless_checkpoints(cache: Cache, *, images: frozenset[str], kept_bytes: int = KEPT_BYTES) -> list[Path]:
    """What cannot be used any more, and the longest unused beyond `kept_bytes`; by name.

    images: the names of the whole images: a checkpoint without its image, or a damaged one, is of no use.
    """
    whole = {checkpoint.name: checkpoint for checkpoint in list_checkpoints(cache) if checkpoint.image in images}
    folders = [path for path in checkpoints_folder(cache).iterdir() if not path.name.startswith(".")]
    doomed = [folder for folder in folders if folder.name not in whole]
    room = kept_bytes
    for checkpoint in sorted(whole.values(), key=lambda one: one.used_at, reverse=True):
        room -= checkpoint.used_bytes
        if room < 0:
            doomed.append(checkpoint.folder)
    return sorted(doomed)


def prune_checkpoints(cache: Cache, *, images: frozenset[str], kept_bytes: int = KEPT_BYTES) -> list[str]:
    """Remove the checkpoints that are of no use; their names."""
    doomed = useless_checkpoints(cache, images=images, kept_bytes=kept_bytes)
    for folder in doomed:
        remove_entry(folder)
    return [folder.name for folder in doomed]
