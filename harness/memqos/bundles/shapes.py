"""Values of a bundle made of JSON that may hold anything: what does not fit its type is left out, and said.

A bundle that was cut, edited or written by something else is still worth reading.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from memqos.engine.answer.document import finding_from, reason_from
from memqos.engine.answer.finding import Finding
from memqos.engine.plan import Reason
from memqos.report.bundle import Merged, Part
from memqos.report.documents import bundle as documents
from memqos.report.documents.plan import Reason as Chain
from memqos.report.outcome import Attempt, Outcome, TestResult
from memqos.validation import MisfitError, checked, dotted

__all__ = [
    "MISFITS",
    "Fields",
    "count_of",
    "finding_of",
    "machine_of",
    "merged_of",
    "moment_of",
    "reason_of",
    "result_of",
    "shard_asked",
]

MISFITS = (msgspec.ValidationError, ValueError, RecursionError)
"""What is raised for a value that is not of its type; a text that is no UTF-8 is a ValueError."""

_NO_NUMBERS = "not a finite number of seconds"


class Fields:
    """The fields of an object, each taken as its type. misfits: a sentence for each that does not fit."""

    def __init__(self, document: object, file: str) -> None:
        self._document = document if isinstance(document, dict) else {}
        self._file = file
        self.misfits: list[str] = []

    def take(self, name: str, kind: Any, absent: Any = None) -> Any:
        """The field as a value of this type; `absent` for one that is missing or does not fit."""
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
    """A result with these findings. Raises one of MISFITS for what is no result."""
    said = msgspec.convert({**document, "findings": []}, documents.Case)
    fields: dict[str, Any] = {**said, "findings": findings, "outcome": Outcome(said["outcome"])}
    fields["seconds"] = _seconds(said["seconds"])
    fields["earlier_attempts"] = tuple(map(_attempt, said.get("earlier_attempts", ())))
    if "seconds_before" in said:
        _seconds(said["seconds_before"])
    return TestResult(**fields)


def _attempt(said: documents.Attempt) -> Attempt:
    return Attempt(
        reason=said["reason"], again=said["again"], machine=said["machine"], seconds=_seconds(said["seconds"])
    )


def finding_of(document: Mapping[str, Any]) -> Finding:
    """A finding without its reason. Raises one of MISFITS for what is no finding."""
    return finding_from({**msgspec.convert({**document, "reason": None}, documents.Finding)})


def reason_of(document: object) -> Reason:
    """A chain of reasons. Raises one of MISFITS for what is none."""
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


def shard_asked(settings: Mapping[str, documents.Setting]) -> dict[str, Any]:
    """The selected shard of a run that ended before it divided its cases; empty for none."""
    value = settings["shard"]["value"] if "shard" in settings else None
    if not isinstance(value, str):
        return {}
    number, of = (part.isdecimal() and int(part) for part in value.partition("/")[::2])
    return {"number": number, "of": of, "cases": 0, "division": ""} if number and of else {}


def merged_of(said: documents.Merged) -> Merged:
    """What a bundle was merged of."""
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
