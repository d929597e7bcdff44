"""A disk image is opened only if it is a complete, plain qcow2 file with a boot loader; else the error has advice."""

import hashlib
import os
import struct
import subprocess
from pathlib import Path

import pytest

from memqos.errors import UsageError
from memqos.vm.cloud.disk_file import (
    HEADER,
    Firmware,
    check_header,
    disk_file,
    efi_partition,
    firmware_of,
    loaders_in,
)

ESP = bytes.fromhex("28732ac11ff8d211ba4b00a0c93ec93b")
"""C12A7328-F81F-11D2-BA4B-00A0C93EC93B (UEFI specification, 5.3.3), as GPT stores it."""
BIOS_BOOT = b"Hah!IdontNeedEFI"
"""21686148-6449-6E6F-744E-656564454649 (GRUB's manual, BIOS installation), as GPT stores it."""


def header(*, magic=b"QFI\xfb", version=3, backing=(0, 0), bits=16, crypt=0, entries=1, table=65536, features=0):
    """A qcow2 header by docs/interop/qcow2.rst of QEMU."""
    fields = (magic, version, *backing, bits, 1 << 30, crypt, entries, table, 131072, 1, 0, 0)
    return HEADER.pack(*fields) + struct.pack(">QQQII", features, 0, 0, 4, 104)


def refused(head, size=1 << 20, path="/images/cloud.qcow2"):
    with pytest.raises(UsageError) as error:
        check_header(Path(path), head, size)
    assert error.value.where == "--image"
    return error.value


def test_a_plain_image_is_taken():
    for version in (2, 3):
        check_header(Path("a.qcow2"), header(version=version), 1 << 20)


@pytest.mark.parametrize(
    ("head", "what", "next_step"),
    [
        (header(crypt=1), "is encrypted", "Decrypt a copy with qemu-img convert"),
        (header(crypt=2), "is encrypted", "Decrypt a copy with qemu-img convert"),
        (header(features=2), "it is marked as corrupt", "download it again"),
        (header(features=4), "keeps its data in another file", "qemu-img convert -O qcow2"),
        (header(version=7), "version 7 instead of 2 or 3", "download it again"),
        (header(table=1 << 40), "its tables are not among them", "download it again"),
        (header(entries=1 << 30), "its tables are not among them", "download it again"),
        (header(bits=60), "its tables are not among them", "download it again"),
        (header()[:20], "it has 20 bytes, less than a qcow2 header", "download it again"),
        (b"", "is not a disk image in qcow2 format", "cloud image in qcow2 format"),
        (b"#!/bin/sh\necho hello\n", "is not a disk image in qcow2 format", "cloud image in qcow2 format"),
        (b"\xfd7zXZ\0" + bytes(99), "is compressed", "xz --decompress --keep '/images/cloud.qcow2'"),
        (b"\x1f\x8b" + bytes(99), "is compressed", "gunzip --keep"),
        (b"KDMV" + bytes(99), "in vmdk format", "qemu-img convert -f vmdk -O qcow2 /images/cloud.qcow2 cloud.qcow2"),
        (bytes(510) + b"\x55\xaa", "in raw format", "qemu-img convert -f raw -O qcow2"),
        (bytes(32769) + b"CD001", "is an ISO image", "cloud image in qcow2 format"),
    ],
)
def test_what_is_no_such_image_is_refused_with_the_next_step(head, what, next_step):
    error = refused(head)
    assert what in error.what
    assert next_step in error.next_step


def test_a_layer_over_another_file_is_never_opened():
    """A downloaded image could name any file of this host."""
    name = b"/etc/shadow"
    error = refused(header(backing=(104, len(name))) + name)
    assert "is a layer over another file, '/etc/shadow'" in error.what
    assert "If you trust both, merge them: qemu-img convert -O qcow2 /images/cloud.qcow2" in error.next_step


