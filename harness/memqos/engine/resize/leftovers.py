"""Leftovers of a resize: values of the old size, and the deviations that they cause.

Leftovers are values of the old size that no step writes.

Sources: kubernetes#138760 (containers that do not run), #142572 (memory QoS of the pod), #142569 (memory.high of a
container whose request is raised to its limit), #130657 (oom_score_adj).

In an audit a deviation counts as a leftover by its pattern.

A manifest does not have the pod's earlier size. A deviation is a leftover if the kubelet no longer sends or writes a
value for the file, all files that it did write have the new size, and the pod may have been resized.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memqos.engine.answer.finding import Finding, Subject, Verdict, subject_of
from memqos.engine.answer.verdict import NO_CGROUP, NOT_READ, NOT_STARTED, OOM_SCORE_ADJ
from memqos.engine.faults import FAULTS
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.pod.allocated import allocated, never_resized
from memqos.engine.pod.sums import amount
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Gate
from memqos.engine.resize.outcome import Left, Resize, StepKind
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.pod import Container, ContainerState, Pod, QosClass

__all__ = ["MEMORY_QOS", "Leftover", "left_behind", "leftovers"]


class Leftover(StrEnum):
    """Kinds of leftovers; known.toml uses these words."""

    STOPPED_CONTAINER = "stopped-container"
    POD_MEMORY_QOS = "pod-memory-qos"
    HIGH_AT_LIMIT = "high-at-limit"
    SCORE_OF_START = "score-of-start"


def _upstream(*faults: str) -> str:
    return ", ".join(FAULTS[name].upstream for name in faults)


_REASONS: Mapping[Leftover | None, tuple[str, str]] = {
    Leftover.STOPPED_CONTAINER: (
        "the resize skips a container that is not running, so the pod's cgroup is not written",
        _upstream("kubelet/resize-passes-over-stopped-containers"),
    ),
    Leftover.POD_MEMORY_QOS: (
        "a resize writes a pod's memory QoS only if it writes the memory limit (1.37.0), or never (up to 1.36)",
        _upstream("kubelet/resize-of-a-request-leaves-pod-protection", "kubelet/resize-leaves-pod-protection"),
    ),
    Leftover.HIGH_AT_LIMIT: (
        "the kubelet sends no memory.high for a request that equals the limit, and nothing removes the old one",
        _upstream("kubelet/resize-to-the-limit-leaves-memory-high"),
    ),
    Leftover.SCORE_OF_START: ("a process keeps the score that it was started with", "kubernetes#130657"),
    None: ("", ""),
}
"""Why a value stays, and its upstream report."""

_MEMORY_QOS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})


def left_behind(resize: Resize, new: Pod, after: Plan, fresh: Plan, *, ended: Collection[str] = ()) -> tuple[Left, ...]:
    """The values of the pod's cgroups after a completed resize that differ from a new pod of that size.

    after, fresh: the plans with the pod after the resize, and with a newly created pod. ended: the names of containers
    that have ended for good.
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
            subject=subject_of(container.cgroup, pod), cgroup=str(container.cgroup.path), knob=OOM_SCORE_ADJ,
            holds=str(container.oom_score_adj), anew=str(anew.oom_score_adj),
            cause=cause, upstream=upstream,
        )  # fmt: skip


def _value(pod: PlannedPod, cgroup: PlannedCgroup, held: Expected, anew: Expected, kind: Leftover | None) -> Left:
    cause, upstream = _REASONS[kind]
    return Left(
        subject=subject_of(cgroup, pod), cgroup=str(cgroup.path), knob=held.knob.value, holds=str(held.value),
        anew=str(anew.value), cause=cause, upstream=upstream,
    )  # fmt: skip


def _of_pod(resize: Resize, knob: Knob) -> Leftover | None:
    """Why a file of the pod's cgroup keeps its value."""
    writes = [one for one in resize.steps if one.kind is StepKind.POD_CGROUP and one.resource == knob.controller]
    updates = [one for one in resize.steps if one.kind is StepKind.UPDATE_CONTAINER and one.resource == knob.controller]
    if not writes and not updates and not any(one.kind is StepKind.STOP_CONTAINER for one in resize.steps):
        return Leftover.STOPPED_CONTAINER
    return Leftover.POD_MEMORY_QOS if knob in _MEMORY_QOS else None


MEMORY_QOS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})
"""The files of memory QoS; an earlier configuration may have left values there too."""

_PROTECTS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW})
_SIZES = frozenset(
    {
        Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.CPU_MAX, Knob.CPU_WEIGHT, Knob.CPU_SHARES,
        Knob.CPU_CFS_QUOTA_US,
    }
)  # fmt: skip
"""The files of a pod that depend on its requests and limits, without memory QoS."""

_BETWEEN_RUNS = frozenset({ContainerState.WAITING, ContainerState.TERMINATED})
_GONE = frozenset({NO_CGROUP, NOT_READ, NOT_STARTED})
"""Why a container without a cgroup is not observable; one whose files cannot be read may well run."""
_LIMITS = frozenset({Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES})


