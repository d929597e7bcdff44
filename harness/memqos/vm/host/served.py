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
    """at: when it was taken. tasks: by thread id, the seconds that it ran and that it waited to run, so far.

    stolen: the seconds that the host's own host kept each of its processors from running, on average, so far.
    """

    at: float
    tasks: Mapping[str, tuple[float, float]]
    stolen: float


class ServedTime:
    """A clock that stands still while the host keeps a process waiting for a processor.

    It counts a second that a thread ran, and a second that none of them wanted to run; never more than what passed.
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
        shared = before.tasks.keys() & self._last.tasks.keys()
        ran = sum(self._last.tasks[one][0] - before.tasks[one][0] for one in shared)
        waited = max((self._last.tasks[one][1] - before.tasks[one][1] for one in shared), default=0.0)
        held = min(passed, waited + self._last.stolen - before.stolen)
        self._served += min(passed, ran + passed - held)
        return self._served

    def _sample(self) -> _Sample:
        tasks = {}
        try:
            folders = list(self._tasks.iterdir())
        except OSError:
            folders = []
        for folder in folders:
            # A thread may end while we look.
            try:
                ran, waited, _ = (folder / "schedstat").read_text().split()
                tasks[folder.name] = int(ran) / _NANOS, int(waited) / _NANOS
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
