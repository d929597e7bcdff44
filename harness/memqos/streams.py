"""Standard input, output and error of a memqos process: never missing, and never a lost write.

With PYTHONUNBUFFERED=1, as containers and CI set it, Python hands each text to write(2) once and ignores how much of it
was written: the rest of a text is lost when a disk fills, a file meets its limit, or a reader closes its pipe.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
from typing import Any, TextIO

__all__ = ["is_closed", "open_missing_streams", "write_whole"]

_STREAMS = ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))


def open_missing_streams() -> None:
    """Open /dev/null for each standard stream that this process was started without.

    Otherwise the next file that is opened gets the stream's number. Standard output refuses every write (EBADF), since
    an answer that no reader gets is no success; standard error takes them: it carries notes alone.
    """
    for number, name, mode in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def is_closed(stream: TextIO | None) -> bool:
    """Whether this process was started without this output: `open_missing_streams` has put a refusal in its place."""
    try:
        return stream is not None and fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, ValueError):
        return False


def write_whole() -> None:
    """Have standard output and error write all of a text or raise OSError, buffered or not; in memory nothing changes.

    Safe to call twice. A descriptor that another program made non-blocking is waited for.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        buffer = stream.buffer
        raw = buffer.raw if isinstance(buffer, io.BufferedWriter) else buffer
        if not isinstance(raw, io.FileIO):
            continue
        stream.flush()
        whole = _WholeFile(raw)
        is_buffered = raw is not buffer
        setattr(
            sys,
            name,
            io.TextIOWrapper(
                io.BufferedWriter(whole) if is_buffered else whole,
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering,
                write_through=not is_buffered,
            ),
        )
        _REPLACED.append(stream)


_REPLACED: list[TextIO] = []
"""The streams that were replaced: collecting one would close its descriptor."""


class _WholeFile(io.RawIOBase):
    """A file that is open for writing, whose write returns when everything is written."""

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__()
        self._raw = raw

    def write(self, data: Any, /) -> int:
        """All of the bytes, in as many calls as it takes; OSError from the one that the system refuses."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            try:
                done += os.write(self.fileno(), view[done:])
            except BlockingIOError:
                select.select([], [self.fileno()], [])
        return done

    def writable(self) -> bool:
        """Yes."""
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._raw.isatty()

    def fileno(self) -> int:
        """The descriptor."""
        return self._raw.fileno()

    def seekable(self) -> bool:
        """No: text is appended."""
        return False

    @property
    def mode(self) -> str:
        """As of any file."""
        return "wb"

    @property
    def name(self) -> object:
        """As of any file: "<stdout>" or the number."""
        return self._raw.name
