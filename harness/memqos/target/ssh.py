"""A target over ssh: testinfra's backend, one kept connection, and what its `run` cannot pass (input, a deadline).

One master connection is made when the target is opened; every command, file and forward goes through it, which
takes hundredths of a second instead of one. Commands are lists: they are quoted once, for the other end's shell.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from testinfra.backend.ssh import SshBackend

from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, MissingProgramError, TargetError
from memqos.target.base import CommandResult
from memqos.target.owner import Diagnosis, Starter, no_diagnosis

__all__ = ["CONTROL", "SshTarget", "open_ssh"]

CONTROL = "control.sock"
"""The kept connection's socket, in the folder given for sockets."""

NO_OTHER = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
"""Without the kept connection ssh would make a new one for each command, and nobody would notice the loss."""

SSH_FAILED = 255
"""ssh's own status for a failure of its own, which a command's status may be too."""

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


class _Backend(SshBackend):  # type: ignore[misc]  # testinfra's base is typed, its import is not
    """testinfra's backend, which also passes standard input and keeps a deadline."""

    def execute(self, argv: Sequence[str], *, stdin: bytes, deadline: Deadline) -> CommandResult:
        """Run a command; subprocess.TimeoutExpired if the deadline passes first."""
        template, arguments = self._build_ssh_command(shlex.join(argv))
        local = shlex.split(self.quote(" ".join(template), *arguments))
        started = deadline.clock.now()
        # A group of its own: a Ctrl-C at the terminal is for us, who may still want to ask the machine something.
        with subprocess.Popen(
            local, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        ) as process:
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


class SshTarget:
    """A machine reached over a kept ssh connection. Make it with `open_ssh`."""

    def __init__(
        self,
        *,
        address: str,
        backend: _Backend,
        host: str,
        options: Sequence[str],
        folder: Path,
        diagnose: Diagnosis,
    ) -> None:
        self._address = address
        self._backend = backend
        self._host = host
        self._options = tuple(options)
        self._folder = folder
        self._diagnose = diagnose
        self._numbers = itertools.count(1)

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
            result = self._backend.execute(argv, stdin=stdin, deadline=deadline)
        except subprocess.TimeoutExpired as expired:
            raise self._diagnose(doing, lost=False) or DeadlineError(
                f"'{shlex.join(argv)[:200]}' did not end within {expired.timeout:.1f} s.",
                where=self._address,
                data={"condition": f"'{shlex.join(argv)}' ends", "last": "running", "elapsed": deadline.elapsed},
            ) from None
        if result.status == SSH_FAILED or result.status < 0:
            self._require_connection(doing, result)
        return result

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

    @contextlib.contextmanager
    def forward(self, remote_socket: str) -> Iterator[Path]:
        """A local UNIX socket that leads to this UNIX socket of the target, over the kept connection."""
        local = self._folder / f"forward{next(self._numbers)}.sock"
        route = ["-L", f"{local}:{remote_socket}"]
        self._control(["-O", "forward", *route], f"forwarding {remote_socket}")
        try:
            yield local
        finally:
            # The connection may be gone, and the forward with it: then there is nothing left to cancel.
            self._ask("-O", "cancel", *route)
            local.unlink(missing_ok=True)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """A program over there with pipes for its standard input and output; it ends with its input, or when killed."""
        return subprocess.Popen(
            ["ssh", *self._options, *NO_OTHER, self._host, shlex.join(argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
        )

    def is_connected(self) -> bool:
        """Whether the kept connection stands, as far as this side knows."""
        return self._ask("-O", "check").returncode == 0

    def hang_up(self) -> None:
        """End the kept connection at once, and with it every command that waits on it."""
        self._ask("-O", "exit")

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Ask the process that keeps the connection."""
        return subprocess.run(["ssh", *self._options, *arguments, self._host], capture_output=True, check=False)

    def _control(self, arguments: Sequence[str], doing: str) -> None:
        told = self._ask(*arguments)
        if told.returncode != 0:
            raise self._diagnose(doing, lost=True) or TargetError(
                f"ssh failed at {doing}: {told.stderr.decode(errors='backslashreplace').strip()}", where=self._address
            )

    def _require_connection(self, doing: str, result: CommandResult) -> None:
        """Raise unless the kept connection still stands, in which case 255 was the command's own status."""
        if result.status > 0 and self.is_connected():
            return
        raise self._diagnose(doing, lost=True) or TargetError(
            f"the connection was lost while {doing}: {result.error_text.strip()[-300:]}",
            where=self._address,
            next_step="See whether the machine is still up.",
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )

    def _checked(self, result: CommandResult, doing: str) -> CommandResult:
        if result.status == 0:
            return result
        said = result.error_text.strip() or result.text.strip()
        raise TargetError(
            f"{doing} failed: {said[-600:]}",
            where=self._address,
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )


def _start_master(start: Starter, options: list[str], destination: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the process that holds the connection; what it says goes to the log."""
    asking_nothing = ["-o", "BatchMode=yes", "-o", "StreamLocalBindUnlink=yes"]
    with log.open("wb") as output:
        try:
            return start(["ssh", *options, *asking_nothing, destination], output=output)
        except FileNotFoundError as error:
            raise MissingProgramError(
                "the program 'ssh' is not installed.",
                next_step="Install it: apt-get install --no-install-recommends openssh-client",
                data={"program": "ssh"},
            ) from error


@contextlib.contextmanager
def open_ssh(
    destination: str,
    *,
    address: str,
    deadline: Deadline,
    start: Starter,
    folder: Path,
    config: Path | None = None,
    diagnose: Diagnosis = no_diagnosis,
) -> Iterator[SshTarget]:
    """Connect, and keep the connection for as long as the context lives.

    destination: what ssh is given: a host, or user@host; it must let us in without a question, as root.
    address: the URL that names the target in reports.
    start: starts the master's process and owns it.
    folder: private and short-lived; receives the connection's sockets, so its path must be short.
    config: an ssh_config to use instead of the person's own.
    diagnose: asked when the connection fails, or a command takes too long.

    Raises TargetError with what ssh said if it cannot connect.
    """
    control = folder / CONTROL
    log = folder / "ssh.log"
    options = [*(["-F", str(config)] if config else []), "-S", str(control)]
    master = _start_master(start, [*options, "-M", "-N"], destination, log)
    wait(
        f"ssh connects to {destination}",
        lambda: control.exists() or master.poll() is not None,
        deadline=deadline,
        every=0.01,
    )
    if not control.exists():
        said = log.read_text(errors="backslashreplace").strip()
        raise diagnose(f"connecting (ssh said: {said[-300:] or 'nothing'})", lost=True) or TargetError(
            f"ssh could not connect: {said[-600:]}",
            where=address,
            next_step=f"Try it by hand: ssh {destination} true",
            data={"status": master.returncode, "stderr": said},
        )
    backend = _Backend(
        destination,
        ssh_config=str(config) if config else None,
        ssh_extra_args=shlex.join(["-S", str(control), *NO_OTHER]),
    )
    target = SshTarget(
        address=address, backend=backend, host=destination, options=options, folder=folder, diagnose=diagnose
    )
    try:
        yield target
    finally:
        target.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            master.wait(2)
