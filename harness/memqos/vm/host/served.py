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
    """at: when it was taken. waited, ran: by thread id, the seconds that it waited to run, and ran, so far.

    wants: the threads that run or wait to. stolen: the seconds that the host's own host kept each of its processors
    from running, on average, so far.
    """

    at: float
    waited: Mapping[str, float]
    ran: Mapping[str, float]
    wants: frozenset[str]
    stolen: float


class ServedTime:
    """A clock that stands still while the host keeps a thread of a process waiting for a processor.

    Of several threads the one that waits longest counts: what the others do meanwhile may be no more than to wait for
    it, as a guest's processors do for each other. The kernel counts a wait when it is over: a thread that wants to run
    and did not since the last look has waited since then.
    Source: kernel, scheduler/sched-stats.rst (/proc/PID/task/TID/schedstat), proc(5) (state in stat, steal in
    /proc/stat). Where the kernel does not tell, or the process is gone, all time counts.
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
            # A thread may end while we look.
            try:
                ran, waited, _ = (folder / "schedstat").read_text().split()
                waiting[folder.name], running[folder.name] = int(waited) / _NANOS, int(ran) / _NANOS
                # Its name, in parentheses, may have any character; the state comes after it.
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
