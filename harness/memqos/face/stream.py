"""The stream of a face: standard output from before pytest's capture."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import threading
from typing import TextIO

__all__ = ["Output"]

_FALLBACK = (80, 24)


class Output(io.TextIOBase):
    """Writes to a duplicate of a stream's file, from any thread, at any time.

    A closed reader or a full disk raises once, in the main thread, which ends the run. Later output is lost, and so is
    output of other threads that cannot be written.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._lost = False
        stream.flush()
        try:
            handle = os.dup(stream.fileno())
        except (OSError, ValueError):  # a stream in memory
            self._own, self._stream = False, stream
        else:
            self._own = True
            self._stream = open(handle, "w", encoding=stream.encoding, errors="backslashreplace", newline="")  # noqa: SIM115, PTH123

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's own."""
        return self._stream.encoding or "utf-8"

    @property
    def speaks_unicode(self) -> bool:
        """Whether its encoding has non-ASCII characters."""
        return self.encoding.lower().replace("-", "").startswith("utf")

    @property
    def size(self) -> tuple[int, int]:
        """Current columns and lines of the terminal; 80 and 24 for anything else."""
        with contextlib.suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self._stream.fileno())
            if columns and lines:
                return columns, lines
        return _FALLBACK

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The duplicate's file descriptor; raises like a stream in memory."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write and flush."""
        with self._lock:
            if not self._lost:
                try:
                    self._stream.write(text)
                    self._stream.flush()
                except (OSError, ValueError):
                    if threading.current_thread() is threading.main_thread():
                        self._lost = True
                        raise
        return len(text)

    def check(self) -> None:
        """Raise BrokenPipeError, once, if the reader closed the pipe; needs no write."""
        if self._own and not self._lost and not self.isatty():
            poll = select.poll()
            poll.register(self._stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                self._lost = True
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        """Close the duplicate."""
        if self._own:
            self._own = False
            with contextlib.suppress(OSError, ValueError):
                self._stream.close()
        super().close()
