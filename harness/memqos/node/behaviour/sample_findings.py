"""What was seen of one container, and how a finding is made of it. Pure: everything is in the samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Finding, Loss, Verdict, subject_of
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import PEAKS, Sample, amounts_of
from memqos.node.behaviour.preconditions import Preconditions, began, broken_of

__all__ = ["Judged"]

_EVIDENCE = {False: ("memory.current", "memory.events"), True: ("memory.usage_in_bytes", "memory.oom_control")}
"""The files of usage and of events, by whether the readings are of cgroup v1."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Samples of one container from its start to the end of the watch, at least one.

    While a premise does not hold, in any sample, no behaviour is judged: each is *not observable*, and the deviation is
    among `premises`. Amounts are measured by the plan's limits, never by those that the files show.
    losses: what lost a premise that does not hold, by cgroup and control file. outside: that its processes run outside
    its cgroup, which is a premise of every behaviour; None if they do not.
    commands: how many of the workload's commands come to an end. threads: how many use memory beside each other.
    """

    rests_on: Preconditions
    samples: tuple[Sample, ...]
    losses: Mapping[tuple[str, str], Loss] = field(default_factory=dict)
    commands: int = 0
    threads: int = 1
    outside: Finding | None = None

    @property
    def slack(self) -> int:
        """A batch of the machine's pages, in bytes; see `Sample.slack`."""
        return self.samples[0].slack

    @cached_property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs that the behaviour rests on, judged in every sample: settle them with the behaviour."""
        found = self.rests_on.judge(self.samples)
        judged = [replace(one, lost=self.losses.get((one.cgroup, one.knob))) for one in found]
        return tuple(judged) if self.outside is None else (self.outside, *judged)

    def _amounts(self, file: str) -> list[int]:
        return [amount for sample in self.samples for amount in amounts_of(sample, file)]

    def _unseen(self, file: str, least: int, most: int) -> str:
        """Why an amount may have come to `least` though no more than `most` was seen; "" if it cannot have."""
        if self.samples[-1].status.exit_code is None:
            return ""
        unseen = f"{file} was seen at {most}, and the container ended before the next look"
        peak = max((peak for sample in self.samples if (peak := sample.pod_peak(file)) is not None), default=None)
        if peak is None:
            return unseen
        return "" if peak < least else f"{unseen}, with a {PEAKS[file]} of {peak} in its pod"

    def _counter(self, file: str, key: str, expected: str, holds: Callable[[int], bool], *, why_not: str) -> Finding:
        values = [value for sample in self.samples if (value := sample.counter(file, key)) is not None]
        most = max(values, default=None)
        observed = None if most is None else f"{key} {most}"
        held_true = most is not None and holds(most)
        return self._finding(file, f"{key} {expected}", observed, held_true, key=key, why_not=why_not)

    def _word(self, what: str, expected: str, observed: str, **evidence: str) -> Finding:
        """A finding on what the runtime or the workload says, which is in no cgroup's file."""
        finding = self._finding(what, expected, observed, observed == expected)
        return replace(finding, evidence={**finding.evidence, **evidence})

    def _unbounded(self, file: str, limit: Knob, *, key: str = "") -> Finding:
        why_not = f"the plan sets no {limit}"
        return self._finding(file, f"measured by {limit}", None, holds=False, key=key, why_not=why_not)

    def _finding(
        self, file: str, expected: str, observed: object, holds: bool, *, key: str = "", why_not: str = ""
    ) -> Finding:
        """A finding on a file of the container's cgroup; an observation of None was not made.

        why_not: why what was observed tells nothing, "" if it does.
        """
        why_not = self._premise_broken() or why_not
        unread = f"{file} could not be read while the container ran" if observed is None else ""
        unseen = why_not or unread
        return Finding(
            verdict=Verdict.NOT_OBSERVABLE if unseen else Verdict.CONFORMS if holds else Verdict.DEVIATES,
            subject=subject_of(self.rests_on.planned.cgroup, self.rests_on.pod),
            cgroup=str(self.samples[-1].container),
            knob=file,
            set_by=behaviour_setter(file, key),
            expected=expected,
            observed="" if unseen else str(observed),
            reason=behaviour_reason(file, key, self.rests_on.planned.cgroup.knobs),
            why_not=unseen,
            evidence=self._evidence(),
        )

    def _premise_broken(self) -> str:
        if undecided := self.rests_on.undecided:
            return f"what it rests on is not known: {undecided}"
        broken = broken_of(self.premises)
        return f"what it rests on does not hold: {broken}" if broken else ""

    def _evidence(self) -> Mapping[str, str]:
        """How long it was watched, the most memory in use, and the events that counters are judged by: the pod's."""
        first, last = self.samples[0], self.samples[-1]
        usage, events = _EVIDENCE[first.reading.file(first.container, "memory.usage_in_bytes") is not None]
        texts = (sample.reading.file(sample.pod, events) for sample in reversed(self.samples))
        counts = next((text for text in texts if isinstance(text, str)), "")
        return {
            "samples": str(len(self.samples)),
            "seconds": f"{last.reading.at - began(self.samples):.1f}",
            f"{events} of the pod": " ".join(counts.split()) or "not read",
            f"{usage} of the container, at most": str(max(self._amounts(usage), default="not read")),
        }
