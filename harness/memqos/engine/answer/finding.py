"""Findings: a plan held against a reading, knob by knob or behaviour by behaviour, each with a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.engine.answer.loss import Loss
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Reason

__all__ = ["Finding", "Verdict", "worst"]


class Verdict(StrEnum):
    """What observation says about an expectation; not observable is neither of the others and never passes.

    Known is a deviation that is listed: no comparison makes it, only who has the list.
    """

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    KNOWN = "known"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One expectation and what was seen.

    subject: what a reader calls the thing ("container app of pod default/web", "kubepods"); cgroup: its path;
    knob: the control file, or a behaviour's name ("throttling", "OOM kill").
    set_by: who made what was observed; of what was not observed, who was to make it.
    expected, observed: as text. reason: the chain behind `expected`, None for a behaviour that no rule computes.
    why_not: for NOT_OBSERVABLE, what kept the observation from being made.
    evidence: further facts worth keeping (event counters, exit code), name to text.
    lost: of a container's file that deviates, the first hop that lost the value; None where nobody looked.
    measured: whether what is expected was read off the machine at that moment, and is another each time.
    """

    verdict: Verdict
    subject: str
    cgroup: str
    knob: str
    set_by: Setter
    expected: str
    observed: str
    reason: Reason | None = None
    why_not: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    lost: Loss | None = None
    measured: bool = False

    def __str__(self) -> str:
        """One line: the verdict, the control file and its cgroup's name, what was observed, and what was expected."""
        if self.verdict is Verdict.NOT_OBSERVABLE:
            return f"{self.verdict}: {self.knob} of {self.subject}: {self.why_not}"
        if self.verdict is Verdict.CONFORMS:
            return f"{self.verdict}: {self.knob} of {self.subject} is {self.observed}"
        return f"{self.verdict}: {self.knob} of {self.subject} is {self.observed}, expected {self.expected}"


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict that decides: one deviation is enough, known or not, and what nobody observed is not proved."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.DEVIATES, Verdict.KNOWN):
        if verdict in verdicts:
            return verdict
    if not verdicts or Verdict.NOT_OBSERVABLE in verdicts:
        return Verdict.NOT_OBSERVABLE
    return Verdict.CONFORMS
