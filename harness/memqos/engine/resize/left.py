"""What a resize leaves behind: values of the old size that no step writes, and why not.

Sources: kubernetes#138760 (containers that do not run), #142572 (memory QoS of the pod), #142569 (memory.high of a
container whose request is raised to its limit), #130657 (oom_score_adj).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from memqos.engine.answer.verdict import OOM_SCORE_ADJ, subject
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.pod.sums import amount
from memqos.engine.resize.outcome import Left, Resize, StepKind
from memqos.model.knob import ABSENT, Knob
from memqos.model.pod import Pod

__all__ = ["Leftover", "left_behind"]


class Leftover(StrEnum):
    """What a resize leaves behind, by its reason; known.toml has these words."""

    STOPPED_CONTAINER = "stopped-container"
    POD_MEMORY_QOS = "pod-memory-qos"
    HIGH_AT_LIMIT = "high-at-limit"
    SCORE_OF_START = "score-of-start"


_REASONS: Mapping[Leftover | None, tuple[str, str]] = {
    Leftover.STOPPED_CONTAINER: (
        "a container that does not run is passed over by the resize, so that the pod's cgroup is not written",
        "kubernetes#138760",
    ),
    Leftover.POD_MEMORY_QOS: (
        "memory QoS of a pod is written where a resize writes its memory limit (1.37.0), or in no resize (up to 1.36)",
        "kubernetes#142572, kubernetes#140262",
    ),
    Leftover.HIGH_AT_LIMIT: (
        "the kubelet sends no memory.high for a request that equals the limit, and nothing takes the old one away",
        "kubernetes#142569",
    ),
    Leftover.SCORE_OF_START: ("a process keeps the score that it was started with", "kubernetes#130657"),
    None: ("", ""),
}
"""Why a value stays, and where that is reported."""

_MEMORY_QOS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})


def left_behind(resize: Resize, new: Pod, after: Plan, fresh: Plan, *, ended: Collection[str] = ()) -> tuple[Left, ...]:
    """What the pod's cgroups hold after a resize that is carried out, and a pod of the new size would not.

    after, fresh: the plans with the pod as it then stands, and as it would be made anew. ended: the names of containers
    that have ended for good, which hold nothing.
    """
    pod, anew = after.pod(resize.uid), fresh.pod(resize.uid)
    pairs = [pair for pair in zip(pod.containers, anew.containers, strict=True) if pair[0].name not in ended]
    return (*_at_pod(resize, pod, anew), *(one for pair in pairs for one in _in_container(new, pod, *pair)))


def _at_pod(resize: Resize, pod: PlannedPod, anew: PlannedPod) -> Iterator[Left]:
    for knob, one in pod.cgroup.knobs.items():
        if one.value != anew.cgroup.knobs[knob].value:
            yield _value(pod, pod.cgroup, one, anew.cgroup.knobs[knob], _of_pod(resize, knob))


def _in_container(new: Pod, pod: PlannedPod, container: PlannedContainer, anew: PlannedContainer) -> Iterator[Left]:
    [resources] = [one.resources for one in new.all_containers if one.name == container.name]
    at_limit = amount(resources.requests, "memory") == amount(resources.limits, "memory")
    for knob, one in container.cgroup.knobs.items():
        fresh = anew.cgroup.knobs.get(knob, one)
        if one.value != fresh.value:
            high = knob is Knob.MEMORY_HIGH and at_limit and fresh.written is ABSENT
            yield _value(pod, container.cgroup, one, fresh, Leftover.HIGH_AT_LIMIT if high else None)
    if container.oom_score_adj != anew.oom_score_adj:
        cause, upstream = _REASONS[Leftover.SCORE_OF_START]
        yield Left(
            subject=subject(container.cgroup, pod), cgroup=str(container.cgroup.path), knob=OOM_SCORE_ADJ,
            holds=str(container.oom_score_adj), anew=str(anew.oom_score_adj),
            cause=cause, upstream=upstream,
        )  # fmt: skip


def _value(pod: PlannedPod, cgroup: PlannedCgroup, held: Expected, anew: Expected, kind: Leftover | None) -> Left:
    cause, upstream = _REASONS[kind]
    return Left(
        subject=subject(cgroup, pod), cgroup=str(cgroup.path), knob=held.knob.value, holds=str(held.value),
        anew=str(anew.value), cause=cause, upstream=upstream,
    )  # fmt: skip


def _of_pod(resize: Resize, knob: Knob) -> Leftover | None:
    """Why a file of the pod's cgroup stays as it is."""
    writes = [one for one in resize.steps if one.kind is StepKind.POD_CGROUP and one.resource == knob.controller]
    updates = [one for one in resize.steps if one.kind is StepKind.UPDATE_CONTAINER and one.resource == knob.controller]
    if not writes and not updates and not any(one.kind is StepKind.STOP_CONTAINER for one in resize.steps):
        return Leftover.STOPPED_CONTAINER
    return Leftover.POD_MEMORY_QOS if knob in _MEMORY_QOS else None
