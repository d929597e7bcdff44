"""A disk image that the user names with --image: its header, and whether a machine can boot from it.

The file is only read, by QEMU too: each machine writes to a layer over it.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import shlex
import stat
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from memqos.errors import UsageError
from memqos.vm.architecture import AMD64, ARM64, Architecture
from memqos.vm.host.programs import find_program

__all__ = [
    "OPTION",
    "DiskFile",
    "Firmware",
    "check_header",
    "disk_file",
    "efi_partition",
    "firmware_of",
    "loaders_in",
]

OPTION = "--image"

HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
"""qcow2, version 2, as in docs/interop/qcow2.rst of QEMU.

Fields: magic, version, offset and size of the backing file's name, cluster_bits, size, crypt_method, l1_size,
l1_table_offset, refcount_table_offset, refcount_table_clusters, nb_snapshots, snapshots_offset.
"""

MAGIC = b"QFI\xfb"
INCOMPATIBLE = struct.Struct(">Q")
"""Version 3's additional fields, after the header of version 2."""

CORRUPT, EXTERNAL_DATA = 1 << 1, 1 << 2
VERSIONS = (2, 3)
CLUSTER_BITS = range(9, 22)

COMPRESSED = {
    b"\xfd7zXZ\0": "xz --decompress --keep",
    b"\x1f\x8b": "gunzip --keep",
    b"BZh": "bunzip2 --keep",
    b"\x28\xb5\x2f\xfd": "unzstd",
}
OTHERS = {
    b"KDMV": "vmdk",
    b"vhdxfile": "vhdx",
    b"conectix": "vpc",
    b"<<< Oracle VM VirtualBox": "vdi",
    b"QED\0": "qed",
}
"""The magic of other formats, with qemu-img's name for each."""

ISO_AT, ISO = 32769, b"CD001"
SECTOR = 512
MIB = 1 << 20
BOOT_SIGNATURE = b"\x55\xaa"
GPT = b"EFI PART"
ESP = bytes.fromhex("28732ac11ff8d211ba4b00a0c93ec93b")
BIOS_BOOT = bytes.fromhex("4861682149646f6e744e656564454649")
"""Partition types in GPT's byte order: an EFI system partition, and GRUB's for BIOS."""

MBR_ESP = 0xEF
BOOT_CODE = 440
HEAD_SECTORS = 34
"""The MBR, GPT's header, and its 128 entries."""

GPT_ENTRY = struct.Struct("<16s16sQQ")
"""The start of GPT's entry: type, unique id, first sector, last sector."""

MBR_ENTRY = struct.Struct("<4xB3xII")
"""An MBR's entry: type, first sector, number of sectors."""

LOADERS = {b"BOOTX64 EFI": AMD64, b"BOOTAA64EFI": ARM64}
"""The names of UEFI's default boot loaders, as FAT's directories store them (UEFI specification, 3.5.1.1)."""

WINDOW = 32 << 20
"""The bytes of an EFI system partition that are searched for them at a time; an entry of FAT's never crosses two."""

MOST_WINDOWS = 32
"""A folder is where its first file left it, so the whole partition is searched: at most this much, 1 GiB."""


class Firmware(StrEnum):
    """The signatures of an MBR's boot loader."""

    BIOS = "bios"
    UEFI = "uefi"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFile:
    """A bootable qcow2 file.

    size: of the file in bytes; sha256: of its content; firmware: what it needs; architecture: of its boot loader.
    """

    path: Path
    size: int
    sha256: str
    firmware: Firmware
    architecture: Architecture = AMD64

    @property
    def facts(self) -> dict[str, object]:
        """Its JSON in a bundle."""
        return {
            "path": str(self.path),
            "sha256": self.sha256,
            "bytes": self.size,
            "firmware": str(self.firmware),
            "architecture": self.architecture.name,
        }


