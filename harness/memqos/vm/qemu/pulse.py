"""A guest's pulse: a byte that it sends back every other second. A guest without one is considered hung.

The time limit counts only seconds for which the host let QEMU run: on a busy host a guest gets little CPU, and is slow
without being broken.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memqos.clock import SYSTEM_CLOCK, Clock, Deadline
from memqos.errors import DeadlineError
from memqos.target.base import Target

__all__ = ["PATIENCE", "PING_SECONDS", "Line", "Pulse", "ServedTime", "beating", "late_answer"]

_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Sample:
    """at: when it was taken. waited, ran: by thread id, the seconds that it waited to run, and ran, so far.

    wants: the threads that run or wait to. stolen: the seconds that the host's own hypervisor took from each of its
    CPUs, on average, so far.
    """

    at: float
    waited: Mapping[str, float]
    ran: Mapping[str, float]
    wants: frozenset[str]
    stolen: float


class ServedTime:
    """A clock that stops while the host keeps a thread of a process waiting for a CPU.

    Of several threads the one that waits longest counts: the others may only be waiting for it, as a guest's CPUs do
    for each other. The kernel counts a wait when it is over: a thread that wants to run and has not run since the last
    look has waited since then. Source: kernel, scheduler/sched-stats.rst (/proc/PID/task/TID/schedstat), proc(5) (state
    in stat, steal in /proc/stat). If the kernel does not report it, or the process is gone, all time counts.
    """

    def __init__(self, pid: int, *, proc: Path = Path("/proc"), clock: Clock = SYSTEM_CLOCK) -> None:
        self._tasks = proc / str(pid) / "task"
        self._stat = proc / "stat"
        self._clock = clock
        self._served = 0.0
        self._last = self._sample()

    def now(self) -> float:
        """Seconds served since its creation."""
        before, self._last = self._last, self._sample()
        passed = self._last.at - before.at
        shared = before.waited.keys() & self._last.waited.keys()
        waited = max((self._waited(one, before) for one in shared), default=0.0)
        self._served += passed - min(passed, waited + self._last.stolen - before.stolen)
        return self._served

    def _waited(self, thread: str, before: _Sample) -> float:
        last = self._last
        if thread in last.wants and last.ran[thread] == before.ran[thread]:
            return last.at - before.at
        return last.waited[thread] - before.waited[thread]

    def _sample(self) -> _Sample:
        waiting: dict[str, float] = {}
        running: dict[str, float] = {}
        wants: set[str] = set()
        try:
            folders = list(self._tasks.iterdir())
        except OSError:
            folders = []
        for folder in folders:
            # A thread may end during the reading.
            try:
                ran, waited, _ = (folder / "schedstat").read_text().split()
                waiting[folder.name], running[folder.name] = int(waited) / _NANOS, int(ran) / _NANOS
                # The process name, in parentheses, may have any character; the state comes after it.
                if (folder / "stat").read_text().rpartition(")")[2].split()[:1] == ["R"]:
                    wants.add(folder.name)
            except (OSError, ValueError):
                continue
        return _Sample(self._clock.now(), waiting, running, frozenset(wants), self._stolen())

    def _stolen(self) -> float:
        try:
            words = [line.split() for line in self._stat.read_text().splitlines() if line.startswith("cpu")]
            # The first line is the sum; user, nice, system, idle, iowait, irq, softirq, steal.
            return int(words[0][8]) / os.sysconf("SC_CLK_TCK") / max(1, len(words) - 1)
        except (OSError, ValueError, IndexError):
            return 0.0


EVERY = 2.0
"""Seconds from an answer to the next probe."""

PATIENCE = 6.0
"""Served seconds that a guest has for an answer."""

LIMIT = 60.0
"""Seconds after which a guest counts as hung however busy the host is."""

PING_SECONDS = 8.0
"""How long a guest may take to run a command that does nothing; less than PATIENCE of it must have been served."""

LOOK_EVERY = 0.25

ECHO = ("sh", "-c", "echo -1000 >/proc/self/oom_score_adj; exec cat")
"""Echoes its input, protected from the guest's OOM killer."""


class Line(Protocol):
    """A connection to a guest that can start programs."""

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """A program in the guest, with pipes for its standard input and output."""
        ...

    def is_connected(self) -> bool:
        """Whether the connection is open, as far as this side knows."""
        ...

    def hang_up(self) -> None:
        """Close the connection, and everything that waits on it."""
        ...


class Pulse:
    """Watches a connection from a thread of its own, and closes it when the guest has no pulse any more.

    silence: the finding, as the end of a sentence; "" until then.
    """

    def __init__(self, line: Line, pid: int) -> None:
        self.silence = ""
        self._line = line
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memqos-pulse", daemon=True)

    def start(self) -> None:
        """Begin to watch; the first probe comes after a while, so that it delays no boot."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY) and not self.silence and self._line.is_connected():
            # It ends with the connection; if a process in the guest kills it, another one starts.
            with _opened(self._line) as echo:
                while self._answers(echo) and not self._ended.wait(EVERY):
                    pass

    def _answers(self, echo: subprocess.Popen[bytes]) -> bool:
        """Probe once; False if there will be no answer, since the program ended or the guest is silent."""
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
                    f"it sent nothing back for {deadline.elapsed:.1f} s, of which it could run for {attended:.1f} s"
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
    """The pulse of a guest whose QEMU is this process, watched until the context ends."""
    pulse = Pulse(line, pid)
    pulse.start()
    try:
        yield pulse
    finally:
        pulse.stop()


def late_answer(target: Target, pid: int) -> DeadlineError | None:
    """Why a guest does not run a command that does nothing; None if it does."""
    served, deadline = ServedTime(pid), Deadline.after(LIMIT)
    while True:
        try:
            target.run(["true"], deadline=Deadline.after(PING_SECONDS))
        except DeadlineError as late:
            if served.now() >= PATIENCE or deadline.expired:
                return late
        else:
            return None
