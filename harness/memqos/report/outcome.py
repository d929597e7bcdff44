"""Results of tests: the outcome, what decided it, and the exit code of many results.

One phase of a test (setup, call or teardown), and the result of a test's phases.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from memqos.engine.answer.document import finding_document, finding_from
from memqos.engine.answer.finding import Finding, Setter, Verdict, worst
from memqos.errors import ExitCode

__all__ = [
    "Attempt",
    "Outcome",
    "Phase",
    "TestResult",
    "Waited",
    "exit_code",
    "observed_something",
    "outcome_of",
    "result_of",
]


class Outcome(StrEnum):
    """A test's outcome. The first four are findings; the last two say nothing about the system under test."""

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    KNOWN = "known"
    NOT_OBSERVABLE = "not observable"
    MACHINERY = "machinery"
    USAGE = "usage"

    @property
    def is_error(self) -> bool:
        """Whether the harness, its host or its user failed."""
        return self in {Outcome.MACHINERY, Outcome.USAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that ended in *machinery* and does not count, because the case was run again.

    reason: of the failure. again: why the case was run again. machine: as in TestResult. seconds: setup, call and
    teardown together; the result's seconds include them.
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
class Waited:
    """A condition that a case waited for, and the total seconds."""

    condition: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """An element of a result's `waits`."""
        return {"condition": self.condition, "seconds": self.seconds}


OVERDUE = 3.0
"""The factor of its median from which a case is overdue."""
NOTABLE_SECONDS = 5.0
"""The least seconds above its median of an overdue case: shorter cases vary by as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One test of a run.

    id: pytest's node id. claim: "" for a test without one. kind: of the claim, as claims.ClaimKind.
    reason: one line unless the outcome is "conforms".
    text: the failure or error in full, "" without one. error_code: exit code of the error's class,
    0 without an error. seconds: setup, call and teardown together. machine: id in the bundle's machines, "" if the
    test needed none. profile, runtime, driver: the system under test, also if it did not come up; "" as for machine.
    host: of its worker, as given to ssh; "" for the host of the run.
    folder: evidence, relative to the results folder, "" if none was kept.
    untried: whether it is *machinery* without an attempt, because several cases before it had failed in the same way.
    earlier_attempts: attempts that do not count, in order; empty for a case that was run once.
    seconds_before: the median of its last runs on the host of the run, None if unknown.
    waits: what it waited for, longest first; waits of less than LEAST_WAIT seconds are left out.
    """

    # pytest would collect a class of this name.
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
    waits: tuple[Waited, ...] = ()

    @property
    def deviations(self) -> tuple[Finding, ...]:
        """The findings that deviate."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.DEVIATES)

    @property
    def is_overdue(self) -> bool:
        """Whether the case took at least OVERDUE times its median, and notably longer; false without a median."""
        before = self.seconds_before
        return before is not None and self.seconds >= OVERDUE * before and self.seconds - before >= NOTABLE_SECONDS

    @property
    def known(self) -> tuple[Finding, ...]:
        """The findings that are known deviations."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.KNOWN)

    @property
    def observed_in_part(self) -> bool:
        """Whether a case that is not observable has findings about values that memqos did not write.

        Always false for behaviour claims: the values behind a behaviour say nothing about it.
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
        """The number of findings by writer of the observed value, without zeros."""
        counted = Counter(finding.set_by for finding in self.findings)
        return {setter: counted[setter] for setter in Setter if counted[setter]}

    def to_json(self) -> dict[str, Any]:
        """The result as in bundle.json and in a line of findings.jsonl; some fields are left out if empty."""
        document: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        document |= {
            "outcome": self.outcome.value,
            "findings": [finding_document(one) for one in self.findings],
            "earlier_attempts": [one.to_json() for one in self.earlier_attempts],
            "waits": [one.to_json() for one in self.waits],
        }
        return {name: value for name, value in document.items() if name not in _MAY_BE_ABSENT or value not in _ABSENT}


_OF_VALUES = frozenset({"state", "refusal"})
_MAY_BE_ABSENT = frozenset({"host", "earlier_attempts", "seconds_before", "kind", "waits"})
_ABSENT: tuple[object, ...] = ("", [], None)


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """The outcome of a test by its findings: the worst decides; without findings, nothing was observed."""
    return Outcome(worst(findings).value)


_ORDER = (ExitCode.CLOSED_PIPE, ExitCode.USAGE, ExitCode.ENVIRONMENT, ExitCode.MACHINERY)
"""The order in which several errors need fixing."""


def exit_code(
    results: Iterable[TestResult], *, interrupted: bool = False, troubles: Iterable[ExitCode] = ()
) -> ExitCode:
    """The exit code of a run: deviations first, then an interruption, then errors, then nothing observed.

    troubles: the codes of errors outside of any test.
    Among errors, usage comes before the environment, and that before machinery: the order in which to fix them.
    A run conforms if a case conforms or is known, or if a case that is not observable has conforming findings.
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
        failed = [result for result in results if result.outcome is Outcome.MACHINERY]
        unable = any(result.error_code == ExitCode.ENVIRONMENT for result in failed)
        errors.add(ExitCode.ENVIRONMENT if unable else ExitCode.MACHINERY)
    if errors:
        return min(errors, key=_ORDER.index)
    return ExitCode.CONFORMS if observed_something(results) else ExitCode.NOTHING_OBSERVED


def observed_something(results: Iterable[TestResult]) -> bool:
    """Whether the results say anything about the system under test: a whole case, or findings of a case."""
    whole = {Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN}
    return any(result.outcome in whole or result.observed_in_part for result in results)


# The worst phase decides: an error in teardown does not undo a deviation.
_RANK = [
    Outcome.DEVIATES,
    Outcome.USAGE,
    Outcome.MACHINERY,
    Outcome.KNOWN,
    Outcome.NOT_OBSERVABLE,
    Outcome.CONFORMS,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase. outcome: None for no statement, such as after a setup without error. Other fields as in TestResult.

    repeated: whether its error was printed in full before. again: why the test is run again, "" if it is not; a phase
    with it does not count. seconds: duration. waits: seconds by condition.
    """

    outcome: Outcome | None
    chapter: str
    claim: str = ""
    kind: str = ""
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
    repeated: bool = False
    again: str = ""
    seconds: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The phase as plain data, for the way from a worker to the controller."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        document = {
            **fields,
            "outcome": None if self.outcome is None else self.outcome.value,
            "findings": [finding_document(one) for one in self.findings],
        }
        # execnet takes plain str only, and a knob's name, for example, is an enumeration member.
        plain: dict[str, Any] = json.loads(json.dumps(document))
        return plain

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Phase:
        """The inverse of `to_json`."""
        outcome = document["outcome"]
        fields = {
            **document,
            "outcome": None if outcome is None else Outcome(outcome),
            "findings": tuple(finding_from(one) for one in document["findings"]),
        }
        return cls(**fields)


def result_of(nodeid: str, phases: Sequence[Phase], *, seconds: float) -> TestResult | None:
    """The result of a test with these phases, in order; None if no phase has an outcome.

    The worst phase decides. Findings are those of all phases, and the folder is the last one. Phases of an attempt that
    does not count have no effect; the attempt is kept in the result.
    """
    telling = [(phase.outcome, phase) for phase in phases if phase.outcome is not None]
    if not telling:
        return None
    outcome, deciding = min(telling, key=lambda one: _RANK.index(one[0]))
    return TestResult(
        id=nodeid,
        claim=deciding.claim,
        kind=deciding.kind,
        chapter=deciding.chapter,
        outcome=outcome,
        seconds=round(seconds, 3),
        reason=deciding.reason,
        text=deciding.text,
        error_code=deciding.error_code,
        findings=tuple(finding for _, phase in telling for finding in phase.findings),
        machine=deciding.machine,
        profile=deciding.profile,
        runtime=deciding.runtime,
        driver=deciding.driver,
        host=deciding.host,
        untried=deciding.untried,
        folder=next((phase.folder for _, phase in reversed(telling) if phase.folder), ""),
        earlier_attempts=tuple(_attempts(phases)),
        waits=tuple(_waits(phases)),
    )


LEAST_WAIT, _WAITS = 0.5, 5
"""Seconds of the shortest wait that a result names, and how many it names."""


def _waits(phases: Iterable[Phase]) -> Iterator[Waited]:
    """The longest waits of all phases that count, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for phase in phases:
        for condition, waited in phase.waits.items() if not phase.again else ():
            seconds[condition] += waited
    for condition, waited in sorted(seconds.items(), key=lambda one: -one[1])[:_WAITS]:
        if waited >= LEAST_WAIT:
            yield Waited(condition=condition, seconds=round(waited, 3))


def _attempts(phases: Sequence[Phase]) -> Iterator[Attempt]:
    """The attempts that do not count: each ends with the phases that have a reason to run the test again."""
    reason, again, machine, seconds = "", "", "", 0.0
    for phase in phases:
        if again and not phase.again:
            yield Attempt(reason=reason, again=again, machine=machine, seconds=round(seconds, 3))
            reason, again, machine, seconds = "", "", "", 0.0
        reason, again, machine = reason or (phase.reason if phase.again else ""), phase.again, machine or phase.machine
        seconds += phase.seconds
    if again:
        yield Attempt(reason=reason, again=again, machine=machine, seconds=round(seconds, 3))
