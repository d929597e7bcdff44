"""How a container's end is noticed: what the runtime reports once no process is left."""

from __future__ import annotations

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.errors import DeadlineError, NonconformanceError
from memqos.model.path import CgroupPath
from memqos.node.pods.refusal import SUBJECT
from memqos.runtime.base import ContainerState, ContainerStatus

__all__ = ["check_ended", "nonconforming", "not_ended"]


def check_ended(tree: CgroupTree, path: CgroupPath, status: ContainerStatus, *, deadline: Deadline) -> None:
    """Raise `not_ended` of a container whose end was awaited."""
    if error := not_ended(tree, path, status, deadline=deadline):
        raise error


def not_ended(
    tree: CgroupTree, path: CgroupPath, status: ContainerStatus, *, deadline: Deadline
) -> DeadlineError | NonconformanceError | None:
    """NonconformanceError if a status that was awaited is not of an ended container, although no process is left.

    path: the container's cgroup. DeadlineError if a process is left in it. None if it has ended.
    """
    if status.state is ContainerState.EXITED:
        return None
    if tree.processes(path, deadline=deadline):
        return DeadlineError(f"waiting until the container of {path} has ended: a process is left in it.")
    return nonconforming(
        Finding(
            verdict=Verdict.DEVIATES,
            subject=SUBJECT,
            cgroup=str(path),
            knob="state",
            set_by=Setter.RUNTIME,
            expected=ContainerState.EXITED.value,
            observed=status.state.value,
        )
    )


def nonconforming(finding: Finding) -> NonconformanceError:
    """The error that ends a case with this finding."""
    said = f"{finding.knob} of {finding.subject} is {finding.observed}, expected {finding.expected}"
    return NonconformanceError(said, data={"finding": finding})
