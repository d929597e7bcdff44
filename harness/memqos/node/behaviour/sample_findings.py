"""The samples of one container, and how a finding is made from them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Finding, Loss, Verdict, subject_of
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import PEAKS, Sample, amounts_of
from memqos.node.behaviour.preconditions import Preconditions, began, broken_of

__all__ = ["Observed"]

_EVIDENCE = {False: ("memory.current", "memory.events"), True: ("memory.usage_in_bytes", "memory.oom_control")}
"""The files of usage and of events, by whether the readings are of cgroup v1."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Samples of one container from its start to the end of the watch, at least one.

    If a precondition fails in any sample, every behaviour is *not observable*, and `premises` has the deviation.
    Amounts are compared with the plan's limits, never with the limits read from the files.
    losses: which hop lost a failed precondition, by cgroup and interface file. outside: the finding that its processes
    run outside its cgroup, a precondition of every behaviour; None if they do not.
    commands: how many of the workload's commands end by themselves. threads: how many threads allocate concurrently.
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
        """The knobs that the behaviour depends on, judged in every sample: settle them with the behaviour."""
        found = self.rests_on.judge(self.samples)
        judged = [replace(one, lost=self.losses.get((one.cgroup, one.knob))) for one in found]
        return tuple(judged) if self.outside is None else (self.outside, *judged)

    def amounts(self, file: str) -> list[int]:
        """Every value of a file in all samples, in bytes."""
        return [amount for sample in self.samples for amount in amounts_of(sample, file)]

    def unseen(self, file: str, least: int, most: int) -> str:
        """Why an amount may have reached `least` though at most `most` was seen; "" if it cannot have."""
        if self.samples[-1].status.exit_code is None:
            return ""
        unseen = f"{file} was seen at {most}, and the container ended before the next sample"
        peak = max((peak for sample in self.samples if (peak := sample.pod_peak(file)) is not None), default=None)
        if peak is None:
            return unseen
        return "" if peak < least else f"{unseen}, with a {PEAKS[file]} of {peak} in its pod"

    def counter(self, file: str, key: str, expected: str, holds: Callable[[int], bool], *, why_not: str) -> Finding:
        """A finding on the highest value of a counter in a file."""
        values = [value for sample in self.samples if (value := sample.counter(file, key)) is not None]
        most = max(values, default=None)
        observed = None if most is None else f"{key} {most}"
        held_true = most is not None and holds(most)
        return self.finding(file, f"{key} {expected}", observed, held_true, key=key, why_not=why_not)

    def word(self, what: str, expected: str, observed: str, **evidence: str) -> Finding:
        """A finding on what the runtime or the workload reports, which is in no interface file."""
        finding = self.finding(what, expected, observed, observed == expected)
        return replace(finding, evidence={**finding.evidence, **evidence})

    def unbounded(self, file: str, limit: Knob, *, key: str = "") -> Finding:
        """A finding that is not observable because the plan has no such limit."""
        why_not = f"the plan sets no {limit}"
        return self.finding(file, f"measured by {limit}", None, holds=False, key=key, why_not=why_not)

    def finding(
        self, file: str, expected: str, observed: object, holds: bool, *, key: str = "", why_not: str = ""
    ) -> Finding:
        """A finding on an interface file of the container; observed: None if it could not be read.

        why_not: why the observation proves nothing, "" if it does.
        """
        why_not = self._premise_broken() or why_not
        unread = f"{file} could not be read while the container ran" if observed is None else ""
        unseen = why_not or unread
        return Finding(
            verdict=Verdict.of(holds, unseen),
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
            return f"a precondition is not known: {undecided}"
        broken = broken_of(self.premises)
        return f"a precondition does not hold: {broken}" if broken else ""

    def _evidence(self) -> Mapping[str, str]:
        """Number of samples, length of the watch, the pod's event counters and the container's highest usage."""
        first, last = self.samples[0], self.samples[-1]
        usage, events = _EVIDENCE[first.reading.file(first.container, "memory.usage_in_bytes") is not None]
        texts = (sample.reading.file(sample.pod, events) for sample in reversed(self.samples))
        counts = next((text for text in texts if isinstance(text, str)), "")
        return {
            "samples": str(len(self.samples)),
            "seconds": f"{last.reading.at - began(self.samples):.1f}",
            f"{events} of the pod": " ".join(counts.split()) or "not read",
            f"{usage} of the container, at most": str(max(self.amounts(usage), default="not read")),
        }
