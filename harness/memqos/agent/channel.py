"""The agent's protocol: one JSON object a line; a line may announce a number of raw bytes after it.

Also whole files by os.read and os.write: under emulation this takes half the time of `open`.

Runs on both sides: nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import json
import os
import select
import time

TYPE_CHECKING = False
"""Importing typing would take a tenth of the start."""

if TYPE_CHECKING:
    from typing import Any


CHUNK = 1 << 16
"""Bytes, the capacity of a pipe."""


class GoneError(Exception):
    """The other side ended, sent nothing in time, or sent something that is not a line of JSON."""


class Channel:
    """A connection to the other side: one file descriptor to read from, one to write to."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes
        self._unread = b""

    def say(self, line: dict[str, Any], further: bytes = b"") -> None:
        """Send a line and the bytes that belong to it; OSError if the reader closed the connection."""
        self.give(json.dumps(line).encode() + b"\n" + further)

    def give(self, data: bytes) -> None:
        """Write all of these bytes."""
        while data:
            data = data[os.write(self._writes, data) :]

    def line(self, seconds: float | None = None) -> dict[str, Any]:
        """Receive the next line. seconds: the longest wait, None for no end. Raises GoneError."""
        end = None if seconds is None else time.monotonic() + seconds
        while (at := self._unread.find(b"\n")) < 0:
            self._unread += self._chunk(end)
        line, self._unread = self._unread[:at], self._unread[at + 1 :]
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise GoneError(f"it says {line[:80]!r}") from error

    def data(self, number: int, seconds: float) -> bytes:
        """Receive this many bytes within these seconds. Raises GoneError."""
        end = time.monotonic() + seconds
        parts, self._unread = [self._unread[:number]], self._unread[number:]
        missing = number - len(parts[0])
        while missing > 0:
            chunk = self._chunk(end)
            parts.append(chunk[:missing])
            self._unread = chunk[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _chunk(self, end: float | None) -> bytes:
        """The next bytes, if they arrive before `end`."""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        wait = None if end is None else max(0.0, end - time.monotonic()) * 1000
        chunk = os.read(self._reads, CHUNK) if poll.poll(wait) else b""
        if not chunk:
            raise GoneError("it sends nothing more")
        return chunk


def content(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes; OSError if it cannot be read."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to an existing file in one call, as interface files require; OSError if the kernel refuses it."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
