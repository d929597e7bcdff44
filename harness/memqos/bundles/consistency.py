"""Whether a bundle's statements about its run agree with its own cases and findings. Pure.

A run derives its exit code and counts from its results, so they differ only if a file was edited or lost lines.
Verdicts come from the findings: a bundle that contradicts them never counts as conforming.

Fields of any JSON are read by type; misfits are omitted and reported, since a truncated or edited bundle is still worth
reading.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from memqos.engine.answer.document import finding_from, reason_from
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle, Merged, Part
from memqos.report.documents import bundle as documents
from memqos.report.documents.plan import Reason as Chain
from memqos.report.outcome import Attempt, Outcome, TestResult, Waited, exit_code
from memqos.report.words import how_many
from memqos.validation import MisfitError, checked, dotted

__all__ = ["TROUBLES", "by_findings", "count_of", "differing_cases", "hidden_verdicts", "inconsistencies"]

TROUBLES = frozenset({ExitCode.CLOSED_PIPE, ExitCode.USAGE, ExitCode.ENVIRONMENT, ExitCode.MACHINERY})
"""Exit codes for errors outside of any test."""

_HIDING = {
    Outcome.CONFORMS: (Verdict.DEVIATES, Verdict.KNOWN, Verdict.NOT_OBSERVABLE),
    Outcome.KNOWN: (Verdict.DEVIATES,),
    Outcome.NOT_OBSERVABLE: (Verdict.DEVIATES,),
}
"""By outcome, the verdicts that no finding of such a case has: the worst finding decides the outcome."""
_WHOLE = frozenset({Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN})
_SHOWN = 3


def inconsistencies(head: Mapping[str, Any], bundle: Bundle) -> Iterator[str]:
    """Statements about the run that do not follow from its results, one sentence each.

    head: the document of bundle.json, without its results. bundle: the bundle read from it, with the document's exit
    code.
    """
    yield from hidden_verdicts(bundle.results)
    counts = head.get("counts")
    if not isinstance(counts, Mapping):
        yield "the counts of cases and findings are missing."
    else:
        yield from _miscounted("cases", counts.get("tests"), bundle.outcomes)
        yield from _miscounted("findings", counts.get("findings"), bundle.verdicts)
        yield from _missetters(counts.get("set_by"), bundle)
    yield from _wrong_code(head, bundle)


def hidden_verdicts(results: Iterable[TestResult]) -> Iterator[str]:
    """Cases that ended better than their findings."""
    found = [
        f"{result.id} is {result.outcome.value}, with a finding that is {verdict.value}"
        for result in results
        for verdict in _HIDING.get(result.outcome, ())
        if any(one.verdict is verdict for one in result.findings)
    ]
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield f"{'; '.join(found[:_SHOWN])}{more}."


def by_findings(result: TestResult) -> TestResult:
    """The case with the outcome of its findings, if its recorded outcome is better."""
    found = {one.verdict for one in result.findings}
    worst = next((verdict for verdict in _HIDING.get(result.outcome, ()) if verdict in found), None)
    if worst is None:
        return result
    reason = f"the case is recorded as '{result.outcome.value}', with findings that are '{worst.value}'"
    return replace(result, outcome=Outcome(worst.value), reason=reason)


def _miscounted(things: str, told: object, counted: Mapping[str, int]) -> Iterator[str]:
    """Wrong counts; a missing name counts as 0."""
    if not isinstance(told, Mapping):
        yield f"the counts of {things} are missing."
        return
    for name, count in counted.items():
        said = told.get(name, 0)
        if said != count or isinstance(said, bool):
            yield f"its counts say {said} {things} are '{name}', but {count} are."


def _missetters(told: object, bundle: Bundle) -> Iterator[str]:
    for setter, verdicts in told.items() if isinstance(told, Mapping) else ():
        counted = bundle.set_by.get(setter, {})
        for verdict, said in verdicts.items() if isinstance(verdicts, Mapping) else ():
            count = counted.get(verdict, 0)
            if said != count:
                yield f"its counts say {said} findings of '{setter}' are '{verdict}', but {count} are."


def _wrong_code(head: Mapping[str, Any], bundle: Bundle) -> Iterator[str]:
    """An exit code that is impossible with these results."""
    told = head.get("exit_code")
    try:
        code = ExitCode(told)  # type: ignore[arg-type]
    except ValueError:
        yield f"its exit code is {told!r}, which no run has."
        return
    alone = exit_code(bundle.results, interrupted=bundle.interrupted)
    possible = {alone}
    if alone not in {ExitCode.DEVIATES, ExitCode.INTERRUPTED}:
        # Errors are also recorded as text, except a reader that closed the output.
        in_the_way = bool(bundle.error or head.get("inconsistencies"))
        possible |= TROUBLES if in_the_way else {ExitCode.CLOSED_PIPE}
        possible -= {ExitCode.CONFORMS, ExitCode.NOTHING_OBSERVED} if in_the_way else set()
    if alone is ExitCode.CONFORMS and bundle.known_gone:
        possible.add(ExitCode.DEVIATES)
    if not any(result.outcome in _WHOLE for result in bundle.results) and alone is ExitCode.CONFORMS:
        # Older releases ended with this code if only parts of cases were observed.
        possible.add(ExitCode.NOTHING_OBSERVED)
    if code not in possible:
        yield f"its exit code is {code.value} ({_named(code)}), but its results give {alone.value} ({_named(alone)})."


def _named(code: ExitCode) -> str:
    return code.name.lower().replace("_", " ")


def differing_cases(lines: Sequence[object], whole: Sequence[object]) -> Iterator[str]:
    """Cases that differ between findings.jsonl and bundle.json. lines: as read; some may be lost."""
    surplus = Counter(map(_told, lines))
    surplus.subtract(Counter(map(_told, whole)))
    others = [key[0] for key, count in surplus.items() if count > 0]
    if others and whole:
        yield f"findings.jsonl and bundle.json disagree about {how_many(len(others), 'case')}, such as {others[0]}."


def _told(document: object) -> tuple[str, ...]:
    """The compared part of a case: its id, its outcome, and each finding's verdict."""
    if not isinstance(document, Mapping):
        return ("?",)
    findings = document.get("findings")
    verdicts = [
        str(one.get("verdict")) if isinstance(one, Mapping) else "?"
        for one in (findings if isinstance(findings, list) else ())
    ]
    return str(document.get("id")), str(document.get("outcome")), *verdicts