@pytest.mark.parametrize("make", [str, Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path, make):
    path = tmp_path / "a.qcow2"
    make(path)
    with pytest.raises(UsageError, match=r"cannot be read|is not a file"):
        disk_file(path)


def sectors(*, code=b"", mbr_type=0xEE, gpt=(), signature=b"\x55\xaa"):
    """The first 34 sectors of a disk with one MBR partition and these GPT types."""
    mbr = code.ljust(440, b"\0") + bytes(6) + (bytes(4) + bytes([mbr_type]) + bytes(11)).ljust(64, b"\0") + signature
    table = b"EFI PART".ljust(512, b"\0") if gpt else bytes(512)
    return mbr + table + b"".join(kind.ljust(128, b"\0") for kind in gpt).ljust(32 * 512, b"\0")


@pytest.mark.parametrize(
    ("disk", "firmware"),
    [
        (sectors(gpt=(ESP, b"x" * 16)), Firmware.UEFI),
        (sectors(gpt=(BIOS_BOOT, ESP, b"x" * 16)), Firmware.BIOS),
        (sectors(code=b"\xeb\x63GRUB", gpt=(ESP,)), Firmware.BIOS),
        (sectors(code=b"\x33\xc0", mbr_type=0x83), Firmware.BIOS),
        (sectors(mbr_type=0xEF), Firmware.UEFI),
    ],
)
def test_the_partition_table_decides_the_firmware(tmp_path, disk, firmware):
    assert firmware_of(tmp_path, disk) is firmware


def partitions(*found, mbr_type=0xEE, mbr_first=1, sectors=10):
    """The first 34 sectors of a disk with these GPT partitions, as (type, first sector), and one MBR partition."""
    entry = bytes(4) + bytes([mbr_type]) + bytes(3) + struct.pack("<II", mbr_first, 10)
    mbr = bytes(446) + entry.ljust(64, b"\0") + b"\x55\xaa"
    table = b"EFI PART".ljust(512, b"\0") if found else bytes(512)
    rows = [
        (kind + bytes(16) + struct.pack("<QQ", first, first + sectors - 1)).ljust(128, b"\0") for kind, first in found
    ]
    return mbr + table + b"".join(rows).ljust(32 * 512, b"\0")


@pytest.mark.parametrize(
    ("disk", "at"),
    [
        (partitions((ESP, 2048)), 1 << 20),
        (partitions((b"x" * 16, 2048), (ESP, 6144), (ESP, 8192)), 3 << 20),
        (partitions(mbr_type=0xEF, mbr_first=63), 63 * 512),
    ],
)
def test_the_efi_partition_is_found(disk, at):
    assert efi_partition(disk) == (at, 5120)


def test_a_disk_may_have_no_efi_partition():
    with pytest.raises(ValueError, match="no EFI system partition"):
        efi_partition(partitions((b"x" * 16, 2048), mbr_type=0x83))


@pytest.mark.parametrize(
    ("boot", "architectures"),
    [
        (b"BOOTX64 EFI", {"amd64"}),
        (b"FBX64   EFI" + bytes(21) + b"BOOTAA64EFI", {"arm64"}),
        (b"BOOTAA64EFI" + bytes(21) + b"BOOTX64 EFI", {"amd64", "arm64"}),
        (b"BOOTIA32EFI", set()),
        (rb"\EFI\BOOT\BOOTX64.EFI", set()),
        (b"", set()),
    ],
)
def test_the_default_boot_loader_names_the_architecture(boot, architectures):
    """Short names of FAT's directories, 8 and 3 bytes (UEFI specification, 3.5.1.1)."""
    assert loaders_in(bytes(4096) + boot + bytes(4096)) == architectures


@pytest.mark.parametrize(("name", "host", "architecture"), [
    (b"BOOTAA64EFI", "x86_64", "arm64"), (b"BOOTX64 EFI", "aarch64", "amd64"), (b"", "aarch64", "arm64"),
    (b"", "x86_64", "amd64"), (b"", "ppc64le", "amd64"),
])  # fmt: skip
def test_an_image_is_of_the_architecture_of_its_boot_loader(tmp_path, monkeypatch, name, host, architecture):
    monkeypatch.setattr("platform.machine", lambda: host)
    raw, image = tmp_path / "disk.raw", tmp_path / "disk.qcow2"
    disk = partitions((b"x" * 16, 34), (ESP, 2048), sectors=4 << 10).ljust(2 << 20, b"\0") + name.ljust(1 << 20, b"\0")
    raw.write_bytes(disk)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image], check=True)

    assert disk_file(image).architecture.name == architecture
    assert disk_file(image).facts["architecture"] == architecture


@pytest.mark.parametrize("disk", [bytes(34 * 512), sectors(mbr_type=0x83), sectors(gpt=(b"x" * 16,))])
def test_a_disk_without_a_boot_loader_is_refused(tmp_path, disk):
    with pytest.raises(UsageError, match="cannot boot"):
        firmware_of(tmp_path / "a.qcow2", disk)


def test_an_image_of_qemu_img_is_read_and_left_alone(tmp_path):
    raw, image = tmp_path / "disk.raw", tmp_path / "disk.qcow2"
    raw.write_bytes(sectors(gpt=(ESP,)) + bytes(1 << 20))
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image], check=True)
    before = image.read_bytes(), image.stat().st_mtime_ns

    found = disk_file(image)

    assert found.firmware is Firmware.UEFI
    assert found.sha256 == hashlib.sha256(before[0]).hexdigest()
    assert found.facts["bytes"] == len(before[0])
    assert (image.read_bytes(), image.stat().st_mtime_ns) == before
    raw.write_bytes(sectors(code=b"\x33\xc0", mbr_type=0x83) + bytes(1 << 20))
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image], check=True)
    assert disk_file(image).firmware is Firmware.BIOS


def test_an_encrypted_image_of_qemu_img_is_refused(tmp_path):
    image = tmp_path / "a.qcow2"
    secret = ["--object", "secret,id=s,data=abc"]
    options = "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10"
    subprocess.run(["qemu-img", "create", "-q", *secret, "-f", "qcow2", "-o", options, image, "4M"], check=True)
    with pytest.raises(UsageError, match="is encrypted"):
        disk_file(image)


@pytest.mark.parametrize(("places", "architecture"), [
    ({40 << 20: b"BOOTAA64EFI"}, "arm64"),
    ({1 << 20: b"BOOTAA64EFI", 40 << 20: b"BOOTX64 EFI"}, "amd64"),
    ({50 << 20: b"BOOTAA64EFI"}, "amd64"),
], ids=["far", "two", "behind-the-partition"])  # fmt: skip
def test_the_boot_loader_is_looked_for_in_the_whole_partition(tmp_path, monkeypatch, places, architecture):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    raw, image = tmp_path / "disk.raw", tmp_path / "disk.qcow2"
    with raw.open("wb") as disk:
        disk.write(partitions((ESP, 2048), sectors=48 << 11))
        for place, name in places.items():
            disk.seek((1 << 20) + place)
            disk.write(name)
        disk.truncate(52 << 20)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image], check=True)

    assert disk_file(image).architecture.name == architecture
