"""Where a container's processes are, and whether it runs: the kernel bounds and counts only what is in its cgroup."""

from __future__ import annotations

from collections.abc import Iterable

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, TargetError
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerHandle, ContainerState, Runtime

__all__ = ["place_outside", "still_runs"]

SECONDS = 60.0
HEARING_SECONDS = 20.0
"""How long a runtime may take to notice that a container has ended."""

_DELETED = " (deleted)"
"""What stands behind the cgroup of a process that has ended, once that is removed (proc_cgroup_show)."""


def place_outside(tree: CgroupTree, whole: CgroupPath, pids: Iterable[int]) -> str:
    """The cgroup of the first of these processes that runs, and not in this one or below it; "" if there is none."""
    for pid in pids:
        try:
            path = tree.cgroup_of(pid, deadline=Deadline.after(SECONDS))
        except TargetError:
            continue
        if path != whole and not path.below(whole) and not str(path).endswith(_DELETED):
            return str(path)
    return ""


def still_runs(runtime: Runtime, handle: ContainerHandle) -> bool:
    """Whether a container runs, by the runtime's word, when it had time to notice that its processes are gone."""
    try:
        wait(
            "the runtime knows that the container has ended",
            lambda: runtime.status(handle, deadline=Deadline.after(SECONDS)),
            until=lambda status: status.state is not ContainerState.RUNNING,
            deadline=Deadline.after(HEARING_SECONDS),
        )
    except DeadlineError:
        return True
    return False