MISFITS = (msgspec.ValidationError, ValueError, RecursionError)
"""The exceptions for a value that is not of its type; a text that is not UTF-8 is a ValueError."""

_NO_NUMBERS = "not a finite number of seconds"


class Fields:
    """The fields of an object, each read with its type. misfits: a sentence for each that does not fit."""

    def __init__(self, document: object, file: str) -> None:
        self._document = document if isinstance(document, dict) else {}
        self._file = file
        self.misfits: list[str] = []

    def take(self, name: str, kind: Any, absent: Any = None) -> Any:
        """The field as a value of this type; `absent` if it is missing or does not fit."""
        if self._document.get(name) is None:
            return absent
        try:
            return checked(self._document[name], kind)
        except MisfitError as error:
            place = dotted((name, *error.place))
            self.misfits.append(f"{self._file}: {place}: {error.what.rstrip('.')}; '{name}' is left out.")
            return absent


def count_of(value: object) -> int:
    """A count, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def moment_of(value: str) -> str:
    """A time as written, or ""."""
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return ""
    return value


def _seconds(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(_NO_NUMBERS)
    return value


def result_of(document: Mapping[str, Any], findings: tuple[Finding, ...]) -> TestResult:
    """A result with these findings. Raises one of MISFITS for a malformed one."""
    said = msgspec.convert({**document, "findings": []}, documents.Case)
    fields: dict[str, Any] = {**said, "findings": findings, "outcome": Outcome(said["outcome"])}
    fields["seconds"] = _seconds(said["seconds"])
    fields["earlier_attempts"] = tuple(map(_attempt, said.get("earlier_attempts", ())))
    if "seconds_before" in said:
        _seconds(said["seconds_before"])
    fields["waits"] = tuple(
        Waited(condition=one["condition"], seconds=_seconds(one["seconds"])) for one in said.get("waits", ())
    )
    return TestResult(**fields)


def _attempt(said: documents.Attempt) -> Attempt:
    return Attempt(
        reason=said["reason"], again=said["again"], machine=said["machine"], seconds=_seconds(said["seconds"])
    )


def finding_of(document: Mapping[str, Any]) -> Finding:
    """A finding without its reason. Raises one of MISFITS for a malformed one."""
    return finding_from({**msgspec.convert({**document, "reason": None}, documents.Finding)})


def reason_of(document: object) -> Reason:
    """A chain of reasons. Raises one of MISFITS for a malformed one."""
    return reason_from(msgspec.convert(document, Chain))


def machine_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """A machine's description of itself; of the fields that reports read, only well-formed ones."""
    fields = Fields(value, "machine.json")
    found = {name: one for name, one in value.items() if name not in {"runtimes", "timing", "kept"}}
    found["id"] = fields.take("id", str, "")
    runtimes = fields.take("runtimes", list[str], [])
    timing = fields.take("timing", dict[str, documents.Timing], {})
    found |= {"runtimes": runtimes} if runtimes else {}
    found |= {"timing": timing} if timing else {}
    is_kept = fields.take("kept", documents.Kept, {"name": ""})["name"]
    return found | ({"kept": value["kept"]} if is_kept else {})


def requested_shard(settings: Mapping[str, documents.Setting]) -> dict[str, Any]:
    """The selected shard of a run that ended before it divided its cases; empty for none."""
    value = settings["shard"]["value"] if "shard" in settings else None
    if not isinstance(value, str):
        return {}
    number, of = (part.isdecimal() and int(part) for part in value.partition("/")[::2])
    return {"number": number, "of": of, "cases": 0, "division": ""} if number and of else {}


def merged_of(said: documents.Merged) -> Merged:
    """The parts of a merged bundle."""
    parts = (
        Part(
            **{
                **part,
                "started": moment_of(part["started"]),
                "ended": moment_of(part["ended"]),
                "exit_code": int(part["exit_code"]),
                "faults": tuple(part.get("faults", ())),
            }  # type: ignore[arg-type]
        )
        for part in said["parts"]
    )
    return Merged(parts=tuple(parts), doubles=tuple(said["doubles"]), contradictions=tuple(said["contradictions"]))
