"""A target in memory, for developing suites and for tests: files in a dictionary, and scripted commands.

It keeps the port's contract (see `contract`) but is not a machine: observations on it are not conformance results.
"""

from __future__ import annotations

import contextlib
import posixpath
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError, TargetError
from memqos.target.base import CommandResult, same_socket

__all__ = ["FakeAnswer", "FakeFiles", "FakeTarget", "Handler", "RefusedError"]

FakeAnswer = tuple[int, bytes, bytes]
"""A command's status, standard output and standard error."""

Handler = Callable[[Sequence[str], bytes, Deadline], FakeAnswer]
"""A script of a command, called with arguments, standard input and deadline."""


class RefusedError(Exception):
    """Why a file cannot be read, written or listed; internal to the fake."""


class FakeFiles(Protocol):
    """A part of the file system with its own behaviour, such as a cgroup tree; paths are absolute."""

    def read(self, path: str) -> bytes | None:
        """A file's bytes, None if it does not exist; RefusedError for other errors."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write these bytes with one call; RefusedError if they are not accepted."""
        ...

    def list(self, path: str) -> tuple[str, ...] | None:
        """The names in a folder, None if it does not exist."""
        ...


class _Dictionary:
    """Plain files; a folder exists while it contains something."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def read(self, path: str) -> bytes | None:
        """A file's bytes, None if there is none; RefusedError for a folder."""
        if path not in self.files and self.list(path) is not None:
            raise RefusedError("Is a directory")
        return self.files.get(path)

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file; RefusedError for a folder and for a missing parent folder."""
        folder = posixpath.dirname(path)
        if path not in self.files and self.list(folder) is None:
            raise RefusedError("No such file or directory")
        if self.list(path) is not None:
            raise RefusedError("Is a directory")
        self.files[path] = data

    def list(self, path: str) -> tuple[str, ...] | None:
        """The names in a folder, sorted; None for an empty one."""
        prefix = path.rstrip("/") + "/"
        inside = {name.removeprefix(prefix).split("/")[0] for name in self.files if name.startswith(prefix)}
        return tuple(sorted(inside)) if inside else None


class FakeTarget:
    """A target in memory.

    files: absolute path to content. commands: the beginning of an argument list to its script; the longest match
    counts. A few programs that contracts and waits use always exist: cat, printf, false, true and sleep. mounts: folder
    to the tree below it.
    """

    def __init__(
        self,
        *,
        address: str = "fake://",
        files: Mapping[str, bytes] | None = None,
        commands: Mapping[tuple[str, ...], Handler] | None = None,
        mounts: Mapping[str, FakeFiles] | None = None,
    ) -> None:
        self._address = address
        self._plain = _Dictionary(files or {})
        self._mounts = dict(mounts or {})
        self._commands: dict[tuple[str, ...], Handler] = {**_PROGRAMS, ("cat",): self._cat, **(commands or {})}
        self._lost: MachineryError | None = None
        self.ran: list[tuple[str, ...]] = []

    @property
    def address(self) -> str:
        """The URL that names this target."""
        return self._address

    def on(self, argv: tuple[str, ...], handler: Handler) -> None:
        """Script every command whose argument list begins like this one."""
        self._commands[argv] = handler

    def lose(self, error: MachineryError) -> None:
        """Break the connection: every later call of the target raises this."""
        self._lost = error

    def script(self, argv: tuple[str, ...]) -> Handler:
        """The script of exactly this beginning, to wrap it; KeyError without one."""
        return self._commands[argv]

    def put(self, path: str, content: bytes) -> None:
        """Make or replace a plain file and its folders, also below a mount that hides it."""
        self._plain.files[path] = content

    def append(self, path: str, content: bytes) -> None:
        """Append to a plain file; one that is missing counts as empty."""
        self._plain.files[path] = self._plain.files.get(path, b"") + content

    def take(self, path: str) -> bytes:
        """Remove a plain file and return its content; KeyError if it is missing."""
        return self._plain.files.pop(path)

    def file(self, path: str) -> bytes | None:
        """A plain file's content, None if it is missing."""
        return self._plain.files.get(path)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all plain files, sorted."""
        return tuple(sorted(self._plain.files))

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run the command's script; a command without one has status 127, as in a shell."""
        self._check_connected()
        words = tuple(argv)
        self.ran.append(words)
        fitting = [beginning for beginning in self._commands if words[: len(beginning)] == beginning]
        if not fitting:
            return CommandResult(argv=words, status=127, stdout=b"", stderr=f"{words[0]}: not found\n".encode())
        status, stdout, stderr = self._commands[max(fitting, key=len)](words, stdin, deadline)
        return CommandResult(argv=words, status=status, stdout=stdout, stderr=stderr)

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:  # noqa: ARG002 - nothing takes time here
        """A file's bytes, or None."""
        with self._translated(f"reading {path}"):
            return self._files(path).read(path)

    def write(
        self,
        path: str,
        data: bytes,
        *,
        deadline: Deadline,  # noqa: ARG002 - nothing takes time here
        mode: int | None = None,  # noqa: ARG002 - a fake has no permissions
    ) -> None:
        """Write these bytes to a file; its folder must exist."""
        with self._translated(f"writing {path}"):
            self._files(path).write(path, data)

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing takes time
        """The names in a folder, sorted, or None."""
        with self._translated(f"listing {path}"):
            return self._files(path).list(path)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start `cat`; any other program ends at once, like a missing one."""
        self._check_connected()
        words = ["cat"] if tuple(argv) == ("cat",) else ["sh", "-c", "exit 127"]
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """The path itself: the socket, if any, is on this host."""
        self._check_connected()
        return same_socket(remote_socket)

    def _check_connected(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _files(self, path: str) -> FakeFiles:
        self._check_connected()
        below = [folder for folder in self._mounts if path == folder or path.startswith(folder.rstrip("/") + "/")]
        return self._mounts[max(below, key=len)] if below else self._plain

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RefusedError as error:
            raise TargetError(f"{doing} failed: {error}.", where=self._address) from error

    def _cat(self, argv: Sequence[str], stdin: bytes, deadline: Deadline) -> FakeAnswer:
        contents = [self.read(path, deadline=deadline) for path in argv[1:]] or [stdin]
        found = [content for content in contents if content is not None]
        missing = len(found) < len(contents)
        return int(missing), b"".join(found), b"cat: No such file or directory\n" if missing else b""


def _printf(argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
    """Each word on its own line: the only printf format that is needed."""
    return 0, b"".join(word.encode() + b"\n" for word in argv[2:]), b""


def _sleep(argv: Sequence[str], _: bytes, deadline: Deadline) -> FakeAnswer:
    if float(argv[1]) > deadline.remaining:
        condition = f"'{' '.join(argv)}' ends"
        raise DeadlineError(
            f"{condition.removesuffix(' ends')} did not end in time.",
            data={"condition": condition, "last": "running", "elapsed": deadline.elapsed},
        )
    return 0, b"", b""


_PROGRAMS: dict[tuple[str, ...], Handler] = {
    ("true",): lambda *_: (0, b"", b""),
    ("false",): lambda *_: (1, b"", b""),
    ("printf", "%s\\n"): _printf,
    ("sleep",): _sleep,
}
