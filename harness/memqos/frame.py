"""The frame around every process of memqos: what any exception is to the user, and what to do when a stream is lost.

Only a finding may end a process with 1, and Python ends with 1 whenever nothing handles an exception: so everything is
handled here. What the host refuses is an error of the tree, and an unexpected exception is one too: exit code 3, one
sentence, and a crash file with everything that a developer needs.

Standard input, output and error of a memqos process: never missing, and never a lost write.

With PYTHONUNBUFFERED=1, as containers and CI set it, Python hands each text to write(2) once and ignores how much of it
was written: the rest of a text is lost when a disk fills, a file meets its limit, or a reader closes its pipe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import platform
import resource
import select
import shlex
import stat
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, TextIO

from memqos.clock import utc_now
from memqos.errors import EnvironmentNotAbleError, MachineryError, MemqosError, NoSpaceError, UsageError
from memqos.version import __version__

__all__ = ["CRASH_FILE", "flush", "is_closed_pipe", "known", "lead_nowhere", "of_the_host"]

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


CRASH_FILE = "crash.txt"
"""Its name in a results folder; elsewhere it has the time in its name."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_LARGER = "Raise the limit on the size of files (ulimit -f), and call again."
_NO_TEMPORARY = "No usable temporary directory"
"""What Python's tempfile says where it can write four bytes nowhere."""
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ENXIO, errno.ESTALE})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOLCK})


def of_the_host(error: BaseException, *, where: str = "", next_step: str = "") -> MemqosError | None:
    """The error of the tree that this is if the host refused something: room, a right, memory. None if it did not.

    where, next_step: what the caller knows; a file that the error names comes first, and a general advice last.
    """
    if isinstance(error, MemoryError):
        return EnvironmentNotAbleError(
            "there is not enough memory.", where=where, next_step=next_step or "Free some, and call again."
        )
    if not isinstance(error, OSError):
        return None
    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else where
    what = f"{error.strerror}."
    if what.startswith(_NO_TEMPORARY):
        advice = _LARGER if _is_limited() else "Free some space in one of these, or name another in TMPDIR."
        return EnvironmentNotAbleError(what, next_step=advice)
    if error.errno in _FULL:
        advice = next_step or "Free some space, and call again."
        return NoSpaceError(what, where=place, next_step=_LARGER if error.errno == errno.EFBIG else advice)
    general = {
        **dict.fromkeys(_REFUSED, "Mend its permissions or its disk, or name another place."),
        **dict.fromkeys(_EXHAUSTED, "Raise the limit, or run less at a time."),
    }
    if error.errno not in general:
        return None
    return EnvironmentNotAbleError(what, where=place, next_step=next_step or general[error.errno])


def _is_limited() -> bool:
    """Whether this process may not even write files of a page."""
    return 0 <= resource.getrlimit(resource.RLIMIT_FSIZE)[0] < resource.getpagesize()


def known(error: BaseException, *, keep: Path | None = None, sentence: str = "") -> MemqosError:
    """Any exception as an error of the tree. An unexpected one leaves a crash file.

    keep: the folder for that file, if there is one that is better than the host's for temporary files.
    sentence: what is unexpected about it, where that is not in the exception itself.
    """
    if isinstance(error, MemqosError):
        return error
    if isinstance(error, OSError) and error.errno == errno.EBADF and is_closed(sys.stdout):
        return UsageError(
            "standard output is closed.", next_step="Redirect it to a file, or to /dev/null to discard the answer."
        )
    if refused := of_the_host(error, where="standard output" if _is_full(sys.stdout) else ""):
        return refused
    file = _crash_file(error, keep)
    said = sentence or traceback.format_exception_only(error)[-1].strip()
    return MachineryError(
        f"this was not expected: {said.splitlines()[0].rstrip('.')}.",
        next_step=f"What is needed to mend it is in {file}." if file else "Call again with --debug to see where.",
        data={"crash_file": str(file or "")},
    )


def flush() -> OSError | None:
    """Write what standard output and standard error still hold; what came in the way of it."""
    trouble = None
    for stream in (sys.stderr, sys.stdout):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            trouble = error
        except ValueError:
            pass  # it is closed
    return trouble


def lead_nowhere(stream: TextIO | None) -> None:
    """Let what is still written to a stream that was lost go nowhere: Python would complain of it at its end."""
    # A stream in memory has no number, and a closed one nothing to lose.
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def is_closed_pipe(error: BaseException) -> bool:
    """Whether this is because the reader of standard output or standard error (head, less) has ended.

    click makes a SystemExit with code 1 of it.
    """
    lost = _has_no_reader(sys.stdout) or _has_no_reader(sys.stderr)
    return lost and isinstance(error, BrokenPipeError | SystemExit)


def _has_no_reader(stream: TextIO | None) -> bool:
    try:
        number = -1 if stream is None else stream.fileno()
    except (OSError, ValueError):
        return False
    if number < 0:
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _is_full(stream: TextIO | None) -> bool:
    """Whether nothing more can be written to a stream for want of room."""
    try:
        number = -1 if stream is None else stream.fileno()
        # A device says so of nothing, too; a file does not, but its disk does.
        return number >= 0 and os.write(number, b"") == 0 and os.fstatvfs(number).f_bavail == 0 and _is_file(number)
    except OSError as error:
        return error.errno in _FULL
    except ValueError:
        return False


def _is_file(number: int) -> bool:
    return stat.S_ISREG(os.fstat(number).st_mode)


def _crash_file(error: BaseException, keep: Path | None) -> Path | None:
    """Where everything about an unexpected error was written; None if nothing can be written anywhere."""
    text = "\n".join(
        [
            f"memqos {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"{utc_now().isoformat(timespec='seconds')}, in {_here()}",
            shlex.join(sys.argv),
            *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("MEMQOS_")),
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    if keep is not None:
        with contextlib.suppress(OSError):
            file = keep / CRASH_FILE
            file.write_text(text, encoding="utf-8", errors="backslashreplace")
            return file
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(prefix="memqos-crash-", suffix=".txt")
        os.close(handle)
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace")
        return Path(name)
    return None


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "a removed folder"
