"""One file that a person brings: read once, and held against what its option takes before anything is started."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError
from memqos.plain_file import read_plain

__all__ = ["Brought", "bring", "check_config", "check_deb", "check_initrd", "check_kernel", "check_program"]

ELF = b"\x7fELF"
X86_64 = 62
MAX_BYTES = 1 << 30
"""A larger file is refused: it is read into memory whole, and no program, package or initrd of machines is larger."""

RUNNABLE = frozenset({2, 3})
"""The types of an ELF file that is a program: at a fixed place, or at any."""

HEADER = struct.Struct("<16xHHIQQQIHHH")
"""An ELF64 file's header up to e_phnum: type, machine, …, e_phoff, …, e_phentsize, e_phnum."""

SEGMENT = struct.Struct("<IIQQQQ")
"""One segment as a program header tells it: type, flags, offset, two addresses, size in the file."""

LOADED = 1

INITRDS = (
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
"""How a cpio archive begins, or a compressed one."""


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


def bring(option: str, path: Path, check: Callable[[Path, str, bytes], None]) -> Brought:
    """The file, checked; raises UsageError naming the option for one that cannot be read, or what `check` raises."""
    data = _read(path, option)
    check(path, option, data)
    return Brought(option=option, path=path.absolute(), sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def _read(path: Path, option: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"'{path}' is not a file.", where=option, next_step="Name the file itself.")
        return read_plain(path, most=MAX_BYTES, where=option)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.", where=option) from error


def check_program(path: Path, option: str, data: bytes) -> None:
    """UsageError for what the machines' kernel could not start: they are x86-64, and the file has to be whole."""
    if not os.access(path, os.X_OK):
        raise UsageError(f"'{path}' is not executable.", where=option, next_step=f"chmod +x '{path}'")
    if data.startswith(ELF):
        if fault := _elf_fault(data):
            raise UsageError(f"'{path}' {fault}.", where=option)
    elif not data.startswith(b"#!"):
        raise UsageError(f"'{path}' is neither a program (ELF) nor a script (#!).", where=option)


def _elf_fault(data: bytes) -> str:
    """Why an ELF file is no program for x86-64, "" if it looks like one."""
    if len(data) < HEADER.size:
        return f"is cut off: it has {len(data)} bytes, and an ELF file's header more"
    kind, machine, _, _, offset, _, _, _, entry, count = HEADER.unpack_from(data)
    if machine != X86_64:
        return "is built for another CPU than x86-64, which the machines have"
    if kind not in RUNNABLE:
        return "is an ELF file, but no program: not linked yet, or a core dump"
    ends = [offset + entry * count]
    for place in range(offset, ends[0], max(entry, SEGMENT.size)):
        if place + SEGMENT.size <= len(data):
            segment, _, start, _, _, size = SEGMENT.unpack_from(data, place)
            ends += [start + size] if segment == LOADED else []
    return f"is cut off: it has {len(data)} bytes, and its segments end at {max(ends)}" if max(ends) > len(data) else ""


def check_config(path: Path, option: str, data: bytes) -> None:
    """UsageError for what is not TOML."""
    try:
        tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"'{path}' is not TOML: {error}.", where=option) from error


def check_deb(path: Path, option: str, data: bytes) -> None:
    """UsageError for what is not a Debian package."""
    if not data.startswith(b"!<arch>\ndebian-binary"):
        raise UsageError(f"'{path}' is not a Debian package.", where=option)


def check_kernel(path: Path, option: str, data: bytes) -> None:
    """UsageError for what is not a kernel in the form that QEMU starts."""
    if data[0x202:0x206] != b"HdrS":
        raise UsageError(
            f"'{path}' is not a kernel that QEMU can start.",
            where=option,
            next_step="Name the bzImage (arch/x86/boot/bzImage, /boot/vmlinuz-…), not vmlinux.",
        )


def check_initrd(path: Path, option: str, data: bytes) -> None:
    """UsageError for what is neither a cpio archive nor a compressed one."""
    if not data.startswith(INITRDS):
        raise UsageError(f"'{path}' is not an initrd: neither a cpio archive nor a compressed one.", where=option)
