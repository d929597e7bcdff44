"""What becomes of a resize: the values that the rules of this package make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.engine.answer.finding import Subject
from memqos.engine.plan import Expected, Plan, Reason
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath

__all__ = ["Activity", "Left", "Resize", "ResizeOutcome", "ResizePlan", "ResizeStep", "StepKind", "Usage"]


class ResizeOutcome(StrEnum):
    """What becomes of one pod's resize; the words are those of the pod's status where it has one.

    FORBIDDEN: the API server takes no such change. IGNORED: the kubelet does nothing, and says nothing.
    INFEASIBLE and DEFERRED: the condition PodResizePending; a deferred resize is tried again. ERROR: the resize is
    allocated and in progress, and the kubelet fails to carry it out. IN_PROGRESS: it is carried out.
    """

    UNCHANGED = "Unchanged"
    FORBIDDEN = "Forbidden"
    IGNORED = "Ignored"
    INFEASIBLE = "Infeasible"
    DEFERRED = "Deferred"
    ERROR = "Error"
    IN_PROGRESS = "InProgress"

    @property
    def allocates(self) -> bool:
        """Whether the kubelet counts the pod with its new requests from then on."""
        return self in {ResizeOutcome.ERROR, ResizeOutcome.IN_PROGRESS}


class StepKind(StrEnum):
    """What the kubelet does in one step: a call of the runtime, or a write to the pod's cgroup."""

    STOP_CONTAINER = "StopContainer"
    UPDATE_SANDBOX = "UpdatePodSandboxResources"
    POD_CGROUP = "pod cgroup"
    UPDATE_CONTAINER = "UpdateContainerResources"
    START_CONTAINER = "StartContainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Memory in use when the resize begins, in bytes: of the pod as a whole, and of containers by their names."""

    pod: int | None = None
    containers: Mapping[str, int] = field(default_factory=dict)


class Activity(StrEnum):
    """What a container does when its pod is resized.

    EXITED: it has ended; CRASH_LOOPING: it failed, and waits to be started again.
    """

    RUNNING = "running"
    EXITED = "exited"
    CRASH_LOOPING = "crash-looping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A value that a resize leaves behind, though the pod's new size has another one.

    subject: what a reader calls the cgroup. knob: a control file, or oom_score_adj. holds: what it keeps; anew: what a
    pod of the new size, made anew, has. cause: why no step writes it; "" if that is not known. upstream: where that is
    reported, "" if nowhere.
    """

    subject: Subject
    cgroup: str
    knob: str
    holds: str
    anew: str
    cause: str = ""
    upstream: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStep:
    """One step, in the kubelet's order.

    resource: "memory" or "cpu", "" for a container that is stopped or started. path: the pod's cgroup. container: ""
    for the pod. message: what is sent to the runtime, None for a write. knobs: what the files of the cgroup hold after
    the step, as far as it writes them; empty where it writes none. past_driver: whether a write goes to the files
    alone, whatever the cgroup driver (up to 1.31). reach: what a message comes to where the OCI runtime writes no
    control file for it, or where that is not known; "" where it writes those of the container.
    """

    kind: StepKind
    resource: str
    path: CgroupPath
    reason: Reason
    container: str = ""
    message: ContainerResources | None = None
    knobs: Mapping[Knob, Expected] = field(default_factory=dict)
    past_driver: bool = False
    reach: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """One pod's resize. message: in the words of the kubelet or API server, "" where they say nothing.

    left: what it leaves behind once it is carried out.
    """

    name: str
    namespace: str
    uid: str
    outcome: ResizeOutcome
    reason: Reason
    message: str = ""
    steps: tuple[ResizeStep, ...] = ()
    left: tuple[Left, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """The resizes of a node's pods in the order in which the kubelet takes them, and the tree before and after.

    after: what the files hold when all steps are done and the levels above pods were written once more.
    """

    resizes: tuple[Resize, ...]
    before: Plan
    after: Plan
