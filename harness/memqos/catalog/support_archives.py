"""Support archives: sosreports, packed or unpacked, as recordings of nodes; must-gathers, which have only pods."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from memqos.catalog.sosreports import WANTED, node_in
from memqos.errors import UsageError
from memqos.ownership import temporary_folder

__all__ = ["archived", "archives_in", "is_archive", "is_must_gather"]

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
_OTHER_FORMS = {
    ".gpg": ("it is encrypted", "Decrypt it first: gpg --decrypt."),
    ".tar.zst": ("memqos does not read zstd", "Decompress it first: zstd -d."),
    ".tzst": ("memqos does not read zstd", "Decompress it first: zstd -d."),
    ".zip": ("memqos does not read zip archives", "Unpack it, and give the folder."),
}
_MOST_FILES, _MOST_BYTES, _MOST_FILE = 1_000_000, 1 << 30, 64 << 20
_IN_COLLECTION = 2
"""The depth of the sosreports in an archive of `sos collect`."""


def is_archive(place: str | Path) -> bool:
    """Whether a path is a support archive or the folder of an unpacked one."""
    path = Path(place)
    if path.is_dir():
        return (len(_roots(path)) == 1 and len(archives_in(path)) == 1) or is_must_gather(path)
    return str(path).endswith((*_TARS, *_OTHER_FORMS))


def archives_in(folder: Path) -> list[Path]:
    """The sosreports in a folder, packed or unpacked, by name; one that is there in both forms once, unpacked."""
    unpacked = _roots(folder)
    names = {one.name for one in unpacked}
    packed = [one for one in folder.iterdir() if one.name.endswith(_TARS) and one.is_file()]
    return sorted([*unpacked, *(one for one in packed if one.name.partition(".tar")[0] not in names)])


def is_must_gather(place: str | Path) -> bool:
    """Whether a folder is a must-gather: namespaces and cluster-scoped-resources, perhaps one folder deeper."""
    path = Path(place)
    if not path.is_dir():
        return False
    folders = (path, *(one for one in path.iterdir() if one.is_dir()))
    return any((one / "cluster-scoped-resources").is_dir() and (one / "namespaces").is_dir() for one in folders)


def _roots(path: Path) -> list[Path]:
    """The folders with a node's files: this one alone, or those in it."""

    def is_root(folder: Path) -> bool:
        return (folder / "sys/fs/cgroup").is_dir() and (folder / "proc").is_dir()

    return [path] if is_root(path) else [one for one in path.iterdir() if one.is_dir() and is_root(one)]


def archived(place: str | Path) -> Mapping[str, Any]:
    """The node in an archive as a recording's document.

    Raises UsageError for an unreadable archive, for one without interface files, and for a must-gather.
    """
    path = Path(place)
    for ending, (what, step) in _OTHER_FORMS.items():
        if path.name.endswith(ending) and not path.is_dir():
            raise UsageError(f"{what}.", where=str(place), next_step=step)
    if is_must_gather(path):
        raise _only_pods(place, f"--pods {place} -R")
    with _unpacked(path) as folder:
        roots = _roots(folder)
        if not roots:
            raise UsageError(
                "the archive has no folder sys/fs/cgroup.",
                where=str(place),
                next_step="Make it with the plug-in cgroups: sos report --enable-plugins cgroups.",
            )
        if len(roots) > 1:
            what = f"it has the files of {len(roots)} nodes."
            raise UsageError(what, where=str(place), next_step="Unpack it, and give the folder.")
        return node_in(roots[0], str(place))


def _only_pods(place: str | Path, option: str) -> UsageError:
    return UsageError(
        "a must-gather has pods and no interface file of a node.",
        where=str(place),
        next_step=f"Audit a sosreport or a recording of the node with {option}.",
    )


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder itself, or for a tarball a new folder with the needed files."""
    if path.is_dir():
        yield path
        return
    with temporary_folder("memqos-archive-") as folder:
        try:
            _extract(path, folder)
        except (tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
            said = (error.strerror if isinstance(error, OSError) else "") or str(error)
            raise UsageError(
                f"the archive cannot be read: {said[:200] or type(error).__name__}.",
                where=str(path),
                next_step="Copy it again, or give the folder that it was unpacked to.",
            ) from None
        yield folder


def _extract(path: Path, folder: Path) -> None:
    """Extract the needed plain files, without names outside of the folder, links and devices."""
    count = size = inner = 0
    nodes: dict[tuple[str, ...], int] = {}
    with _opened(path) as raw:
        stream = _Ending(raw)
        with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as archive:
            for member in archive:
                count += 1
                if count > _MOST_FILES or size > _MOST_BYTES:
                    raise tarfile.TarError(f"it has more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB")
                parts = PurePosixPath(member.name).parts
                if "cluster-scoped-resources" in parts[:3]:
                    raise _only_pods(path, "--pods FOLDER -R, the folder that it was unpacked to")
                inner += member.name.endswith(_TARS) and len(parts) == _IN_COLLECTION
                place = _place(parts) if member.isreg() and member.size <= _MOST_FILE else None
                file = None if place is None else archive.extractfile(member)
                if file is not None and place is not None:
                    above, below = place
                    target = folder / str(nodes.setdefault(above, len(nodes))) / below
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(file.read(_MOST_FILE))
                    size += member.size
            end = archive.offset
        stream.must_end(end)
    if inner and not size:
        what = f"it is an archive of {inner} archives, as `sos collect` makes it."
        raise UsageError(what, where=str(path), next_step="Unpack it, and give the sosreports in it.")


def _opened(path: Path) -> BinaryIO:
    """An archive's tar, decompressed by its first bytes and not by its name."""
    with path.open("rb") as file:
        magic = file.read(6)
    for first, read in ((b"\x1f\x8b", gzip.open), (b"\xfd7zXZ\0", lzma.open), (b"BZh", bz2.open)):
        if magic.startswith(first):
            return cast("BinaryIO", read(path, "rb"))
    return path.open("rb")


class _Ending:
    """A stream of bytes that keeps how long it is, and where its zeros at the end begin.

    tarfile accepts a truncated tar, and takes a damaged header behind the first one for the end.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._size, self._zeros = raw, 0, 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all of them if negative; b"" at the end."""
        found = self._raw.read(size)
        if text := found.rstrip(b"\0"):
            self._zeros = self._size + len(text)
        self._size += len(found)
        return found

    def must_end(self, end: int) -> None:
        """Read the rest. Raises TarError if it is not the zeros that end every tar, a block of them at least.

        end: where the last member ends.
        """
        while self.read(1 << 20):
            pass
        if self._zeros > end:
            raise tarfile.TarError(f"it is damaged behind byte {end} of the tar")
        if self._size < end + tarfile.BLOCKSIZE:
            raise tarfile.TarError("it is truncated")


_TOPS = frozenset({"sys", "proc", "sos_commands", "hostname", "uname", "installed-rpms", "installed-debs"})
_TOP_PAIRS = frozenset({("etc", "os-release"), ("etc", "kubernetes"), ("etc", "openshift"), ("var", "lib")})
_DEEPEST = 3
"""The most folders above a node's files; sos makes one."""


def _place(parts: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    """The folders above a node's files, and a needed file's path below them; None for any other file."""
    if ".." in parts or parts[:1] == ("/",):
        return None
    for at in range(min(len(parts), _DEEPEST + 1)):
        if parts[at] in _TOPS or parts[at : at + 2] in _TOP_PAIRS:
            below = "/".join(parts[at:])
            return (parts[:at], below) if WANTED.fullmatch(below) else None
    return None
