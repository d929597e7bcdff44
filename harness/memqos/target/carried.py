"""A target that is reached by a program of this host which carries commands over: ssh, docker exec, kubectl exec.

testinfra's connections run a command and give what it said. What they cannot pass is input, a deadline and a program
that one talks to, so the command lines are built here.
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
"""The status by which our remote scripts tell "there is no such file" from other obstacles."""

READ = f'[ -e "$1" ] || exit {NOT_THERE}; cat -- "$1" && exit; [ -e "$1" ] || exit {NOT_THERE}; exit 1'
"""The second look is for a control group that was removed in between."""

LIST = f'[ -d "$1" ] || exit {NOT_THERE}; find "$1/" -mindepth 1 -maxdepth 1 -printf "%f\\0"'

WRITE = 'dd of="$1" bs="$2" count=1 iflag=fullblock status=none'
"""dd collects the whole input, then makes one write(2)."""

WRITE_EMPTY = ': >"$1"'

REPLACE = (
    'dd of="$1.memqos" bs="$2" count=1 iflag=fullblock status=none && chmod "$3" "$1.memqos" && mv "$1.memqos" "$1"'
)
"""Another file in the old one's place: a program that is running can be replaced, but not written to."""


class CarriedTarget:
    """Commands, files and programs of a machine, all through command lines of this host.

    address: the URL that names the target in reports. diagnose: asked when a command takes too long or is not carried.
    """

    def __init__(self, *, address: str, diagnose: Diagnosis = no_diagnosis) -> None:
        self._address = address
        self._diagnose = diagnose

    def _line(self, argv: Sequence[str]) -> list[str]:
        """The command line of this host that runs this over there, with this side's input and output."""
        raise NotImplementedError

    def _require_carried(self, doing: str, result: CommandResult) -> None:
        """Raise TargetError if this is no result of the command's, but of what should have carried it."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The URL that names this target in reports."""
        return self._address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command; see the port.

        Raises DeadlineError if it does not end in time (what it started over there may go on), and TargetError, or
        what the machine's owner knows to say, if the connection is lost.
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
        """A program over there with pipes for its standard input and output; it ends with its input, or when killed."""
        return self._started(self._line(argv), stderr=subprocess.DEVNULL)

    def _started(self, line: Sequence[str], *, stderr: int) -> subprocess.Popen[bytes]:
        """In a group of its own: Ctrl-C at the terminal is for memqos, which may still need the machine."""
        try:
            return subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, process_group=0
            )
        except FileNotFoundError as error:
            raise MissingProgramError(
                f"the program '{line[0]}' is not installed, and {self._address} is reached by it.",
                data={"program": line[0]},
            ) from error

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        result = self.run(["sh", "-c", READ, "sh", path], deadline=deadline)
        return None if result.status == NOT_THERE else self._checked(result, f"reading {path}").stdout

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """One call of the kernel's write carries all of it; with a mode, put a new file in the old one's place.

        A write of no bytes truncates a regular file and does nothing to a control file.
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
