"""Errors and failures as a person reads them in pytest's report."""

from __future__ import annotations

from collections.abc import Iterable

from memqos.engine.answer import explain
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import MemqosError
from memqos.report.summary import known_line

__all__ = ["error_text", "failure_text"]


def error_text(error: MemqosError) -> str:
    """What happened and where, and the next step on a line of its own."""
    head = f"{error.where}: {error.what}" if error.where else error.what
    return f"{head}\n{error.next_step}" if error.next_step else head


def failure_text(findings: Iterable[Finding]) -> str:
    """The deviating findings, each with its reason chain; then how many conformed and what was not observable."""
    findings = tuple(findings)
    parts = [explain.failure(finding) for finding in findings if finding.verdict is Verdict.DEVIATES]
    unseen: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.verdict is Verdict.NOT_OBSERVABLE:
            unseen.setdefault((str(finding.subject), finding.why_not), []).append(finding.knob)
    parts += [
        f"not observable: {', '.join(dict.fromkeys(knobs))} of {subject}: {why_not}"
        for (subject, why_not), knobs in unseen.items()
    ]
    listed = dict.fromkeys(known_line(finding) for finding in findings if finding.verdict is Verdict.KNOWN)
    parts += [f"known: {line}" for line in listed]
    conforming = sum(finding.verdict is Verdict.CONFORMS for finding in findings)
    if conforming:
        parts.append(f"({conforming} other findings of this test conform)")
    return "\n\n".join(parts)
