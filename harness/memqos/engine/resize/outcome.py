"""The outcome of a resize: the values computed by this package, as text and as a JSON document.

The document: memqos_format, release, resizes (in the kubelet's order), changes (of files and messages of the tree, as
in `memqos expect --diff`). A resize: name, namespace, uid, outcome, message, reason, volumes, steps, left (leftovers:
subject, cgroup, knob, holds, anew, cause, upstream). A step: kind, resource, cgroup (path), container, cri (the
message), knobs (written, value, reason), reason; empty fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from memqos.engine.answer.difference import differences, differences_document, differences_text
from memqos.engine.answer.document import FORMAT, expected_document, reason_document
from memqos.engine.answer.explain import reason_lines, shown_amount, written_text
from memqos.engine.answer.finding import Subject
from memqos.engine.plan import Expected, Plan, Reason
from memqos.engine.releases.release import titled
from memqos.engine.translate.explain import cri_document
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath

__all__ = [
    "Activity",
    "Left",
    "Resize",
    "ResizeOutcome",
    "ResizePlan",
    "ResizeStep",
    "StepKind",
    "Usage",
    "resize_document",
    "resize_reasons",
    "resize_text",
]


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


def resize_text(plan: ResizePlan) -> str:
    """Every resize with its steps and changes."""
    count = f"{len(plan.resizes)} resize{'s' if len(plan.resizes) > 1 else ''}"
    lines = [f"Kubernetes {titled(plan.before.release)}, cgroup driver {plan.before.driver}: {count}"]
    for one in plan.resizes:
        lines += ["", _head(one), *reason_lines(one.reason, indent="  ")]
        lines += [f"  {one.volumes}"] if one.volumes else []
        for number, step in enumerate(one.steps, start=1):
            lines += [f"  {number}. {_title(step)}", f"     {step.reason.rule}", *_said(step)]
        lines += _left(one)
    changed = differences_text(differences(plan.before, plan.after), "before", "after")
    return "\n".join([*lines, "", changed])


def resize_reasons(plan: ResizePlan, knob: Knob) -> str:
    """The steps that write one interface file, with the reasons of its value, and the resizes without such a step."""
    parts = []
    for one in plan.resizes:
        lines = [_head(one), *reason_lines(one.reason, indent="  ")]
        for number, step in enumerate(one.steps, start=1):
            if knob in step.knobs:
                written = step.knobs[knob]
                text = shown_amount(written.value if written.written is ABSENT else written.written)
                text = written_text(written) if written.undecided else text
                lines += [f"  {number}. {_title(step)}: {knob} {text}"]
                lines += reason_lines(written.reason, indent="     ")
                lines += reason_lines(step.reason, indent="     ")
        if not any(knob in step.knobs for step in one.steps):
            lines.append(f"  no step writes {knob}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def resize_document(plan: ResizePlan) -> dict[str, Any]:
    """All of it."""
    changes = differences_document(differences(plan.before, plan.after), "before", "after")
    return {
        "memqos_format": FORMAT,
        "release": plan.before.release,
        "resizes": [
            {
                "name": one.name,
                "namespace": one.namespace,
                "uid": one.uid,
                "outcome": one.outcome.value,
                "message": one.message,
                "reason": reason_document(one.reason),
                "volumes": one.volumes,
                "steps": [_step(step) for step in one.steps],
                "left": [
                    {field.name: getattr(left, field.name) for field in fields(left)} | {"subject": str(left.subject)}
                    for left in one.left
                ],
            }
            for one in plan.resizes
        ],
        "changes": changes["changes"],
    }


def _head(one: Resize) -> str:
    return f"pod {one.namespace}/{one.name}: {one.outcome}{f': {one.message}' if one.message else ''}"


def _title(step: ResizeStep) -> str:
    whose = f"of container {step.container}" if step.container else "of the pod"
    return f"{step.kind} {f'({step.resource}) ' if step.resource else ''}{whose}"


def _said(step: ResizeStep) -> Iterator[str]:
    if step.message is not None:
        fields = cri_document(step.message)
        unified = fields.pop("unified", {})
        fields.pop("hugepage_limits", None)
        said = [f"{name}={value}" for name, value in (*fields.items(), *unified.items())]
        yield f"       sends  {' '.join(said)}"
    if step.knobs:
        written = [
            f"{knob}={one.shown if one.undecided or one.written is ABSENT else one.written}"
            for knob, one in step.knobs.items()
        ]
        yield f"       writes {'; '.join(written)}"
    if step.reach:
        yield f"       {step.reach}"


def _left(resize: Resize) -> Iterator[str]:
    if resize.left:
        yield "  left behind:"
    for one in resize.left:
        yield f"    {one.knob} of {one.subject} stays {one.holds}; after recreation it is {one.anew}"
        if one.cause:
            yield f"      {one.cause} ({one.upstream})"


def _step(step: ResizeStep) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": step.kind.value,
        "resource": step.resource,
        "cgroup": str(step.path),
        "container": step.container,
        "cri": cri_document(step.message) if step.message is not None else {},
        "knobs": {knob.value: expected_document(one) for knob, one in step.knobs.items()},
        "reach": step.reach,
        "reason": reason_document(step.reason),
    }
    return {name: value for name, value in found.items() if value}
