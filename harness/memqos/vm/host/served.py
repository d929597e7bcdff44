"""How much of the time that passes a process can use: on a busy host it waits for a processor for most of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import SYSTEM_CLOCK, Clock

__all__ = ["ServedTime"]

_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Sample:
    """at: when it was taken. waited: by thread id, the seconds that it waited to run, so far.

    stolen: the seconds that the host's own host kept each of its processors from running, on average, so far.
    """

    at: float
    waited: Mapping[str, float]
    stolen: float


class ServedTime:
    """A clock that stands still while the host keeps a thread of a process waiting for a processor.

    Of several threads the one that waits longest counts: what the others do meanwhile may be no more than to wait for
    it, as a guest's processors do for each other.
    Source: kernel, scheduler/sched-stats.rst (/proc/PID/task/TID/schedstat), proc(5) (steal in /proc/stat). Where the
    kernel does not tell, or the process is gone, all time counts.
    """

    def __init__(self, pid: int, *, proc: Path = Path("/proc"), clock: Clock = SYSTEM_CLOCK) -> None:
        self._tasks = proc / str(pid) / "task"
        self._stat = proc / "stat"
        self._clock = clock
        self._served = 0.0
        self._last = self._sample()

    def now(self) -> float:
        """Seconds served since it was made."""
        before, self._last = self._last, self._sample()
        passed = self._last.at - before.at
        shared = before.waited.keys() & self._last.waited.keys()
        waited = max((self._last.waited[one] - before.waited[one] for one in shared), default=0.0)
        self._served += passed - min(passed, waited + self._last.stolen - before.stolen)
        return self._served

    def _sample(self) -> _Sample:
        tasks: dict[str, float] = {}
        try:
            folders = list(self._tasks.iterdir())
        except OSError:
            folders = []
        for folder in folders:
            # A thread may end while we look.
            try:
                _, waited, _ = (folder / "schedstat").read_text().split()
                tasks[folder.name] = int(waited) / _NANOS
            except (OSError, ValueError):
                continue
        return _Sample(self._clock.now(), tasks, self._stolen())

    def _stolen(self) -> float:
        try:
            words = [line.split() for line in self._stat.read_text().splitlines() if line.startswith("cpu")]
            # The first line is the sum; user, nice, system, idle, iowait, irq, softirq, steal.
            return int(words[0][8]) / os.sysconf("SC_CLK_TCK") / max(1, len(words) - 1)
        except (OSError, ValueError, IndexError):
            return 0.0
