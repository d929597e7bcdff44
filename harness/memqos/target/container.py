"""A target that is a container: a kind node on this host (docker exec), or a pod of a cluster (kubectl exec).

Without native socket forwarding, a program in the container carries each connection to a UNIX socket there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from memqos.errors import TargetError
from memqos.target.base import CommandResult
from memqos.target.carried import CarriedTarget

__all__ = ["ContainerTarget"]

_CHUNK = 1 << 16

_SPEAK = """\
import os, socket, sys, threading
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
def to_there():
    while data := os.read(0, 65536):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=to_there, daemon=True).start()
while data := there.recv(65536):
    os.write(1, data)
"""

_SPEAK_PERL = """\
use IO::Select; use IO::Socket::UNIX;
my $there = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$ARGV[0]: $!";
my $both = IO::Select->new(\\*STDIN, $there);
while ($both->count) {
  for my $from ($both->can_read) {
    my $done = sysread($from, my $data, 65536);
    if ($from == $there) { exit unless $done; }
    elsif (!$done) { $both->remove($from); shutdown($there, 1); next; }
    my ($to, $at) = ($from == $there ? \\*STDOUT : $there, 0);
    while ($at < $done) { $at += syswrite($to, $data, $done - $at, $at) || exit; }
  }
}
"""
_CARRY = (
    "sh",
    "-c",
    """\
command -v socat >/dev/null && exec socat - "UNIX-CONNECT:$1"
command -v python3 >/dev/null && exec python3 -c "$2" "$1"
exec perl -e "$3" "$1"
""",
    "sh",
)
"""Connects its input and output with a socket, by socat, python3 or perl: nodes of kind have perl alone."""


class _Opens(Protocol):
    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """A program in the container, with pipes."""
        ...


@contextlib.contextmanager
def bridged(target: _Opens, remote_socket: str, local: Path) -> Iterator[None]:
    """Listen on a new local socket and forward each connection to the target's socket until the context ends."""
    programs: list[subprocess.Popen[bytes]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(local))
        listener.listen()

        def serve() -> None:
            # Closing the listener ends this.
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    program = target.open([*_CARRY, remote_socket, _SPEAK, _SPEAK_PERL])
                    programs.append(program)
                    _join(connection, program)

        thread = threading.Thread(target=serve, name="memqos-bridge", daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for program in programs:
                program.kill()
                program.wait()
            local.unlink(missing_ok=True)


def _join(connection: socket.socket, program: subprocess.Popen[bytes]) -> None:
    """Copy both directions, each in its own thread, until either side ends."""
    assert program.stdin is not None  # noqa: S101 - the port promises both
    assert program.stdout is not None  # noqa: S101
    there, back = program.stdin, program.stdout

    def out() -> None:
        with contextlib.suppress(OSError), there:
            while data := connection.recv(_CHUNK):
                there.write(data)

    def home() -> None:
        with contextlib.suppress(OSError), connection, back:
            while data := os.read(back.fileno(), _CHUNK):
                connection.sendall(data)
            # Closing alone leaves the other thread's recv, and so the connection, open.
            connection.shutdown(socket.SHUT_RDWR)

    for carry in (out, home):
        threading.Thread(target=carry, name="memqos-bridge", daemon=True).start()


TROUBLES = ("Error response from daemon", "Error: No such container", "Error from server", "error: ", "Unable to")
"""Prefixes of docker's and kubectl's own errors; their exit status for these can also be a command's."""


class ContainerTarget(CarriedTarget):
    """words: the command line up to the command to run inside. folder: a private folder for forwarded sockets."""

    def __init__(self, words: Sequence[str], *, address: str, folder: Path) -> None:
        super().__init__(address=address)
        self._words = tuple(words)
        self._folder = folder
        self._numbers = itertools.count(1)

    def _line(self, argv: Sequence[str]) -> list[str]:
        return [*self._words, *argv]

    def _require_carried(self, doing: str, result: CommandResult) -> None:
        said = result.error_text.strip()
        if result.status >= 0 and not (result.status and said.startswith(TROUBLES)):
            return
        raise TargetError(
            f"{self._words[0]} failed at {doing}: {said[-300:] or 'it was killed'}",
            where=self.address,
            next_step="Check whether the container runs.",
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )

    @contextlib.contextmanager
    def forward(self, remote_socket: str) -> Iterator[Path]:
        """Forward a local UNIX socket; a program inside the container carries each connection."""
        local = self._folder / f"bridge{next(self._numbers)}.sock"
        with bridged(self, remote_socket, local):
            yield local
