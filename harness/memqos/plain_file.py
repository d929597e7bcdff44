"""Files that the user names, read whole: plain files alone, up to a size, and interrupted by a signal.

A device never ends, and a FIFO waits for a writer: reading either in one call would not return, nor heed SIGTERM.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from memqos.errors import UsageError

__all__ = ["check_plain", "read_bounded", "read_plain"]

_CHUNK = 1 << 20
_KINDS = (
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def read_plain(file: Path, *, most: int, where: str = "") -> bytes:
    """The bytes of a plain file, or of the one that a link leads to.

    most: in bytes; a longer file is refused. Raises OSError for what the system refuses, IsADirectoryError for a
    folder, UsageError for what is no plain file or too long, with `where` or else the file's name.
    """
    check_plain(file, where=where)
    # Another file may have come into its place: this way an open of a FIFO does not wait.
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        _refuse_special(os.fstat(handle), file, where)
        found = read_bounded(stream, most)
    if len(found) > most:
        raise UsageError(f"the file has more than {most >> 20} MiB, and is not read.", where=where or str(file))
    return found


def check_plain(file: Path, *, where: str = "") -> None:
    """Raise as `read_plain` does for what is no plain file, without opening it."""
    _refuse_special(file.stat(), file, where)


def _refuse_special(status: os.stat_result, file: Path, where: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise UsageError(
                f"it is {name}, not a plain file.", where=where or str(file), next_step="Write it to a file first."
            )


def read_bounded(stream: io.BufferedIOBase, most: int) -> bytes:
    """What a stream holds, one byte more than `most` at most; a piece at a time, so that signals are heeded."""
    pieces, size = [], 0
    while size <= most and (piece := stream.read(min(_CHUNK, most + 1 - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
