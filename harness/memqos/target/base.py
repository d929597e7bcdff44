"""The target port: run commands and read, write and list files on a machine.

A target knows nothing about cgroups or containers.

Also here: the callbacks to the machine's owner (starting a connection's process, diagnosing a failure), and version
numbers in the output of programs.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from memqos.clock import Deadline
from memqos.errors import MachineryError, TargetError

__all__ = [
    "CommandResult",
    "Diagnosis",
    "ManyAtOnce",
    "Starter",
    "Target",
    "checked",
    "no_diagnosis",
    "same_socket",
    "version_in",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command, kept whole for error messages."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 become escapes."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def error_text(self) -> str:
        """Standard error as text, in the same way."""
        return self.stderr.decode("utf-8", "backslashreplace")


@runtime_checkable
class Target(Protocol):
    """A machine. Every method raises TargetError if the machine cannot be reached."""

    @property
    def address(self) -> str:
        """A URL that names this target in reports: vm://trixie, ssh://root@node7, local://."""
        ...

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command, a list of words without a shell, as root; a non-zero status is a result."""
        ...

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """A file's bytes, or None if there is no such file; any other obstacle raises TargetError."""
        ...

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """Write these bytes to a file in one system call, as interface files require; a refusal raises TargetError.

        mode: permission bits of a new or replaced regular file; None keeps them.
        """
        ...

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """The names in a folder, sorted, or None if there is no such folder."""
        ...

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program on the machine with unbuffered pipes for standard input and output; it ends with its input.

        A missing program ends at once with a nonzero status. The caller ends the program.
        """
        ...

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """Forward a local UNIX socket to this UNIX socket of the target until the context ends."""
        ...


@runtime_checkable
class ManyAtOnce(Protocol):
    """A target that reads and writes many files at once without starting a program."""

    def read_many(self, paths: Sequence[str], *, deadline: Deadline) -> Mapping[str, bytes | int] | None:
        """By path, a file's bytes or the errno of the read; None if this is not possible now."""
        ...

    def write_many(self, paths: Sequence[str], data: bytes, *, deadline: Deadline) -> Mapping[str, int] | None:
        """Write these bytes to each of these existing files, each with one write(2).

        By path, 0 or the errno of the write; None if this is not possible now or happened only in part.
        """
        ...


def checked(result: CommandResult, *, where: str) -> CommandResult:
    """The result; TargetError if the command's status is not zero."""
    if result.status == 0:
        return result
    tail = result.error_text.strip() or result.text.strip()
    raise TargetError(
        f"'{' '.join(result.argv)}' ended with status {result.status}: {tail[-600:]}",
        where=where,
        data={"argv": result.argv, "status": result.status, "stdout": result.text, "stderr": result.error_text},
    )


@contextlib.contextmanager
def same_socket(path: str) -> Iterator[Path]:
    """The socket itself, for targets on this host."""
    yield Path(path)


class Starter(Protocol):
    """Starts the master connection's process; the owner of the machine's processes provides this."""

    def __call__(self, argv: Sequence[str | Path], *, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """Start the process without standard input, with both output streams in `output`."""
        ...


class Diagnosis(Protocol):
    """The machine's owner, which may know the cause of a failure."""

    def __call__(self, doing: str, *, lost: bool) -> MachineryError | None:
        """The better error ("the kernel panicked"), or None.

        doing: the failed action. lost: whether the connection is gone; otherwise the action took too long.
        """
        ...


def no_diagnosis(doing: str, *, lost: bool) -> MachineryError | None:  # noqa: ARG001 - the port's signature
    """For a machine of another owner: no better error."""
    return None


VERSION = re.compile(r"(?:v|release-)?\d{1,9}\.\d[\w.+~:-]{0,60}|\d{1,5}", re.ASCII)
"""The form of a version; a commit hash, which may also begin with a digit, does not match."""


def version_in(text: str) -> str | None:
    """The version in a program's first line: the first word that starts like 1.2 or is a number; None without one."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if VERSION.fullmatch(word)), None)
