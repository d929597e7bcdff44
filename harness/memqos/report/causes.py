"""Deviations and errors grouped by cause: one fault in many pods is one cause. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Verdict
from memqos.report.outcome import Outcome, TestResult

__all__ = ["Cause", "causes_of"]

_WRONG = frozenset({Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause.

    key: for findings the knob, the rule of the expected value (or the value itself), and the hop that lost it; for a
    case without findings its outcome and reason. results: its cases in order, at least one. findings: those of all its
    cases; none for a cause without findings.
    """

    key: tuple[str, ...]
    outcome: Outcome
    results: tuple[TestResult, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def example(self) -> Finding | None:
        """Its first finding."""
        return self.findings[0] if self.findings else None

    @property
    def headline(self) -> str:
        """A short description."""
        if self.example is not None:
            return f"{self.example.knob} of {self.example.subject} deviates"
        return f"{self.outcome}: {self.results[0].reason or self.results[0].id}"


def causes_of(results: Iterable[TestResult]) -> tuple[Cause, ...]:
    """Every cause, in order of first occurrence; a case can have several."""
    cases: dict[tuple[str, ...], dict[int, TestResult]] = {}
    findings: dict[tuple[str, ...], list[Finding]] = {}
    for result in results:
        if result.outcome not in _WRONG:
            continue
        deviating = [one for one in result.findings if one.verdict is Verdict.DEVIATES]
        if result.outcome is not Outcome.DEVIATES or not deviating:
            cases.setdefault((result.outcome.value, result.reason), {})[id(result)] = result
        for finding in deviating if result.outcome is Outcome.DEVIATES else ():
            key = _key(finding, result)
            cases.setdefault(key, {})[id(result)] = result
            findings.setdefault(key, []).append(finding)
    return tuple(
        Cause(
            key=key,
            outcome=next(iter(of_key.values())).outcome,
            results=tuple(of_key.values()),
            findings=tuple(findings.get(key, ())),
        )
        for key, of_key in cases.items()
    )


def _key(finding: Finding, result: TestResult) -> tuple[str, ...]:
    """The key without a rule: equal for the same expected text within a chapter; an amount only within its claim."""
    rule = finding.reason.rule if finding.reason is not None else ""
    if not rule:
        has_amount = any(letter.isdigit() for letter in finding.expected)
        rule = result.claim if has_amount else f"{result.chapter}: {finding.expected}"
    lost = finding.lost.by if finding.lost is not None else ""
    return (finding.knob, rule, str(lost))
