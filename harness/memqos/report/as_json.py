"""Values of the package as JSON and, where a report needs it, back: plans, readings, findings, results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Input, Reason
from memqos.model.knob import Bytes, CpuMax, Number, Text
from memqos.model.path import CgroupPath
from memqos.report.outcome import Outcome, TestResult

__all__ = ["Json", "as_json", "finding_from", "result_from"]

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def as_json(value: object) -> Json:  # noqa: PLR0911 - one return a kind of value reads best
    """Any value of the package as JSON.

    Dataclasses become objects by field name, enums their value, paths and fractions text. A knob's value becomes what
    its file would show ("max", "absent" and numbers as text), so that absent, zero and max stay three things.
    """
    match value:
        case Enum():
            return as_json(value.value)
        case None | bool() | int() | float() | str():
            return value
        case Bytes() | Number() | Text() | CpuMax() | CgroupPath() | Fraction() | PurePath():
            return str(value)
        case Mapping():
            return {_key(key): as_json(item) for key, item in value.items()}
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case set() | frozenset():
            return [as_json(item) for item in sorted(value, key=str)]
        case Sequence():
            return [as_json(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def _key(key: object) -> str:
    if isinstance(key, tuple):
        return "/".join(str(part) for part in key)
    return str(key.value) if isinstance(key, Enum) else str(key)


def finding_from(data: Mapping[str, Any]) -> Finding:
    """The finding that `as_json` made this of."""
    fields = dict(data)
    reason = fields.pop("reason", None)
    return Finding(
        **{**fields, "verdict": Verdict(fields["verdict"]), "set_by": Setter(fields["set_by"])},
        reason=None if reason is None else _reason_from(reason),
    )


def _reason_from(data: Mapping[str, Any]) -> Reason:
    fields = dict(data)
    return Reason(
        **{
            **fields,
            "inputs": tuple(Input(**item) for item in fields["inputs"]),
            "because": tuple(_reason_from(item) for item in fields["because"]),
        }
    )


def result_from(data: Mapping[str, Any]) -> TestResult:
    """The result that `as_json` made this of."""
    fields = dict(data)
    return TestResult(
        **{
            **fields,
            "outcome": Outcome(fields["outcome"]),
            "findings": tuple(finding_from(item) for item in fields["findings"]),
        }
    )
