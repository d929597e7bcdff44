"""What a behaviour rests on: knobs whose planned values must be there before anything the kernel does means something.

A runtime that leaves memory.swap.max at max lets a program swap as the kernel does without a limit. What the kernel
did then says nothing about the limit that was planned; that the limit is not there says all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memqos.engine import verdict
from memqos.engine.finding import Finding, Verdict
from memqos.engine.plan import PlannedContainer, PlannedPod
from memqos.errors import UsageError
from memqos.model.knob import Knob
from memqos.node.conditions import Sample

__all__ = ["Premises"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """These knobs of one container and of its pod, at least one, each planned for at least one of the two.

    Raises UsageError for knobs that are not.
    """

    pod: PlannedPod
    planned: PlannedContainer
    knobs: tuple[Knob, ...]

    def __post_init__(self) -> None:
        known = {*self.pod.cgroup.knobs, *self.planned.cgroup.knobs}
        if not self.knobs or not known.issuperset(self.knobs):
            unknown = ", ".join(knob for knob in self.knobs if knob not in known)
            raise UsageError(
                f"nothing plans {unknown} for pod {self.pod.namespace}/{self.pod.name}, so no behaviour can rest on it."
                if unknown
                else f"no knob is named that the behaviour of pod {self.pod.namespace}/{self.pod.name} rests on.",
                next_step="Name the control files whose planned values the test takes for granted: rests_on=[…].",
            )

    def judge(self, samples: Sequence[Sample]) -> tuple[Finding, ...]:
        """Each knob over all samples (at least one): the first deviation, with its time, stands for the whole.

        What could be read in no sample is not observable.
        """
        judged = [self._in(sample) for sample in samples]
        began = samples[0].reading.at
        return tuple(
            _over_time(findings, [sample.reading.at - began for sample in samples])
            for findings in zip(*judged, strict=True)
        )

    def broken(self, samples: Sequence[Sample]) -> str:
        """The premise that does not hold, as one sentence; "" if none was seen to be broken."""
        for finding in self.judge(samples):
            if finding.verdict is Verdict.DEVIATES:
                return f"{finding.knob} of {finding.subject} is {finding.observed}, planned is {finding.expected}"
        return ""

    def _in(self, sample: Sample) -> list[Finding]:
        places = ((self.pod.cgroup, sample.pod), (self.planned.cgroup, sample.container))
        return [
            finding
            for cgroup, path in places
            for finding in verdict.judge_cgroup(cgroup, path, verdict.subject(cgroup, self.pod), sample.reading)
            if finding.knob in self.knobs
        ]


def _over_time(findings: Sequence[Finding], seconds: Sequence[float]) -> Finding:
    for finding, at in zip(findings, seconds, strict=True):
        if finding.verdict is Verdict.DEVIATES:
            return replace(finding, evidence={"seen": f"{at:.1f} s after the watch began"}) if at else finding
    return next((finding for finding in findings if finding.verdict is Verdict.CONFORMS), findings[0])
