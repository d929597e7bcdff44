"""One image in the cache: its files, what it says of itself, and whether it is whole."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import utc_now
from memqos.vm.cache.manifest import read_manifest, write_manifest
from memqos.vm.cache.store import Cache, Entry, whole_entries

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
    "seal_image",
]

DISK = "disk.img"
KERNEL = "vmlinuz"
INITRD = "initrd.img"
KNOWN_HOSTS = "known_hosts"
MANIFEST = "image.json"

BLOCK = 1 << 20

FILES = frozenset({DISK, KERNEL, INITRD, KNOWN_HOSTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Entry):
    """A whole image, named PROFILE-FINGERPRINT. Its files are frozen: machines write to overlays.

    manifest: image.json as it was written: profile, suite, created, versions, packages, and of the files their sizes
    and hashes; what the machine brings up first (kernel, initrd) and what it runs from (disk).
    """

    @property
    def profile(self) -> str:
        """The profile that it was made of."""
        return str(self.manifest["profile"])

    @property
    def versions(self) -> dict[str, str]:
        """Version by component: kernel, systemd, containerd, runc, crun."""
        versions = self.manifest["versions"]
        return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}

    def kernel_has(self, option: str) -> bool | None:
        """Whether its kernel was built with an option such as CONFIG_ZSWAP; None if the manifest does not say."""
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
    """The image in a folder, or None if it is not whole: a file is missing, or not what the manifest says."""
    manifest = read_manifest(folder / MANIFEST, needed=FILES)
    if manifest is None or not isinstance(manifest.get("profile"), str):
        return None
    return Image(folder=folder, manifest=manifest)


def seal_image(folder: Path, facts: Mapping[str, object]) -> None:
    """Make the folder an image: its files are frozen, and the manifest is written, with when and with their hashes.

    An image may be copied to another cache, so its files' times are not held against it. The hashes of kernel and
    initrd are those of sha256sum; the disk's is sparse_hash.
    """
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (KERNEL, INITRD)}
    told = {
        **facts,
        "created": utc_now().isoformat(timespec="seconds"),
        "sha256": {**hashes, DISK: sparse_hash(folder / DISK)},
    }
    write_manifest(folder / MANIFEST, told, mode=0o444)


def damaged_image_files(image: Image) -> list[str]:
    """The files that are not what they were when the image was made, by all that is in them.

    Those whose hash an older manifest does not tell are passed over: making an image takes minutes.
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
    """The SHA-256 of a file's blocks of 1 MiB that hold anything but zeros, each after its offset in 8 bytes.

    It depends on nothing but the content, and takes the time of what is there, not of the gigabytes of holes.
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
                break  # nothing but holes from here on
            block = os.pread(file.fileno(), BLOCK, offset)
            if block.count(0) != len(block):
                digest.update(offset.to_bytes(8) + block)
            offset += BLOCK
    return digest.hexdigest()


def images_of(cache: Cache, profile: str) -> list[Path]:
    """The entries of one profile, whole or not, also those that were derived from its image."""
    own = re.compile(rf"{re.escape(profile)}-[0-9a-f]{{12}}(-with-[0-9a-f]{{12}})?")
    return sorted(folder for folder in cache.images.iterdir() if own.fullmatch(folder.name))


def list_images(cache: Cache) -> Iterator[Image]:
    """The whole images in the cache, by name; folders under construction and damaged ones are passed over."""
    return whole_entries(cache.images, load_image)
