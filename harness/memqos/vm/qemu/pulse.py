"""A guest's pulse: a byte that it sends back every other second. A guest without one has fallen silent.

How long it may take is counted in seconds for which the host let QEMU run: on a busy host a guest gets little of a
processor, and is slow without being broken.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from memqos.clock import Deadline
from memqos.errors import DeadlineError
from memqos.target.base import Target
from memqos.vm.host.served import ServedTime

__all__ = ["PATIENCE", "PING_SECONDS", "Line", "Pulse", "beating", "late_answer"]

EVERY = 2.0
"""Seconds from an answer to the next question."""

PATIENCE = 6.0
"""Served seconds that a guest has for an answer."""

LIMIT = 60.0
"""Seconds after which a guest counts as silent however busy the host is."""

PING_SECONDS = 8.0
"""How long a guest may take to run a command that does nothing; less than PATIENCE of it must have been served."""

LOOK_EVERY = 0.25

ECHO = ("sh", "-c", "echo -1000 >/proc/self/oom_score_adj; exec cat")
"""Sends back what it is sent, out of the reach of the guest's OOM killer."""


class Line(Protocol):
    """A connection to a guest that programs can be started over."""

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """A program over there, with pipes for its standard input and output."""
        ...

    def is_connected(self) -> bool:
        """Whether the connection stands, as far as this side knows."""
        ...

    def hang_up(self) -> None:
        """End the connection, and everything that waits on it."""
        ...


class Pulse:
    """Watches a line from a thread of its own, and hangs up when the guest has no pulse any more.

    silence: what is then known, as the end of a sentence; "" until then.
    """

    def __init__(self, line: Line, pid: int) -> None:
        self.silence = ""
        self._line = line
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memqos-pulse", daemon=True)

    def start(self) -> None:
        """Begin to watch; the first question comes after a while, so that it is in nobody's way."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY) and not self.silence and self._line.is_connected():
            # It ends with the connection; somebody in the guest may kill it, too: then there is another one.
            with _opened(self._line) as echo:
                while self._answers(echo) and not self._ended.wait(EVERY):
                    pass

    def _answers(self, echo: subprocess.Popen[bytes]) -> bool:
        """Ask once; False if there will be no answer, since the program ended or the guest is silent."""
        if echo.stdin is None or echo.stdout is None:
            return False
        try:
            os.write(echo.stdin.fileno(), b".")
        except BrokenPipeError:
            return False
        served, deadline = ServedTime(self._pid), Deadline.after(LIMIT)
        answer = select.poll()
        answer.register(echo.stdout, select.POLLIN)
        while not answer.poll(LOOK_EVERY * 1000):
            if self._ended.is_set():
                return False
            attended = served.now()
            if attended >= PATIENCE or deadline.expired:
                self.silence = (
                    f"it sent nothing back for {deadline.elapsed:.1f} s, of which its host let it run for "
                    f"{attended:.1f} s"
                )
                self._line.hang_up()
                return False
        return bool(os.read(echo.stdout.fileno(), 1))


@contextlib.contextmanager
def _opened(line: Line) -> Iterator[subprocess.Popen[bytes]]:
    with line.open(ECHO) as echo:
        try:
            yield echo
        finally:
            echo.kill()


@contextlib.contextmanager
def beating(line: Line, pid: int) -> Iterator[Pulse]:
    """The pulse of a guest whose QEMU is this process, watched for as long as the context lives."""
    pulse = Pulse(line, pid)
    pulse.start()
    try:
        yield pulse
    finally:
        pulse.stop()


def late_answer(target: Target, pid: int) -> DeadlineError | None:
    """What is known of a guest that does not come to run a command which does nothing; None if it runs it."""
    served, deadline = ServedTime(pid), Deadline.after(LIMIT)
    while True:
        try:
            target.run(["true"], deadline=Deadline.after(PING_SECONDS))
        except DeadlineError as late:
            if served.now() >= PATIENCE or deadline.expired:
                return late
        else:
            return None
