"""Which deviations of a node are what a resize of its pods leaves behind: values of an earlier size, by their pattern.

No manifest keeps the size that a pod had before. What tells a leftover is that the kubelet sends or writes nothing for
the file any more, that all files which it did write have the new size, and that the pod may have been resized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.verdict import subject
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedContainer, PlannedPod
from memqos.engine.pod.allocated import allocated
from memqos.engine.pod.started import never_resized
from memqos.engine.pod.sums import amount
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Gate
from memqos.engine.resize.left import Leftover
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.pod import Container, ContainerState, Pod, QosClass

__all__ = ["MEMORY_QOS", "leftovers"]

MEMORY_QOS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})
"""The files of memory QoS, which an earlier configuration may have left, too."""

_PROTECTS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW})
_SIZES = frozenset(
    {
        Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.CPU_MAX, Knob.CPU_WEIGHT, Knob.CPU_SHARES,
        Knob.CPU_CFS_QUOTA_US,
    }
)  # fmt: skip
"""The files of a pod that follow from its requests and limits, without memory QoS."""

_LIMITS = frozenset({Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES})


def leftovers(
    findings: Sequence[Finding], plan: Plan, pods: Iterable[Pod], kubelet: Kubelet
) -> Mapping[tuple[str, str], Leftover]:
    """What of these findings a resize has left behind: (subject, knob) to what it is.

    pods: with the statuses that their kubelet reports, as far as they are given.
    """
    if not enabled(Gate.RESIZE, kubelet.release, kubelet.settings.feature_gates):
        return {}
    given = {pod.uid: pod for pod in pods}
    by_subject: dict[str, list[Finding]] = {}
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
    findings: Mapping[str, Sequence[Finding]]
    kubelet: Kubelet

    def found(self) -> Iterator[tuple[Finding, Leftover]]:
        """What is left in its cgroups."""
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
    def _pod_subject(self) -> str:
        return subject(self.planned.cgroup, self.planned)

    def _of(self, container: PlannedContainer) -> Sequence[Finding]:
        return self.findings.get(subject(container.cgroup, self.planned), ())

    def _is_high_at_limit(self, finding: Finding, planned: PlannedContainer, container: Container) -> bool:
        """Whether memory.high is one of a request below the limit: the kubelet sends none for one that equals it."""
        if finding.verdict is not Verdict.DEVIATES or finding.knob != Knob.MEMORY_HIGH:
            return False
        expected, limit = planned.cgroup.knobs[Knob.MEMORY_HIGH], amount(container.resources.limits, "memory")
        held = _bytes(finding)
        at_limit = not limit.is_zero and amount(container.resources.requests, "memory") == limit
        sent = self.kubelet.memory_qos and self.kubelet.factor is not None
        burstable = self.planned.qos is QosClass.BURSTABLE
        return sent and burstable and at_limit and expected.written is ABSENT and 0 < held < limit.value

    def _is_protection(self, finding: Finding) -> bool:
        """Whether the pod protects what it requested before, and its containers what they request now."""
        return (
            self.kubelet.memory_qos
            and _bytes(finding) > 0
            and self.planned.cgroup.knobs[Knob(finding.knob)].written is not ABSENT
            and self._containers_have(finding.knob)
        )

    def _is_of_stopped(self, finding: Finding) -> bool:
        """Whether the pod has another size than its containers, one of which did not run for a while."""
        if finding.knob not in _SIZES or not self._containers_have(finding.knob):
            return False
        status = self.pod.status
        if status is not None:
            return any(
                one.restarts or one.state in {ContainerState.WAITING, ContainerState.TERMINATED}
                for one in status.containers.values()
            )
        # Nothing else makes a pod smaller than one of its containers.
        limits = [one.cgroup.knobs[Knob(finding.knob)].value for one in self.planned.containers if one.cgroup.knobs]
        largest = max((one.count for one in limits if isinstance(one, Bytes)), default=0)
        return finding.knob in _LIMITS and 0 < _bytes(finding) < largest

    def _containers_have(self, knob: str) -> bool:
        """Whether a container's file was seen to have what is allocated, and none to have something else."""
        verdicts = {one.verdict for planned in self.planned.containers for one in self._of(planned) if one.knob == knob}
        return Verdict.CONFORMS in verdicts and Verdict.DEVIATES not in verdicts


def _bytes(finding: Finding) -> int:
    """The amount that was seen; 0 for the word "max", and for what is no amount."""
    value = Knob(finding.knob).parse(finding.observed)
    return value.count if isinstance(value, Bytes) else 0
