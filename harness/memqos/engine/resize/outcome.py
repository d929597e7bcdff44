"""The outcome of a resize: the values computed by this package."""

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
    """The outcome of one pod's resize, in the words of the pod's status if it has one.

    FORBIDDEN: the API server rejects the change. IGNORED: the kubelet does nothing and reports nothing.
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
        """Whether the kubelet then counts the pod with its new requests."""
        return self in {ResizeOutcome.ERROR, ResizeOutcome.IN_PROGRESS}


class StepKind(StrEnum):
    """The kind of a step: a call of the runtime, or a write to the pod's cgroup."""

    STOP_CONTAINER = "StopContainer"
    UPDATE_SANDBOX = "UpdatePodSandboxResources"
    POD_CGROUP = "pod cgroup"
    UPDATE_CONTAINER = "UpdateContainerResources"
    START_CONTAINER = "StartContainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Memory in use when the resize begins, in bytes: of the whole pod, and of containers by name."""

    pod: int | None = None
    containers: Mapping[str, int] = field(default_factory=dict)


class Activity(StrEnum):
    """The state of a container when its pod is resized.

    EXITED: it has ended; CRASH_LOOPING: it failed and waits for its restart.
    """

    RUNNING = "running"
    EXITED = "exited"
    CRASH_LOOPING = "crash-looping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A value of the old size that a resize leaves behind.

    subject: the cgroup's name for readers. knob: an interface file, or oom_score_adj. holds: the value that stays;
    anew: that of a new pod of the same size. cause: why no step writes it; "" if unknown. upstream: its
    report, "" for none.
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
    for the pod. message: what is sent to the runtime, None for a write. knobs: the written files of the cgroup with
    their resulting values; empty for none. past_driver: whether a write goes directly to the files, past the cgroup
    driver (up to 1.31). reach: the effect of a message for which the OCI runtime writes no interface file, or an
    unknown one; "" if it writes the container's files.
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
    """One pod's resize. message: the kubelet's or API server's, "" for none.

    left: the leftovers once it is carried out. volumes: what is known of memory-backed volumes that have another size
    in the request, "" for none.
    """

    name: str
    namespace: str
    uid: str
    outcome: ResizeOutcome
    reason: Reason
    message: str = ""
    steps: tuple[ResizeStep, ...] = ()
    left: tuple[Left, ...] = ()
    volumes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """The resizes of a node's pods in the kubelet's order, and the tree before and after.

    after: the files after all steps and after the kubelet's next write of the levels above pods.
    """

    resizes: tuple[Resize, ...]
    before: Plan
    after: Plan