def leftovers(
    findings: Sequence[Finding], plan: Plan, pods: Iterable[Pod], kubelet: Kubelet
) -> Mapping[tuple[Subject, str], Leftover]:
    """The findings that are leftovers of a resize: (subject, knob) to the leftover.

    pods: with the statuses that their kubelet reports, if known.
    """
    if not enabled(Gate.RESIZE, kubelet.release, kubelet.settings.feature_gates):
        return {}
    given = {pod.uid: pod for pod in pods}
    by_subject: dict[Subject, list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.subject, []).append(finding)
    return {
        (finding.subject, finding.knob): kind
        for planned in plan.pods
        if planned.uid in given and not never_resized(given[planned.uid])
        for finding, kind in _Case(planned, allocated(given[planned.uid], kubelet), by_subject, kubelet).found()
    }


@dataclass(frozen=True, slots=True)
class _Case:
    """One pod that may have been resized."""

    planned: PlannedPod
    pod: Pod
    findings: Mapping[Subject, Sequence[Finding]]
    kubelet: Kubelet

    def found(self) -> Iterator[tuple[Finding, Leftover]]:
        """The leftovers in its cgroups."""
        containers = {one.name: one for one in self.pod.all_containers}
        for planned in self.planned.containers:
            for finding in self._of(planned):
                if self._is_high_at_limit(finding, planned, containers[planned.name]):
                    yield finding, Leftover.HIGH_AT_LIMIT
        own = [one for one in self.findings.get(self._pod_subject, ()) if one.verdict is Verdict.DEVIATES]
        stopped = any(self._is_of_stopped(finding) for finding in own)
        for finding in own:
            if self._is_of_stopped(finding):
                yield finding, Leftover.STOPPED_CONTAINER
            elif finding.knob in _PROTECTS and self._is_protection(finding):
                yield finding, Leftover.STOPPED_CONTAINER if stopped else Leftover.POD_MEMORY_QOS

    @property
    def _pod_subject(self) -> Subject:
        return subject_of(self.planned.cgroup, self.planned)

    def _of(self, container: PlannedContainer) -> Sequence[Finding]:
        return self.findings.get(subject_of(container.cgroup, self.planned), ())

    def _is_high_at_limit(self, finding: Finding, planned: PlannedContainer, container: Container) -> bool:
        """Whether memory.high fits a request below the limit: for a request equal to it the kubelet sends none."""
        if finding.verdict is not Verdict.DEVIATES or finding.knob != Knob.MEMORY_HIGH:
            return False
        expected, limit = planned.cgroup.knobs[Knob.MEMORY_HIGH], amount(container.resources.limits, "memory")
        held = _bytes(finding)
        at_limit = not limit.is_zero and amount(container.resources.requests, "memory") == limit
        sent = self.kubelet.memory_qos and self.kubelet.factor is not None
        burstable = self.planned.qos is QosClass.BURSTABLE
        return sent and burstable and at_limit and expected.written is ABSENT and 0 < held < limit.value

    def _is_protection(self, finding: Finding) -> bool:
        """Whether the pod protects its old request, and its containers their new ones."""
        return (
            self.kubelet.memory_qos
            and _bytes(finding) > 0
            and self.planned.cgroup.knobs[Knob(finding.knob)].written is not ABSENT
            and self._containers_have(finding.knob)
        )

    def _is_of_stopped(self, finding: Finding) -> bool:
        """Whether the pod's size differs from its containers', one of which was not running for some time."""
        if finding.knob not in _SIZES or not self._containers_have(finding.knob):
            return False
        status = self.pod.status
        if status is not None:
            return any(one.restarts or one.state in _BETWEEN_RUNS for one in status.containers.values())
        # There is no other cause for a pod smaller than one of its containers.
        limits = [one.cgroup.knobs[Knob(finding.knob)].value for one in self.planned.containers if one.cgroup.knobs]
        largest = max((one.count for one in limits if isinstance(one, Bytes)), default=0)
        return finding.knob in _LIMITS and 0 < _bytes(finding) < largest

    def _containers_have(self, knob: str) -> bool:
        """Whether a container's file has the allocated amount, and no file has another one.

        Without any container's file also whether all containers are between two runs: each next one gets the amount.
        """
        verdicts = {one.verdict for planned in self.planned.containers for one in self._of(planned) if one.knob == knob}
        if Verdict.DEVIATES in verdicts:
            return False
        return Verdict.CONFORMS in verdicts or self._is_between_runs

    @property
    def _is_between_runs(self) -> bool:
        """Whether no container runs, and each was restarted before (seen with 1.36.2).

        The status may still have one as running whose cgroup is gone: the kubelet has not noticed its end.
        """
        told = self.pod.status.containers.values() if self.pod.status is not None else ()
        gone = {one.name for one in self.planned.containers if any(found.why_not in _GONE for found in self._of(one))}
        return bool(told) and all(one.restarts and (one.state in _BETWEEN_RUNS or one.name in gone) for one in told)


def _bytes(finding: Finding) -> int:
    """The observed amount; 0 for "max" and for a text that is no amount."""
    value = Knob(finding.knob).parse(finding.observed)
    return value.count if isinstance(value, Bytes) else 0
