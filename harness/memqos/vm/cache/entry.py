"""One image in the cache: its files, its manifest, and whether it is complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import utc_now
from memqos.vm.cache.store import Cache, Entry, remove_entry, whole_entries
from memqos.vm.host.progress import Progress

__all__ = [
    "DISK",
    "INITRD",
    "KERNEL",
    "KNOWN_HOSTS",
    "MANIFEST",
    "Image",
    "damaged_image_files",
    "images_of",
    "list_images",
    "load_image",
    "read_manifest",
    "recheck_image",
    "seal_image",
    "sparse_hash",
    "whole_digest",
    "write_manifest",
]

WHOLE_BYTES = 4 << 20
"""Files up to this size are hashed whole."""

SAMPLES = 64
SAMPLE_BYTES = 4096
"""Number and size of the evenly spread samples of a larger file: a millisecond instead of seconds."""


BLOCK_BYTES = 1 << 20


def whole_digest(path: Path) -> str:
    """A hash of a file's whole content, however sparse it is: seconds for a machine's memory."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size, place = os.fstat(file.fileno()).st_size, 0
        while place < size:
            try:
                place = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # only a hole up to the end
                    raise
                break
            place -= place % BLOCK_BYTES
            block = os.pread(file.fileno(), BLOCK_BYTES, place)
            # A hole reads as zeros, and zeros may be written: both are the same content.
            if any(block):
                digest.update(place.to_bytes(8))
                digest.update(block)
            place += BLOCK_BYTES
        digest.update(size.to_bytes(8))
    return digest.hexdigest()


def write_manifest(path: Path, facts: Mapping[str, object], *, mode: int, times: bool = False) -> None:
    """Freeze the files of the manifest's folder, sync them to disk, and then write the manifest.

    Records each file's size and a digest: of all of a small file, of samples of a large one. Checking those takes
    milliseconds and detects what a crash of the host or an interrupted copy leaves; only the hash of the whole file
    detects a single changed bit. path: the manifest's own. facts: its content besides schema and files. mode: the
    files' permissions. times: also record the files' modification times, so that a copied entry is invalid.
    """
    files = {}
    for file in sorted(path.parent.iterdir()):
        file.chmod(mode)
        with file.open("rb") as content:
            os.fsync(content.fileno())
        mark = _mark(file)
        files[file.name] = mark if times else {key: mark[key] for key in ("bytes", "sha256")}
    path.write_text(json.dumps({"schema": 1, **facts, "files": files}, indent=2, sort_keys=True) + "\n")


def read_manifest(path: Path, *, needed: frozenset[str]) -> dict[str, object] | None:
    """The content of the manifest; None without one, if a file differs from it, or if a needed file is not in it.

    needed: names of files.
    """
    try:
        manifest = json.loads(path.read_bytes())
        files = manifest["files"]
        if not needed <= files.keys():
            return None
        for name, told in files.items():
            mark = _mark(path.with_name(name))
            if {"bytes", "sha256"} - told.keys() or any(mark[key] != value for key, value in told.items()):
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {str(name): value for name, value in manifest.items()}


