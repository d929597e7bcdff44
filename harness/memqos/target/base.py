"""The port "a machine that can be reached": run, read, write, list, and the contract every adapter keeps.

A target knows nothing of cgroups or containers; it moves bytes and runs commands.

What a connection asks of the owner of the machine: to start its process, and why something failed.

What the programs of a machine say that they are.
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
    """What a command did: kept whole, so that it can be shown when it was not expected."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are shown as escapes."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def error_text(self) -> str:
        """Standard error as text, in the same way."""
        return self.stderr.decode("utf-8", "backslashreplace")


@runtime_checkable
class Target(Protocol):
    """A machine that can be reached. Every method raises TargetError when the machine cannot be."""

    @property
    def address(self) -> str:
        """A URL that names this target in reports: vm://trixie, ssh://root@node7, local://."""
        ...

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command, given as a list and never as a shell string, as root; a non-zero status is a result."""
        ...

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """A file's bytes, or None if there is no such file; any other obstacle raises TargetError."""
        ...

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """Put these bytes into a file in a single system call, as control files need it; a refusal raises TargetError.

        mode: permission bits for a regular file that is made or replaced; None leaves them as they are.
        """
        ...

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """The names in a folder, sorted, or None if there is no such folder."""
        ...

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """A program over there with pipes for its standard input and output, unbuffered; it ends with its input.

        A missing program ends at once, with a nonzero status. The caller ends it.
        """
        ...

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """A local UNIX socket that leads to this UNIX socket of the target, for as long as the context lives."""
        ...


@runtime_checkable
class ManyAtOnce(Protocol):
    """A target that reads and writes many files at once without starting a program for it."""

    def read_many(self, paths: Sequence[str], *, deadline: Deadline) -> Mapping[str, bytes | int] | None:
        """By path a file's bytes, or the errno with which it could not be read; None if it cannot do that now."""
        ...

    def write_many(self, paths: Sequence[str], data: bytes, *, deadline: Deadline) -> Mapping[str, int] | None:
        """Put these bytes into each of these files that are there, in a single system call.

        By path 0, or the errno with which it could not be written; None if it cannot do that now, or did it in part.
        """
        ...


def checked(result: CommandResult, *, where: str) -> CommandResult:
    """The result itself, or a TargetError if the command's status is not zero."""
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
    """A forward that needs no forwarding, for targets that are this very host."""
    yield Path(path)


class Starter(Protocol):
    """Starts the master connection's process; the owner of the machine's processes provides this."""

    def __call__(self, argv: Sequence[str | Path], *, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """The started process, without standard input, both its streams going to `output`."""
        ...


class Diagnosis(Protocol):
    """Whoever owns the machine may know better why something failed."""

    def __call__(self, doing: str, *, lost: bool) -> MachineryError | None:
        """The better error ("the kernel panicked"), or None.

        doing: what was being done. lost: the connection is gone; otherwise something only took too long.
        """
        ...


def no_diagnosis(doing: str, *, lost: bool) -> MachineryError | None:  # noqa: ARG001 - the port's signature
    """A machine of another owner: nothing more is known."""
    return None


VERSION = re.compile(r"(?:v|release-)?\d{1,9}\.\d[\w.+~:-]{0,60}|\d{1,5}", re.ASCII)
"""What a version looks like; the hash of a commit, which may begin with a digit too, is none."""


def version_in(text: str) -> str | None:
    """The version in a program's first line: the first word that begins like 1.2, or is a number; None without one."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if VERSION.fullmatch(word)), None)
