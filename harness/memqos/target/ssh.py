"""A target over ssh with one master connection.

Opening the target makes the master connection. Every command, file and forward uses it, which takes hundredths of a
second instead of a whole one. Commands are lists, quoted once for the remote shell.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import MissingProgramError, TargetError
from memqos.target.base import CommandResult, Diagnosis, Starter, no_diagnosis
from memqos.target.carried import CarriedTarget
from memqos.target.container import bridged

__all__ = ["CONTROL", "SUDO", "SshTarget", "open_ssh"]

CONTROL = "control.sock"
"""The control socket of the master connection, in the folder for sockets."""

NO_OTHER = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
"""Without the master, ssh would open a new connection for each command, and the loss would go unnoticed."""

ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""A machine that sends nothing for 75 seconds counts as lost."""

SUDO = ("sudo", "-n", "--")
"""The prefix of commands for a user that is not root but has passwordless sudo."""

SSH_FAILED = 255
"""ssh's exit status for its own failures; a command may have the same status."""


class SshTarget(CarriedTarget):
    """A machine reached over an ssh master connection. Make it with `open_ssh`."""

    def __init__(
        self,
        *,
        address: str,
        host: str,
        options: Sequence[str],
        folder: Path,
        diagnose: Diagnosis,
        become: Sequence[str] = (),
    ) -> None:
        super().__init__(address=address, diagnose=diagnose)
        self._become = tuple(become)
        self._host = host
        self._options = tuple(options)
        self._folder = folder
        self._numbers = itertools.count(1)

    def _line(self, argv: Sequence[str]) -> list[str]:
        return ["ssh", *self._options, *NO_OTHER, self._host, shlex.join([*self._become, *argv])]

    @contextlib.contextmanager
    def forward(self, remote_socket: str) -> Iterator[Path]:
        """A local UNIX socket that leads to this UNIX socket of the target, over the master connection.

        sshd opens it with the user's own rights; for a user that becomes root by a program, that program carries each
        connection.
        """
        local = self._folder / f"forward{next(self._numbers)}.sock"
        if self._become:
            with bridged(self, remote_socket, local):
                yield local
            return
        route = ["-L", f"{local}:{remote_socket}"]
        self._control(["-O", "forward", *route], f"forwarding {remote_socket}")
        try:
            yield local
        finally:
            # If the connection is gone, so is the forward.
            self._ask("-O", "cancel", *route)
            local.unlink(missing_ok=True)

    def is_connected(self) -> bool:
        """Whether the master connection is up, as far as this side knows."""
        return self._ask("-O", "check").returncode == 0

    def hang_up(self) -> None:
        """End the master connection at once, and with it every command that uses it."""
        self._ask("-O", "exit")

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Send a control command to the master process."""
        return subprocess.run(["ssh", *self._options, *arguments, self._host], capture_output=True, check=False)

    def _control(self, arguments: Sequence[str], doing: str) -> None:
        told = self._ask(*arguments)
        if told.returncode != 0:
            raise self._diagnose(doing, lost=True) or TargetError(
                f"ssh failed at {doing}: {told.stderr.decode(errors='backslashreplace').strip()}", where=self._address
            )

    def _require_carried(self, doing: str, result: CommandResult) -> None:
        """Raise unless the master connection is still up: then 255 was the command's own status."""
        if 0 <= result.status != SSH_FAILED or (result.status > 0 and self.is_connected()):
            return
        raise self._diagnose(doing, lost=True) or TargetError(
            f"the connection was lost while {doing}: {result.error_text.strip()[-300:]}",
            where=self._address,
            next_step="Check whether the machine is still up.",
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )


def _start_master(start: Starter, options: list[str], destination: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the master process; its output goes to the log."""
    asking_nothing = ["-o", "BatchMode=yes", "-o", "StreamLocalBindUnlink=yes"]
    with log.open("wb") as output:
        try:
            return start(["ssh", *options, *asking_nothing, destination], output=output)
        except FileNotFoundError as error:
            raise MissingProgramError(
                "the program 'ssh' is not installed.",
                next_step="Install openssh-client (Debian, Ubuntu) or openssh-clients (Fedora, openSUSE).",
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
    further: Sequence[str] = (),
    diagnose: Diagnosis = no_diagnosis,
    become: Sequence[str] = (),
) -> Iterator[SshTarget]:
    """Connect, and keep the connection until the context ends.

    destination: ssh's argument: a host, or user@host; the login must not prompt, and must be root's. become: the prefix
    with which another user runs a command as root, such as sudo -n. address: the URL that names the target in reports.
    start: starts the master's process and owns it. folder: private and short-lived; receives the connection's sockets,
    so its path must be short. config: an ssh_config to use instead of the person's own. further: more of ssh's options,
    such as a port. diagnose: called when the connection fails, or a command takes too long.

    Raises TargetError with ssh's message if it cannot connect.
    """
    control = folder / CONTROL
    log = folder / "ssh.log"
    named = [*(["-F", str(config)] if config else []), *further]
    options = [*named, *ALIVE, "-S", str(control)]
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
            next_step=f"Try it by hand: {shlex.join(['ssh', *named, destination, 'true'])}",
            data={"status": master.returncode, "stderr": said},
        )
    target = SshTarget(
        address=address, host=destination, options=options, folder=folder, diagnose=diagnose, become=become
    )
    try:
        yield target
    finally:
        target.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            master.wait(2)