def disk_file(path: Path) -> DiskFile:
    """Read a file's header, partition table and hash.

    Raises UsageError, naming --image, for a file that cannot be read, has another format, is encrypted, damaged or a
    layer over another file, and for a disk without a boot loader. MissingProgramError without qemu-img.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"'{path}' is not a file.", where=OPTION, next_step="Name the disk image itself.")
        with path.open("rb") as file:
            head = file.read(ISO_AT + len(ISO))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.", where=OPTION) from error
    check_header(path, head, status.st_size)
    return _examined(path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _examined(path: Path, _inode: int, size: int, _changed: int) -> DiskFile:
    """Cached for each state of a file, as it takes seconds for a large one."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    sectors = _content(path, 0, HEAD_SECTORS * SECTOR)
    firmware, architecture = firmware_of(path, sectors), AMD64
    if firmware is Firmware.UEFI:
        architecture = _of_loader(path, *efi_partition(sectors)) or _usual()
    return DiskFile(path=path, size=size, sha256=digest, firmware=firmware, architecture=architecture)


def _of_loader(path: Path, at: int, size: int) -> Architecture | None:
    """The architecture whose default boot loader this partition has, in bytes; None for none or several."""
    found: set[str] = set()
    for start in range(0, min(size, MOST_WINDOWS * WINDOW), WINDOW):
        part = _content(path, at + start, min(WINDOW, size - start))
        if not part:
            break
        found |= loaders_in(part)
    known = {architecture.name: architecture for architecture in LOADERS.values()}
    return known[found.pop()] if len(found) == 1 else None


def _usual() -> Architecture:
    """The architecture of an image for UEFI whose boot loader has another name: this host's, or amd64."""
    return ARM64 if platform.machine() == ARM64.machine else AMD64


def check_header(path: Path, head: bytes, size: int) -> None:
    """UsageError for a file that is not a complete, plain qcow2 image. head: its first bytes; size: in bytes."""
    if not head.startswith(MAGIC):
        raise _of_another_format(path, head)
    if len(head) < HEADER.size:
        raise _damaged(path, f"it has {len(head)} bytes, less than a qcow2 header")
    (_, version, backing_at, backing_size, bits, _, encryption, entries, table_at, *_) = HEADER.unpack_from(head)
    if version not in VERSIONS:
        raise _damaged(path, f"its qcow2 header has version {version} instead of 2 or 3")
    features = INCOMPATIBLE.unpack_from(head, HEADER.size)[0] if version > VERSIONS[0] else 0
    if features & CORRUPT:
        raise _damaged(path, "it is marked as corrupt")
    if encryption:
        raise UsageError(
            f"'{path}' is encrypted.",
            where=OPTION,
            next_step="Decrypt a copy with qemu-img convert, or use an image without encryption.",
        )
    flat = shlex.join(["qemu-img", "convert", "-O", "qcow2", str(path), f"{path.with_suffix('')}-flat.qcow2"])
    if backing_at:
        name = head[backing_at : backing_at + backing_size].decode("utf-8", "backslashreplace")
        raise UsageError(
            f"'{path}' is a layer over another file, '{name[:200]}', which memqos does not open.",
            where=OPTION,
            next_step=f"If you trust both, merge them: {flat}",
        )
    if features & EXTERNAL_DATA:
        raise UsageError(
            f"'{path}' keeps its data in another file, which memqos does not open.",
            where=OPTION,
            next_step=f"If you trust both, merge them: {flat}",
        )
    if bits not in CLUSTER_BITS or table_at + 8 * entries > size:
        raise _damaged(path, f"it has {size} bytes, and its tables are not among them")


def _damaged(path: Path, fault: str) -> UsageError:
    return UsageError(
        f"'{path}' is truncated or damaged: {fault}.",
        where=OPTION,
        next_step="Compare its checksum with the distribution's, and download it again.",
    )


