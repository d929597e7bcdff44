"""A root file system for an architecture that this host cannot run, built without running its programs.

Debian is installed twice: for the host's own architecture with all maintainer scripts, but without a kernel, and for
the other one with its files alone. In the merged root, every file of a package is the other architecture's, and the
results of the scripts (users, alternatives, enabled units, configuration) are the host's, since they do not depend on
the architecture. Only the dynamic linker's cache and the modules' index are generated.

The initrd is memqos's too: one static program, and the modules that the root disk needs.
"""

from __future__ import annotations

import io
import lzma
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import ImageError
from memqos.vm.image.recipe import UNWANTED_PATHS

__all__ = ["DATABASE", "initrd", "kernel_in", "merge_roots", "modules_for"]

DATABASE = """\
set -eu
cd "$1/var/lib/dpkg"
for deb in "$1"/var/cache/apt/archives/*.deb; do
    mkdir control
    dpkg-deb --control "$deb" control
    { sed '/^$/d' control/control; echo 'Status: install ok installed'; echo; } >>status
    name=$(sed -n 's/^Package: //p' control/control)
    grep -q '^Multi-Arch: same' control/control && name=$name:$(sed -n 's/^Architecture: //p' control/control)
    for file in conffiles md5sums postinst postrm preinst prerm shlibs symbols templates triggers; do
        [ ! -e "control/$file" ] || mv "control/$file" "info/$name.$file"
    done
    dpkg-deb --fsys-tarfile "$deb" | tar --list | sed 's,^\\.,,; s,/$,,; s,^$,/.,' >"info/$name.list"
    rm -r control
done
echo 1 >info/format
"""
"""Writes the dpkg database of packages whose files were only extracted: mmdebstrap leaves it empty.

$1: the root. Its exit status says whether every package is in.
"""

MERGED_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libo32")
"""Links into /usr; a package's list may name files through them."""

CONFIGURATION = ("etc", "root", "var")
"""Where the host's file wins if both roots have one: maintainer scripts and memqos's overlay changed it."""

REMADE = frozenset({"etc/ld.so.cache", "var/cache/ldconfig/aux-cache"})
"""Files that depend on the architecture and belong to no package."""

DPKG = "var/lib/dpkg/"
FOREIGN_DATABASE = re.compile(r"var/lib/dpkg/(status|info/.*)")

_EXCLUDED = tuple(path.removeprefix("/").removesuffix("*") for path in UNWANTED_PATHS)


def merge_roots(native: Path, foreign: Path, merged: Path) -> None:
    """Write an archive of the merged root from those of the other two; existing links and owners stay.

    native: fully configured, with memqos's overlay. foreign: extracted, with its own dpkg database.
    """
    with tarfile.open(native) as ours, tarfile.open(foreign) as theirs, tarfile.open(
        merged, "w", format=tarfile.PAX_FORMAT
    ) as output:  # fmt: skip
        known = {_path(member): member for member in ours}
        extracted = {_path(member): member for member in theirs}
        owned = frozenset(_owned(ours, known))
        for path, member in known.items():
            if _stays(path, member, owned=owned, is_theirs=path in extracted):
                _copy(ours, member, output)
        for path, member in extracted.items():
            there = known.get(path)
            if there is not None and _stays(path, there, owned=owned, is_theirs=True):
                continue
            if path.startswith(_EXCLUDED):
                continue
            if there is not None and there.type == member.type:
                member.uid, member.gid, member.mode = there.uid, there.gid, there.mode
            _copy(theirs, member, output)


def _stays(path: str, member: tarfile.TarInfo, *, owned: frozenset[str], is_theirs: bool) -> bool:
    """Whether the merged root has the native root's member."""
    if path in REMADE or FOREIGN_DATABASE.fullmatch(path):
        return False
    if member.isdir() or path not in owned:
        return True
    return is_theirs and path.split("/", 1)[0] in CONFIGURATION


