"""One phase of a test (setup, call or teardown), and the result of a test's phases."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.document import finding_document, finding_from
from memqos.engine.answer.finding import Finding
from memqos.report.outcome import Attempt, Outcome, TestResult

__all__ = ["Phase", "result_of"]

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
    with it does not count. seconds: duration.
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

    def to_json(self) -> dict[str, Any]:
        """The phase as plain data, for the way from a worker to the controller."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
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
    )


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
