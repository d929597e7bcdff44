"""The target port: run commands and read, write and list files on a machine.

A target knows nothing about cgroups or containers.

Also here: the callbacks to the machine's owner (starting a connection's process, diagnosing a failure), version
numbers in the output of programs, and targets reached through a program on this host that runs commands there: ssh,
docker exec, kubectl exec. testinfra's connections run a command and return its output, but support no input, deadline
or interactive program. So memqos builds the command lines itself.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError, MissingProgramError, TargetError

__all__ = [
    "CarriedTarget",
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


NOT_THERE = 44
"""The exit status of memqos's remote scripts for a missing file."""

READ = f'[ -e "$1" ] || exit {NOT_THERE}; cat -- "$1" && exit; [ -e "$1" ] || exit {NOT_THERE}; exit 1'
"""The second test is for a cgroup that was removed in between."""

LIST = f'[ -d "$1" ] || exit {NOT_THERE}; find "$1/" -mindepth 1 -maxdepth 1 -printf "%f\\0"'

WRITE = 'dd of="$1" bs="$2" count=1 iflag=fullblock status=none'
"""dd reads the whole input, then makes one write(2)."""

WRITE_EMPTY = ': >"$1"'

REPLACE = (
    'dd of="$1.memqos" bs="$2" count=1 iflag=fullblock status=none && chmod "$3" "$1.memqos" && mv "$1.memqos" "$1"'
)
"""Replaces the file by rename: a running program's file can be replaced but not written to."""


class CarriedTarget:
    """Commands, files and programs of a machine, all through command lines on this host.

    address: the URL that names the target in reports. diagnose: called after a timeout or a lost connection.
    """

    def __init__(self, *, address: str, diagnose: Diagnosis = no_diagnosis) -> None:
        self._address = address
        self._diagnose = diagnose

    def _line(self, argv: Sequence[str]) -> list[str]:
        """The command line on this host that runs this command on the target, connected to its input and output."""
        raise NotImplementedError

    def _require_carried(self, doing: str, result: CommandResult) -> None:
        """Raise TargetError if this result comes from the connecting program instead of the command."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The URL that names this target in reports."""
        return self._address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command; see the port.

        Raises DeadlineError if it does not end in time (it may continue on the target), and TargetError, or the error
        of the machine's owner, if the connection is lost.
        """
        doing = f"running '{shlex.join(argv)[:200]}'"
        try:
            result = self._carry(argv, stdin=stdin, deadline=deadline)
        except subprocess.TimeoutExpired as expired:
            raise self._diagnose(doing, lost=False) or DeadlineError(
                f"'{shlex.join(argv)[:200]}' did not end within {expired.timeout:.1f} s.",
                where=self._address,
                data={"condition": f"'{shlex.join(argv)}' ends", "last": "running", "elapsed": deadline.elapsed},
            ) from None
        self._require_carried(doing, result)
        return result

    def _carry(self, argv: Sequence[str], *, stdin: bytes, deadline: Deadline) -> CommandResult:
        """Run a command; subprocess.TimeoutExpired if the deadline passes first."""
        started = deadline.clock.now()
        with self._started(self._line(argv), stderr=subprocess.PIPE) as process:
            try:
                stdout, stderr = process.communicate(stdin, timeout=deadline.remaining)
            except BaseException:
                process.kill()
                raise
        return CommandResult(
            argv=tuple(argv),
            status=process.returncode,
            stdout=stdout,
            stderr=stderr,
            seconds=deadline.clock.now() - started,
        )

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program on the target with pipes; it ends with its input, or when killed."""
        return self._started(self._line(argv), stderr=subprocess.DEVNULL)

    def _started(self, line: Sequence[str], *, stderr: int) -> subprocess.Popen[bytes]:
        """Start in a separate process group: Ctrl-C must reach only memqos, which may still need the machine."""
        try:
            return subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, process_group=0
            )
        except FileNotFoundError as error:
            raise MissingProgramError(
                f"the program '{line[0]}' is not installed, but {self._address} needs it.",
                data={"program": line[0]},
            ) from error

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        result = self.run(["sh", "-c", READ, "sh", path], deadline=deadline)
        return None if result.status == NOT_THERE else self._checked(result, f"reading {path}").stdout

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """One system call writes all bytes; with a mode, replace the file by a new one.

        A write of no bytes truncates a regular file and does nothing to an interface file.
        """
        script = REPLACE if mode is not None else WRITE if data else WRITE_EMPTY
        size = str(max(len(data), 1))
        argv = ["sh", "-c", script, "sh", path, size, *([f"{mode:o}"] if mode is not None else [])]
        self._checked(self.run(argv, deadline=deadline, stdin=data), f"writing {len(data)} bytes to {path}")

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """The names in a folder, sorted, or None if there is no such folder."""
        result = self.run(["sh", "-c", LIST, "sh", path], deadline=deadline)
        if result.status == NOT_THERE:
            return None
        names = self._checked(result, f"listing {path}").stdout.decode("utf-8", "surrogateescape")
        return tuple(sorted(name for name in names.split("\0") if name))

    def _checked(self, result: CommandResult, doing: str) -> CommandResult:
        if result.status == 0:
            return result
        said = result.error_text.strip() or result.text.strip()
        raise TargetError(
            f"{doing} failed: {said[-600:]}",
            where=self._address,
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )
