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
        self._made: dict[str, tuple[int, str | None]] = {}
        self._running: set[str] = set()

    def add(self, container: str, pid: int, *, deadline: Deadline) -> None:
        """This container was made, and this is its first process, which waits to be started."""
        self._made[container] = (pid, self._birth(pid, deadline))

    def said_to_run(self, container: str) -> None:
        """The runtime said that it runs."""
        self._running.add(container)

    def still_runs(self, container: str, *, deadline: Deadline) -> bool:
        """Whether the runtime said that it runs, and its first process lives."""
        if container not in self._running or container not in self._made:
            return False
        pid, born = self._made[container]
        return born is not None and born == self._birth(pid, deadline)

    def forget(self, container: str) -> None:
        """It was removed."""
        self._made.pop(container, None)
        self._running.discard(container)

    def _birth(self, pid: int, deadline: Deadline) -> str | None:
        stat = self._target.read(f"/proc/{pid}/stat", deadline=deadline)
        return None if stat is None else birth(stat.decode("utf-8", "replace"))


def birth(stat: str) -> str | None:
    """When a process began, in ticks since the boot, of its /proc/PID/stat (proc_pid_stat(5)); None if it has ended.

    A pid is given anew in time, and the two together are not. One that nobody has waited for yet has ended, too.
    """
    state, *fields = stat.rpartition(")")[2].split() or [""]
    return None if state in {"", "Z", "X"} or len(fields) < _STARTTIME else fields[_STARTTIME - 1]
