"""Files and folders that the user copies to a destination of their own in a machine: read, checked, and packed."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError
from memqos.plain_file import read_plain

__all__ = ["BroughtTree", "CopiedTree", "bring_tree"]

MOST_BYTES = 1 << 30
"""The most bytes of one tree: a machine has a disk of a few GiB, and the host holds the packed files in memory."""

NOT_THERE = ("/proc", "/sys", "/dev", "/boot", "/run", "/tmp", "/usr/lib/memqos", "/var/lib/memqos")  # noqa: S108
"""Nothing is put below these: the kernel's, folders that are empty after a boot, and memqos's own."""


@dataclass(frozen=True, slots=True)
class CopiedTree:
    """A file or folder of this host, its absolute destination in the machine, and its mode there, None to keep it."""

    source: Path
    destination: str
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtTree:
    """The content of an CopiedTree's source: the option, the source's path, the hash of its content, and its bytes.

    The hash excludes destination, times and owners: the same content is the same file.
    """

    option: str
    path: Path
    destination: str
    mode: int | None
    sha256: str
    size: int
    is_folder: bool

    @property
    def facts(self) -> dict[str, object]:
        """Its JSON in a bundle."""
        mode = {} if self.mode is None else {"mode": f"{self.mode:04o}"}
        return {
            "path": str(self.path),
            "destination": self.destination,
            **mode,
            "sha256": self.sha256,
            "bytes": self.size,
        }

    def places(self) -> Iterator[tuple[str, bool]]:
        """Every path that it takes in the machine, and whether that is a folder."""
        for name, path in _members(self.option, self.path):
            yield f"{self.destination}/{name}" if name else self.destination, _is_folder(path, name)

    def archive(self) -> bytes:
        """A tar file of it for the machine's root; UsageError if it changed since it was checked."""
        stream, digest = io.BytesIO(), hashlib.sha256()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, path in _members(self.option, self.path):
                info, content = _member(self.option, path, name)
                _count(digest, name, info, content)
                info.name = (f"{self.destination}/{name}" if name else self.destination).lstrip("/")
                if self.mode is not None:
                    info.mode = self.mode
                tar.addfile(info, io.BytesIO(content))
        if digest.hexdigest() != self.sha256:
            raise UsageError(f"'{self.path}' was changed while it was in use.", where=self.option)
        return stream.getvalue()


def bring_tree(option: str, file: CopiedTree) -> BroughtTree:
    """Read a file or folder once.

    Raises UsageError, naming the option, for a source that is unreadable, is neither file nor folder nor link, or is
    too large, for a forbidden destination, and for the mode of a folder.
    """
    for place in NOT_THERE:
        if file.destination == place or file.destination.startswith(f"{place}/"):
            raise UsageError(f"nothing can be copied below {place}.", where=option, next_step="Choose another DST.")
    is_folder = file.source.is_dir()
    if is_folder and file.mode is not None:
        raise UsageError(
            f"'{file.source}' is a folder; its files keep their modes.", where=option, next_step="Leave MODE out."
        )
    digest, size = hashlib.sha256(), 0
    for name, path in _members(option, file.source):
        info, content = _member(option, path, name)
        size += len(content)
        if size > MOST_BYTES:
            raise UsageError(f"'{file.source}' is more than {MOST_BYTES >> 30} GiB.", where=option)
        _count(digest, name, info, content)
    return BroughtTree(
        option=option,
        path=file.source.absolute(),
        destination=file.destination,
        mode=file.mode,
        sha256=digest.hexdigest(),
        size=size,
        is_folder=is_folder,
    )


def _members(option: str, source: Path) -> Iterator[tuple[str, Path]]:
    """Every path at and below the source with its relative name ("" for the source), folders before contents."""
    yield "", source
    if source.is_dir():
        try:
            for folder, folders, files in os.walk(source, onerror=_raise):
                folders.sort()
                for name in sorted([*folders, *files]):
                    path = Path(folder, name)
                    yield path.relative_to(source).as_posix(), path
        except OSError as error:
            raise _unreadable(option, Path(error.filename or source), error) from error


def _raise(error: OSError) -> None:
    raise error


def _is_folder(path: Path, name: str) -> bool:
    return path.is_dir() and (not name or not path.is_symlink())


def _member(option: str, path: Path, name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A member in tar's form, owned by root and without times; for the source itself links are followed."""
    info = tarfile.TarInfo(name)
    try:
        status = path.lstat() if name else path.stat()
        info.mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            info.type = tarfile.DIRTYPE
        elif stat.S_ISLNK(status.st_mode):
            info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = read_plain(path, most=MOST_BYTES, where=option)
            info.size = len(content)
            return info, content
        else:
            raise UsageError(f"'{path}' is neither a file nor a folder.", where=option)
    except OSError as error:
        raise _unreadable(option, path, error) from error
    return info, b""


def _unreadable(option: str, path: Path, error: OSError) -> UsageError:
    return UsageError(f"'{path}' cannot be read: {error.strerror}.", where=option)


def _count(digest: hashlib._Hash, name: str, info: tarfile.TarInfo, content: bytes) -> None:
    """Add a member to the hash: its name, kind, mode, and its content or link target."""
    head = f"{name}\0{info.type!r}\0{info.mode:o}\0{info.linkname}\0{len(content)}\0"
    digest.update(head.encode("utf-8", "surrogateescape"))
    digest.update(content)
