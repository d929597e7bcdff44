"""A target reached through a program on this host that runs commands there: ssh, docker exec, kubectl exec.

testinfra's connections run a command and return its output, but support no input, deadline or interactive program. So
memqos builds the command lines itself.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MissingProgramError, TargetError
from memqos.target.base import CommandResult, Diagnosis, no_diagnosis

__all__ = ["CarriedTarget"]

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
