"""The cache: images by content, the keys that open them, locks, and room for machines that run.

$MEMQOS_CACHE, else $XDG_CACHE_HOME/memqos, else ~/.cache/memqos
├── images/PROFILE-FINGERPRINT/   whole entries only: made beside as .building-…, renamed when finished
├── keys/                         one client key pair for ssh, 0600; each image has a host key of its own
├── locks/                        one file per thing that is made once
└── machines/                     disks of machines that run now
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memqos.clock import utc_now
from memqos.errors import EnvironmentNotAbleError, ImageError, NoSpaceError
from memqos.vm.host.programs import find_program
from memqos.vm.host.progress import Progress

__all__ = [
    "KEPT_NAME",
    "LOCK_NAME",
    "Cache",
    "Entry",
    "client_key",
    "default_cache",
    "disk_bytes",
    "kept_guard",
    "leftovers",
    "locked_folder",
    "make_key",
    "need_space",
    "no_space",
    "public_half",
    "remove_entry",
    "sweep",
    "whole_entries",
]

LOCK_NAME = "owner.lock"
KEPT_NAME = "kept.json"
"""In a folder that outlives its creator: JSON with the pid of the process that guards it, under "guard"."""

REMOVING_PREFIX = ".removing-"

ORPHAN_SECONDS = 60
"""A folder this old without a lock has no owner: its creator died between creating the folder and the lock."""


def default_cache(environment: Mapping[str, str]) -> Cache:
    """The cache that these environment variables choose."""
    if chosen := environment.get("MEMQOS_CACHE"):
        return Cache(root=Path(chosen).expanduser().absolute())
    if xdg := environment.get("XDG_CACHE_HOME"):
        return Cache(root=Path(xdg).absolute() / "memqos")
    return Cache(root=Path.home() / ".cache" / "memqos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache folder; it and its parts are created when first needed."""

    root: Path

    def folder(self, name: str, *, mode: int = 0o755) -> Path:
        """One of the cache's own folders, created if missing.

        Raises EnvironmentNotAbleError if the cache is not writable, or belongs to another user: what root created in it
        would be unusable for its owner.
        """
        path = self.root / name
        try:
            path.mkdir(mode=mode, parents=True, exist_ok=True)
            owner = path.stat().st_uid
        except OSError as error:
            raise EnvironmentNotAbleError(
                f"the cache cannot be written: {error.strerror}.",
                where=str(path),
                next_step="Name another folder in MEMQOS_CACHE.",
                data={"folder": str(path)},
            ) from error
        if owner != os.geteuid():
            raise EnvironmentNotAbleError(
                f"the cache belongs to another user (uid {owner}).",
                where=str(path),
                next_step="Name a folder of your own in MEMQOS_CACHE.",
                data={"folder": str(path), "uid": owner},
            )
        return path

    @property
    def images(self) -> Path:
        """The folder of complete images."""
        return self.folder("images")

    @contextlib.contextmanager
    def lock(self, name: str, *, progress: Progress, waiting: str) -> Iterator[None]:
        """Hold a lock of this name; if another process has it, show `waiting` and wait."""
        handle = os.open(self.folder("locks") / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.note(waiting)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def need_space(folder: Path, needed: int) -> None:
    """Raise NoSpaceError if a folder's disk has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise no_space(folder, free=free, needed=needed)


def no_space(folder: Path, *, free: int, needed: int) -> NoSpaceError:
    """The error for a full disk, with its numbers in MiB."""
    return NoSpaceError(
        f"the disk has {free >> 20} MiB free, but {needed >> 20} MiB are needed.",
        where=str(folder),
        next_step="Free some space (`memqos vm rm --all` removes cached images), or name another folder "
        "in MEMQOS_CACHE.",
        data={"folder": str(folder), "free": free, "needed": needed},
    )


@contextlib.contextmanager
def locked_folder(base: Path, prefix: str) -> Iterator[Path]:
    """A new folder, 0700, with a lock in it that is held until the context ends; removed at its end.

    A folder with a file named KEPT_NAME stays while the process named in it lives.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        if not (folder / KEPT_NAME).exists():
            shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def sweep(base: Path, prefix: str) -> None:
    """Remove leftovers of dead owners: memqos's own folders of this prefix whose lock is free."""
    for folder in _orphans(base, prefix):
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(base: Path, *prefixes: str) -> list[Path]:
    """What `sweep` would remove for these prefixes, and entries whose removal was interrupted; by name."""
    interrupted = [folder for folder in base.glob(f"{REMOVING_PREFIX}*") if folder.is_dir()]
    return sorted([*interrupted, *(folder for prefix in prefixes for folder in _orphans(base, prefix))])


def _orphans(base: Path, prefix: str) -> Iterator[Path]:
    for folder in base.glob(f"{prefix}*"):
        with contextlib.suppress(FileNotFoundError):
            if folder.is_dir() and folder.stat().st_uid == os.geteuid() and _is_orphan(folder):
                yield folder


def kept_guard(folder: Path) -> int | None:
    """The process that guards a kept folder; None if the folder is not kept, or that process is gone.

    The guard's command line has the folder's path, so another process with its pid is not mistaken for it.
    """
    try:
        guard = int(json.loads((folder / KEPT_NAME).read_bytes())["guard"])
        arguments = Path(f"/proc/{guard}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return guard if os.fsencode(folder) in arguments else None


def disk_bytes(folder: Path) -> int:
    """Disk use of a folder's files, in bytes; sparse files take less than their size."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A folder of the cache whose files match its manifest."""

    folder: Path
    manifest: Mapping[str, object]

    @property
    def name(self) -> str:
        """Its origin and the fingerprint of everything in it: the folder's name."""
        return self.folder.name

    @property
    def used_bytes(self) -> int:
        """Disk use of its files, in bytes; sparse files take less than their size."""
        return disk_bytes(self.folder)


_Whole = TypeVar("_Whole", bound=Entry)


def whole_entries(folder: Path, load: Callable[[Path], _Whole | None]) -> Iterator[_Whole]:
    """The complete entries in a folder, by name; damaged ones and those under construction are skipped."""
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(".") and (entry := load(path)):
            yield entry


def remove_entry(folder: Path) -> None:
    """Remove an entry: renamed first, so that no process finds half of it; machines that run from it are unaffected."""
    doomed = folder.with_name(f"{REMOVING_PREFIX}{folder.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    # `memqos vm prune` may be removing it as well.
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(doomed)


def _is_orphan(folder: Path) -> bool:
    if kept_guard(folder) is not None:
        return False
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return utc_now().timestamp() - folder.stat().st_mtime > ORPHAN_SECONDS
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    finally:
        os.close(handle)
    return True


def client_key(cache: Cache, *, progress: Progress) -> Path:
    """The private key that the cache's machines accept; created at first use, readable by its owner only."""
    folder = cache.folder("keys", mode=0o700)
    key = folder / "id_ed25519"
    with cache.lock("keys", progress=progress, waiting="waiting for another process that is creating the ssh keys"):
        if not (key.exists() and public_half(key).exists()):
            fresh = folder / "fresh"
            for path in (fresh, public_half(fresh)):
                path.unlink(missing_ok=True)
            make_key(fresh)
            # The private half last: it is what the next process looks for.
            public_half(fresh).rename(public_half(key))
            fresh.rename(key)
    return key


def make_key(path: Path) -> None:
    """Create an ed25519 key pair without a passphrase: PATH and PATH.pub."""
    told = subprocess.run(
        [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "memqos", "-f", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise ImageError(f"ssh-keygen failed: {(told.stderr or told.stdout).strip()}", where=str(path))


def public_half(key: Path) -> Path:
    """The path of a private key's public half."""
    return key.with_name(f"{key.name}.pub")
