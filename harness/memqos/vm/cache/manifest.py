"""The manifest of an entry in the cache: written last, it vouches for the files beside it.

Of each file it keeps the size and a digest: of all of a small file, of samples of a large one. Reading them takes
milliseconds, and shows what a crash of the host, a copy that broke off or a hand in the wrong folder leave behind; not
a single bit that fell over: that takes the hash of the whole file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["read_manifest", "whole_digest", "write_manifest"]

WHOLE_BYTES = 4 << 20
"""Files up to this size are hashed whole."""

SAMPLES = 64
SAMPLE_BYTES = 4096
"""Of a larger file this many parts of this size are, evenly spread: a millisecond instead of seconds."""


BLOCK_BYTES = 1 << 20


def whole_digest(path: Path) -> str:
    """A hash of all that a file holds, however sparse it is: seconds for a machine's memory."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size, place = os.fstat(file.fileno()).st_size, 0
        while place < size:
            try:
                place = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # there is nothing but a hole up to the end
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
    """Freeze the files of the manifest's folder, put them on the disk for good, and then write the manifest.

    path: the manifest's own. facts: what it says besides its schema and its files. mode: the files' permissions.
    times: the files' times of change count too, so that an entry does not survive being copied.
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
    """What the manifest says; None if there is none, or a file is not what it says, or one of those needed is not told.

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
    """What is remembered of a file: its size, when it was changed, and the hash of its content or of samples of it."""
    status = path.stat()
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if status.st_size <= WHOLE_BYTES:
            digest.update(file.read())
        else:
            for number in range(SAMPLES):
                digest.update(os.pread(file.fileno(), SAMPLE_BYTES, status.st_size * number // SAMPLES))
    return {"bytes": status.st_size, "changed": status.st_mtime_ns, "sha256": digest.hexdigest()}
