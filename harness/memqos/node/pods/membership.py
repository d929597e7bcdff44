"""Whether a container's processes are in its cgroup: the kernel bounds and counts only what is in it."""

from __future__ import annotations

from collections.abc import Iterable

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.errors import DeadlineError, TargetError
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerHandle, ContainerState, Runtime

__all__ = ["PROCESSES", "outside_finding", "place_outside", "still_runs"]

PROCESSES = "cgroup.procs"

SECONDS = 60.0
HEARING_SECONDS = 20.0
"""How long a runtime may take to notice that a container has ended."""

_DELETED = " (deleted)"
"""What stands behind the cgroup of a process that has ended, once that is removed (proc_cgroup_show)."""


def outside_finding(
    path: CgroupPath, *, subject: str, knob: str = PROCESSES, state: str = "", where: str = ""
) -> Finding:
    """A started container has a cgroup below its pod's, where the kubelet looks, and is in it.

    knob: what of it is missing, "cgroup" itself or "cgroup.procs". state: what the runtime says of the container, "" if
    it was not asked. where: the cgroup in which its processes run, "" if that is not known.
    """
    return Finding(
        verdict=Verdict.DEVIATES,
        subject=subject,
        cgroup=str(path),
        knob=knob,
        set_by=Setter.RUNTIME,
        expected="there",
        observed=f"none, of a container that is {state}" if state else "none",
        evidence={"its processes run in": where} if where else {},
    )


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