def _owned(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> Iterator[str]:
    """The paths that native packages own, as named in the archive."""
    for path, member in members.items():
        if path.startswith(f"{DPKG}info/") and path.endswith(".list"):
            for line in _content(archive, member).decode().splitlines():
                first, slash, rest = line.removeprefix("/").partition("/")
                yield f"usr/{first}{slash}{rest}" if first in MERGED_FOLDERS and slash else f"{first}{slash}{rest}"


def _path(member: tarfile.TarInfo) -> str:
    return member.name.removeprefix("./").rstrip("/")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, output: tarfile.TarFile) -> None:
    output.addfile(member, archive.extractfile(member) if member.isreg() else None)


KERNEL = re.compile(r"boot/vmlinu[xz]-(\S+)|(?:usr/)?lib/modules/([^/\s]+)/vmlinu[xz]")


def kernel_in(root: Path, where: Path) -> tuple[str, Path]:
    """Copy the single kernel of a root's archive into a folder; returns its release and the copy.

    From Debian's 7.2 on the packages have it beside its modules, and their scripts, which do not run, copy it to /boot.

    Raises ImageError if the root has none or several.
    """
    with tarfile.open(root) as archive:
        found = {
            match[1] or match[2]: member
            for member in archive
            if (match := KERNEL.fullmatch(_path(member))) and member.isreg()
        }
        if len(found) != 1:
            raise ImageError(f"the image must have one kernel, and has {len(found)}.", where=str(root))
        [(release, member)] = found.items()
        copy = where / "kernel"
        copy.write_bytes(_content(archive, member))
    return release, copy


WANTED_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
"""The modules between a kernel and its root disk; a kernel with one of them built in has no file for it.

crc32c_generic: ext4 requests it by an alias, which only modprobe can look up.
"""

SUFFIX = re.compile(r"\.ko(\.xz)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    needs: tuple[str, ...]
    content: bytes


def modules_for(root: Path, release: str) -> dict[str, bytes]:
    """The modules that the root disk needs, by name, uncompressed, each after its dependencies."""
    folder = f"usr/lib/modules/{release}/"
    with tarfile.open(root) as archive:
        files = {
            SUFFIX.sub("", path.rsplit("/", 1)[1]).replace("-", "_"): member
            for member in archive
            if (path := _path(member)).startswith(folder) and SUFFIX.search(path)
        }
        ordered: dict[str, bytes] = {}

        def add(name: str) -> None:
            if name in ordered or name not in files:
                return
            module = _module(_content(archive, files[name]), compressed=files[name].name.endswith(".xz"))
            for needed in module.needs:
                add(needed)
            ordered[name] = module.content

        for name in WANTED_MODULES:
            add(name)
    return ordered


def _module(content: bytes, *, compressed: bool) -> _Module:
    """A module's file, and its dependencies in the section .modinfo: depends, and softdep's "pre:"."""
    content = lzma.decompress(content) if compressed else content
    needs = [name for match in re.findall(rb"\0depends=([^\0]*)\0", content) for name in match.decode().split(",")]
    for match in re.findall(rb"\0softdep=pre: ([^\0]*)\0", content):
        needs += match.decode().partition("post:")[0].split()
    return _Module(needs=tuple(name.replace("-", "_") for name in needs if name), content=content)


def initrd(init: bytes, modules: Mapping[str, bytes]) -> bytes:
    """An initrd: the program as /init, and the modules in the order in which it loads them.

    Not compressed, since unpacking is emulated. Source: kernel, driver-api/early-userspace/buffer-format.rst (newc).
    """
    entries: list[tuple[str, int, bytes]] = [(folder, 0o040755, b"") for folder in ("dev", "proc", "root", "modules")]
    entries += [("dev/console", 0o020600, b""), ("init", 0o100755, init)]
    entries += [(f"modules/{at:02}-{name}.ko", 0o100644, content) for at, (name, content) in enumerate(modules.items())]
    return _newc([*entries, ("TRAILER!!!", 0, b"")])


CONSOLE = (5, 1)
"""The device number of /dev/console (admin-guide/devices.txt)."""


def _newc(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    buffer = io.BytesIO()
    for number, (name, mode, content) in enumerate(entries, start=1):
        device = CONSOLE if stat.S_ISCHR(mode) else (0, 0)
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
        buffer.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0")
        for data in (b"", content):
            buffer.write(data)
            buffer.write(bytes(-buffer.tell() % 4))
    return buffer.getvalue()
