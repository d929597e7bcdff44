"""Any value of the package as JSON: its own document if it has one, else its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any

from memqos.engine.answer.document import finding_document, plan_document, reason_document
from memqos.engine.answer.finding import Finding
from memqos.engine.plan import Plan, Reason
from memqos.model.knob import Bytes, CpuMax, Number, Text
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading, Unreadable
from memqos.report.outcome import TestResult
from memqos.report.phase import Phase

__all__ = ["Json", "as_json", "reading_document"]

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def as_json(value: object) -> Json:  # noqa: PLR0911 - one return a kind of value reads best
    """Any value of the package as JSON.

    Plans, reasons, findings, readings and results have one document each, wherever they occur. Other dataclasses become
    objects by field name, enums their value, paths and fractions text. A knob's value becomes the text of its file
    ("max", "absent", or a number as text), so absent, zero and max stay distinct.
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
    if type(value) in _DOCUMENTS:
        return _DOCUMENTS[type(value)](value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def _key(key: object) -> str:
    if isinstance(key, tuple):
        return "/".join(str(part) for part in key)
    return str(key.value) if isinstance(key, Enum) else str(key)


def reading_document(reading: Reading) -> dict[str, Any]:
    """A reading with its cgroups as in a recorded tree: path to files, file to text; null for a missing file.

    An unreadable file is an object with the reason: {"unreadable": "Permission denied"}.
    """
    return {
        "source": reading.source,
        "at": reading.at,
        "cgroups": {str(path): _files(cgroup) for path, cgroup in reading.cgroups.items()},
    }


def _files(cgroup: CgroupReading) -> dict[str, Json]:
    return {name: _file(text) for name, text in cgroup.files.items()}


def _file(text: FileText) -> Json:
    match text:
        case NoFile():
            return None
        case Unreadable():
            return {"unreadable": text.reason}
    return text


_DOCUMENTS: Mapping[type, Callable[[Any], Json]] = {
    Finding: finding_document,
    Phase: Phase.to_json,
    Plan: plan_document,
    Reading: reading_document,
    Reason: reason_document,
    TestResult: TestResult.to_json,
}
"""Types with their own document."""
