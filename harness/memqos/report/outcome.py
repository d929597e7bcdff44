"""Results of tests as values: the outcome, what decided it, and the exit code of many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from memqos.engine.answer.document import finding_document
from memqos.engine.answer.finding import Finding, Setter, Verdict, worst
from memqos.errors import ExitCode

__all__ = ["Attempt", "Outcome", "TestResult", "exit_code", "observed_something", "outcome_of"]


class Outcome(StrEnum):
    """What a test says; the first four are findings, the last two say nothing about the system under test."""

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    KNOWN = "known"
    NOT_OBSERVABLE = "not observable"
    MACHINERY = "machinery"
    USAGE = "usage"

    @property
    def is_error(self) -> bool:
        """Whether the harness, what it stands on, or its user failed."""
        return self in {Outcome.MACHINERY, Outcome.USAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt at a case that ended in *machinery* and does not count, because the case was run again.

    reason: what it failed of. again: why the case was run again. machine: as of TestResult. seconds: setup, call and
    teardown together; those of the result include them.
    """

    reason: str
    again: str
    machine: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The attempt as an element of a result's `earlier_attempts`."""
        return {
            "outcome": Outcome.MACHINERY.value,
            "reason": self.reason,
            "again": self.again,
            "machine": self.machine,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One test of a run.

    id: pytest's node id. claim: "" for a test that cites none. kind: of the claim, as claims.ClaimKind.
    reason: one line for whatever is not "conforms".
    text: the failure or error as a person reads it, "" if there is none. error_code: exit code of the error's class,
    0 without an error. seconds: setup, call and teardown together. machine: id in the bundle's machines, "" if the
    test needed none. profile, runtime, driver: the system under test, also of one that did not come up, "" as for
    machine.
    host: where its worker ran, as ssh is told of it; "" for the host that the run was started on.
    folder: evidence, relative to the results folder, "" if none was kept.
    untried: whether it was given up as *machinery* without an attempt, because several before it had failed alike.
    earlier_attempts: those that do not count, in their order; empty for a case that was run once.
    seconds_before: the median of its last runs on the host of the run, None if none is known.
    """

    # pytest would take a class of this name for a test class.
    __test__ = False

    id: str
    claim: str
    chapter: str
    outcome: Outcome
    seconds: float
    reason: str = ""
    text: str = ""
    error_code: int = 0
    findings: tuple[Finding, ...] = ()
    machine: str = ""
    profile: str = ""
    runtime: str = ""
    driver: str = ""
    host: str = ""
    folder: str = ""
    untried: bool = False
    earlier_attempts: tuple[Attempt, ...] = ()
    seconds_before: float | None = None
    kind: str = ""

    @property
    def deviations(self) -> tuple[Finding, ...]:
        """The findings that deviate."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.DEVIATES)

    @property
    def known(self) -> tuple[Finding, ...]:
        """The findings that deviate and are listed."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.KNOWN)

    @property
    def observed_in_part(self) -> bool:
        """Whether a case that is not observable still judged values that memqos did not set itself.

        Never of a claim about behaviour: the values that a behaviour rests on say nothing of the behaviour.
        """
        return (
            self.outcome is Outcome.NOT_OBSERVABLE
            and self.kind in _OF_VALUES
            and any(
                finding.verdict in {Verdict.CONFORMS, Verdict.KNOWN} and finding.set_by is not Setter.MEMQOS
                for finding in self.findings
            )
        )

    @property
    def set_by(self) -> Mapping[Setter, int]:
        """How many findings there are by who made what was observed; who made none is left out."""
        counted = Counter(finding.set_by for finding in self.findings)
        return {setter: counted[setter] for setter in Setter if counted[setter]}

    def to_json(self) -> dict[str, Any]:
        """The result as it is in bundle.json, and in a line of findings.jsonl; some fields are left out if absent."""
        document: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        document |= {
            "outcome": self.outcome.value,
            "findings": [finding_document(one) for one in self.findings],
            "earlier_attempts": [one.to_json() for one in self.earlier_attempts],
        }
        return {name: value for name, value in document.items() if name not in _MAY_BE_ABSENT or value not in _ABSENT}


_OF_VALUES = frozenset({"state", "refusal"})
_MAY_BE_ABSENT = frozenset({"host", "earlier_attempts", "seconds_before", "kind"})
_ABSENT: tuple[object, ...] = ("", [], None)


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """What findings make of a test: the worst decides, and no finding at all is not an observation."""
    return Outcome(worst(findings).value)


_ORDER = (ExitCode.CLOSED_PIPE, ExitCode.USAGE, ExitCode.ENVIRONMENT, ExitCode.MACHINERY)
"""Of several things that came in the way, the first to mend."""


def exit_code(
    results: Iterable[TestResult], *, interrupted: bool = False, troubles: Iterable[ExitCode] = ()
) -> ExitCode:
    """One code for a run: a deviation before everything, then an interruption, then errors, then silence.

    troubles: the codes of errors outside of any test.
    Among errors usage comes before this host's inability, and that before machinery: it is what to mend first.
    A run conforms if a case conforms or is known, or if one that is not observable has findings that conform.
    """
    results, errors = tuple(results), set(troubles)
    outcomes = {result.outcome for result in results}
    if Outcome.DEVIATES in outcomes:
        return ExitCode.DEVIATES
    if interrupted:
        return ExitCode.INTERRUPTED
    if Outcome.USAGE in outcomes:
        errors.add(ExitCode.USAGE)
    if Outcome.MACHINERY in outcomes:
        unable = any(result.error_code == ExitCode.ENVIRONMENT for result in results)
        errors.add(ExitCode.ENVIRONMENT if unable else ExitCode.MACHINERY)
    if errors:
        return min(errors, key=_ORDER.index)
    return ExitCode.CONFORMS if observed_something(results) else ExitCode.NOTHING_OBSERVED


def observed_something(results: Iterable[TestResult]) -> bool:
    """Whether the results say anything about the system under test: a whole case, or findings of one."""
    whole = {Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN}
    return any(result.outcome in whole or result.observed_in_part for result in results)