def _mark(path: Path) -> dict[str, object]:
    """The record of a file: its size, modification time, and the hash of its content or of samples of it."""
    status = path.stat()
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if status.st_size <= WHOLE_BYTES:
            digest.update(file.read())
        else:
            for number in range(SAMPLES):
                digest.update(os.pread(file.fileno(), SAMPLE_BYTES, status.st_size * number // SAMPLES))
    return {"bytes": status.st_size, "changed": status.st_mtime_ns, "sha256": digest.hexdigest()}


DISK = "disk.img"
KERNEL = "vmlinuz"
INITRD = "initrd.img"
KNOWN_HOSTS = "known_hosts"
MANIFEST = "image.json"

BLOCK = 1 << 20

FILES = frozenset({DISK, KERNEL, INITRD, KNOWN_HOSTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Entry):
    """A complete image, named PROFILE-FINGERPRINT. Its files are frozen: machines write to overlays.

    manifest: the content of image.json: profile, suite, created, versions, packages, and sizes and hashes of the files;
    boot: kernel and initrd; disk: the root disk.
    """

    @property
    def profile(self) -> str:
        """The profile that it was built from."""
        return str(self.manifest["profile"])

    @property
    def architecture(self) -> str:
        """In container images' spelling; an image without one is of amd64."""
        return str(self.manifest.get("architecture", "amd64"))

    @property
    def versions(self) -> dict[str, str]:
        """Version by component: kernel, systemd, containerd, runc, crun."""
        versions = self.manifest["versions"]
        return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}

    def kernel_has(self, option: str) -> bool | None:
        """Whether its kernel was built with an option such as CONFIG_ZSWAP; None if the manifest does not have it."""
        config = self.manifest.get("kernel_config")
        return config.get(option, "n") != "n" if isinstance(config, dict) else None

    @property
    def disk(self) -> Path:
        """The root disk, raw."""
        return self.folder / DISK

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.folder / KERNEL

    @property
    def initrd(self) -> Path:
        """The kernel's initrd."""
        return self.folder / INITRD

    @property
    def known_hosts(self) -> Path:
        """The machine's host key, for ssh's UserKnownHostsFile; the host's name there is `memqos`."""
        return self.folder / KNOWN_HOSTS


def load_image(folder: Path) -> Image | None:
    """The image in a folder, or None if it is incomplete: a file is missing, or differs from the manifest."""
    manifest = read_manifest(folder / MANIFEST, needed=FILES)
    if manifest is None or not isinstance(manifest.get("profile"), str):
        return None
    return Image(folder=folder, manifest=manifest)


def seal_image(folder: Path, facts: Mapping[str, object]) -> None:
    """Turn the folder into an image: freeze its files, and write the manifest with time and hashes.

    An image may be copied to another cache, so its files' times are not compared. The hashes of kernel and initrd are
    those of sha256sum; the disk's is sparse_hash.
    """
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (KERNEL, INITRD)}
    told = {
        **facts,
        "created": utc_now().isoformat(timespec="seconds"),
        "sha256": {**hashes, DISK: sparse_hash(folder / DISK)},
    }
    write_manifest(folder / MANIFEST, told, mode=0o444)


def damaged_image_files(image: Image) -> list[str]:
    """The files that changed since the image was built, by their whole content.

    Files without a hash in an older manifest are skipped: building an image takes minutes.
    """
    known = image.manifest.get("sha256")
    told = known if isinstance(known, dict) else {}
    return [name for name in sorted(told) if not _holds(image.folder / name, told[name])]


def _holds(path: Path, digest: object) -> bool:
    try:
        found = sparse_hash(path) if path.name == DISK else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return False
    return found == digest


def sparse_hash(path: Path) -> str:
    """The SHA-256 of a file's blocks of 1 MiB that are not all zeros, each after its offset in 8 bytes.

    It depends only on the content, and its time only on the data, not on the gigabytes of holes.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size = path.stat().st_size
        offset = 0
        while offset < size:
            try:
                offset = os.lseek(file.fileno(), offset, os.SEEK_DATA) // BLOCK * BLOCK
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # only holes from here on
            block = os.pread(file.fileno(), BLOCK, offset)
            if block.count(0) != len(block):
                digest.update(offset.to_bytes(8) + block)
            offset += BLOCK
    return digest.hexdigest()


def images_of(cache: Cache, profile: str) -> list[Path]:
    """The entries of one profile, complete or not, also those derived from its image."""
    own = re.compile(rf"{re.escape(profile)}-[0-9a-f]{{12}}(-with-[0-9a-f]{{12}})?")
    return sorted(folder for folder in cache.images.iterdir() if own.fullmatch(folder.name))


def list_images(cache: Cache) -> Iterator[Image]:
    """The complete images in the cache, by name; damaged ones and those under construction are skipped."""
    return whole_entries(cache.images, load_image)


def recheck_image(image: Image, cache: Cache, *, progress: Progress) -> bool:
    """Whether an image is undamaged, after a failure in its machine; a damaged one is removed.

    It takes seconds, and notes only damage.
    """
    damaged = damaged_image_files(image)
    if not damaged:
        return True
    progress.note(
        f"after a failure in its machine the image '{image.name}' was checked in full: "
        f"{', '.join(damaged)} changed since its creation, so it is rebuilt."
    )
    waiting = f"waiting for another process that is building the image '{image.name}'"
    lock = f"image-{image.name if '-with-' in image.name else image.profile}"
    with cache.lock(lock, progress=progress, waiting=waiting):
        found = load_image(image.folder)
        if found is None or found.manifest == image.manifest:
            with contextlib.suppress(FileNotFoundError):
                remove_entry(image.folder)
    return False
