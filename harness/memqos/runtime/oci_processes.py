"""Whether what an OCI runtime started still runs: asked of the kernel, as the shim of a CRI runtime asks.

A shim is told by the kernel when a container's first process has ended, and asks the runtime nothing. `state` takes a
program of its own each time, of which each takes hundredths of a second under emulation.
"""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.target.base import Target

__all__ = ["FirstProcesses", "birth"]

_STARTTIME = 19
"""The place of starttime among the fields of /proc/PID/stat that follow the state."""


class FirstProcesses:
    """The first process of each container on a target, and whether the runtime has said that the container runs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pids: dict[str, int] = {}
        self._running: dict[str, str] = {}

    def add(self, container: str, pid: int) -> None:
        """This container was made, and this is its first process."""
        self._pids[container] = pid

    def birth(self, container: str, *, deadline: Deadline) -> str | None:
        """When its first process began, see `birth`; None if it has ended, or nobody said which it is."""
        pid = self._pids.get(container)
        stat = None if pid is None else self._target.read(f"/proc/{pid}/stat", deadline=deadline)
        return None if stat is None else birth(stat.decode("utf-8", "replace"))

    def said_to_run(self, container: str, born: str | None) -> None:
        """The runtime said that it runs, after its first process was seen to live that began then."""
        if born is not None:
            self._running[container] = born

    def still_runs(self, container: str, born: str | None) -> bool:
        """Whether the process that began then is the one whose container the runtime said to run."""
        return born is not None and self._running.get(container) == born

    def forget(self, container: str) -> None:
        """It was removed."""
        self._pids.pop(container, None)
        self._running.pop(container, None)


def birth(stat: str) -> str | None:
    """When a process began, in ticks since the boot, of its /proc/PID/stat (proc_pid_stat(5)); None if it has ended.

    A pid is given anew in time, and the two together are not. One that nobody has waited for yet has ended, too.
    """
    state, *fields = stat.rpartition(")")[2].split() or [""]
    return None if state in {"", "Z", "X"} or len(fields) < _STARTTIME else fields[_STARTTIME - 1]