def _of_another_format(path: Path, head: bytes) -> UsageError:
    """The UsageError for a file that is not a qcow2 image, with its apparent type."""
    for start, tool in COMPRESSED.items():
        if head.startswith(start):
            return UsageError(f"'{path}' is compressed.", where=OPTION, next_step=f"Unpack it: {tool} '{path}'")
    if head[ISO_AT:] == ISO:
        return UsageError(
            f"'{path}' is an ISO image, which installs a system or runs it live.",
            where=OPTION,
            next_step="Use the distribution's cloud image in qcow2 format.",
        )
    shown = next((name for start, name in OTHERS.items() if head.startswith(start)), "")
    name = shown or ("raw" if head[510:512] == BOOT_SIGNATURE else "")
    if not name:
        return UsageError(
            f"'{path}' is not a disk image in qcow2 format.",
            where=OPTION,
            next_step="Use the distribution's cloud image in qcow2 format.",
        )
    convert = shlex.join(["qemu-img", "convert", "-f", name, "-O", "qcow2", str(path), f"{path.stem}.qcow2"])
    return UsageError(
        f"'{path}' is a disk image in {name} format instead of qcow2.", where=OPTION, next_step=f"Convert it: {convert}"
    )


def _content(path: Path, at: int, size: int) -> bytes:
    """This part of the disk in a qcow2 file, or what it has of it; UsageError if qemu-img cannot read it.

    at, size: bytes, whole sectors.
    """
    block = MIB if at % MIB == size % MIB == 0 else SECTOR
    with tempfile.TemporaryDirectory(prefix="memqos-") as folder:
        out = Path(folder) / "part"
        # Up to QEMU 10, dd counts the skipped blocks too.
        argv = [
            str(find_program("qemu-img")), "dd", "-f", "qcow2", "-O", "raw", f"bs={block}", f"skip={at // block}",
            f"count={(at + size) // block}", f"if={path}", f"of={out}",
        ]  # fmt: skip
        told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise _damaged(path, told.stderr.strip()[-300:] or f"qemu-img ended with {told.returncode}")
        with out.open("rb") as file:
            return file.read(size)


def efi_partition(sectors: bytes) -> tuple[int, int]:
    """PURE. Offset and size in bytes of the EFI system partition, by a disk's first sectors; ValueError without one."""
    if sectors[SECTOR : SECTOR + 8] == GPT:
        for place in range(2 * SECTOR, len(sectors), 128):
            kind, _, first, last = GPT_ENTRY.unpack_from(sectors, place)
            if kind == ESP:
                return first * SECTOR, (last - first + 1) * SECTOR
    for place in range(446, 510, 16):
        kind, first, count = MBR_ENTRY.unpack_from(sectors, place)
        if kind == MBR_ESP:
            return first * SECTOR, count * SECTOR
    raise ValueError("the disk has no EFI system partition")


def loaders_in(part: bytes) -> set[str]:
    """PURE. The names of the architectures whose default boot loader this part of an EFI system partition names."""
    return {architecture.name for name, architecture in LOADERS.items() if name in part}


def firmware_of(path: Path, sectors: bytes) -> Firmware:
    """PURE. The firmware that a disk needs, by its first sectors: BIOS if its MBR has a boot loader.

    Raises UsageError for a disk without a boot loader for either.
    """
    mbr = sectors[:SECTOR]
    if mbr[510:512] != BOOT_SIGNATURE:
        raise _without_loader(path, "it has no partition table")
    kinds = {mbr[entry + 4] for entry in range(446, 510, 16)}
    types: set[bytes] = set()
    if sectors[SECTOR : SECTOR + 8] == GPT:
        entries = sectors[2 * SECTOR :]
        types = {entries[place : place + 16] for place in range(0, len(entries), 128)}
    if BIOS_BOOT in types or any(mbr[:BOOT_CODE]):
        return Firmware.BIOS
    if ESP in types or MBR_ESP in kinds:
        return Firmware.UEFI
    raise _without_loader(path, "it has neither a boot loader in its MBR nor an EFI system partition")


def _without_loader(path: Path, fault: str) -> UsageError:
    return UsageError(
        f"'{path}' cannot boot: {fault}.",
        where=OPTION,
        next_step="Use a whole disk with a boot loader, such as the distribution's cloud image.",
    )
