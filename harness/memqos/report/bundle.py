"""The bundle: one run as one JSON document, from which every other report is rendered.

The format is the definition `bundle` of memqos.schema.json, beside this file. Within a schema version, no field is
removed or changes its meaning.

Any value of the package as JSON: its own document if it has one, else its fields.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any

from memqos.engine.answer.document import finding_document, plan_document, reason_document
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Plan, Reason
from memqos.model.knob import Bytes, CpuMax, Number, Text
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading, Unreadable
from memqos.report.matrix import Matrix, matrix_of
from memqos.report.outcome import Outcome, Phase, TestResult

__all__ = ["SCHEMA", "Bundle", "Json", "LeftOut", "Merged", "Part", "Results", "as_json"]

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


SCHEMA = "memqos-bundle/3"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the default run skips. claims: how many claims no case of the run proves."""

    claims: int = 0
    cases: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the merged runs: its name and its head. cases: its number of results.

    verified: whether its folder was unchanged since the run: "verified", "failed", or "not verified" without hashes; ""
    if it was not checked. faults: the first changes, one line each.
    """

    name: str
    started: str
    ended: str
    exit_code: int
    cases: int
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]]
    verified: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The parts of a merged bundle. Machines and folders of a part begin with its name.

    doubles: cases that several parts have for the same system with the same result, one line each; the bundle has them
    once. contradictions: those with different results; the bundle has them once per part.
    """

    parts: tuple[Part, ...]
    doubles: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One run, or several merged ones.

    started, ended: UTC, ISO 8601. interrupted: whether the run ended early, so that tests are missing.
    versions: program or package to version, on the host. machines: each booted machine's description of itself.
    settings: name to value and origin. exit_code: of the process.
    left_out: cases of the suites that the default run skips.
    known_gone: known deviations of the machines' runtimes that were checked and not observed, one line each.
    merged: the merged parts; None for one run.
    claims: id to sentence, source, kind and about of each claim that a result cites.
    shard: for one shard of several, its number, the number of shards and cases, and the name of the division; only
    parts with the same three fit together. Empty for a whole run.
    inconsistencies: statements that contradict the bundle's own results, one sentence each; none in a bundle that a run
    wrote. A bundle with any never counts as conforming.
    error: errors outside of any test, one line each; "" for none.
    """

    started: str
    ended: str
    exit_code: int
    interrupted: bool = False
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machines: tuple[Mapping[str, Any], ...] = ()
    results: tuple[TestResult, ...] = ()
    not_run: int = 0
    known_gone: tuple[str, ...] = ()
    left_out: LeftOut = LeftOut()
    claims: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    merged: Merged | None = None
    shard: Mapping[str, Any] = field(default_factory=dict)
    inconsistencies: tuple[str, ...] = ()

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of tests by outcome, with zeros."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome.value: counted[outcome] for outcome in Outcome}

    @property
    def verdicts(self) -> Mapping[str, int]:
        """The number of findings by verdict."""
        return {
            verdict.value: sum(by_verdict[verdict.value] for by_verdict in self.set_by.values()) for verdict in Verdict
        }

    @property
    def set_by(self) -> Mapping[str, Mapping[str, int]]:
        """The number of findings by verdict, for each writer of the observed value, with zeros."""
        counted = Counter((finding.set_by, finding.verdict) for result in self.results for finding in result.findings)
        return {setter.value: {verdict.value: counted[setter, verdict] for verdict in Verdict} for setter in Setter}

    def head(self) -> dict[str, Json]:
        """`run.json`: the facts before the first case, in case the run is killed."""
        return {
            "schema": SCHEMA,
            "started": self.started,
            "versions": as_json(self.versions),
            "host": as_json(self.host),
            "settings": as_json(self.settings),
        }

    def to_json(self) -> dict[str, Json]:
        """The document; with a matrix only for several systems."""
        matrix, (reasons, results) = matrix_of(self.results), _told_once(self.results)
        return {
            "schema": SCHEMA,
            "started": self.started,
            "ended": self.ended,
            "exit_code": self.exit_code,
            "error": self.error,
            "interrupted": self.interrupted,
            "counts": {
                "tests": dict(self.outcomes),
                "findings": dict(self.verdicts),
                "set_by": as_json(self.set_by),
                "not_run": self.not_run,
                "left_out": as_json(self.left_out),
            },
            "known_gone": list(self.known_gone),
            "versions": as_json(self.versions),
            "host": as_json(self.host),
            "settings": as_json(self.settings),
            "machines": as_json(self.machines),
            "claims": as_json(self.claims),
            "reasons": reasons,
            "results": results,
            **({"shard": as_json(self.shard)} if self.shard else {}),
            **({"matrix": _matrix_document(matrix)} if matrix.columns else {}),
            **({"inconsistencies": list(self.inconsistencies)} if self.inconsistencies else {}),
            **({"merged": as_json(self.merged)} if self.merged is not None else {}),
        }

    def to_text(self) -> str:
        """The document as text that can be compared line by line: one line per reason and result."""
        parts = (f" {json.dumps(name)}: {_part_text(name, part)}" for name, part in self.to_json().items())
        return "{\n" + ",\n".join(parts) + "\n}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run as stored.

    folder: its path. missing: a sentence for each unknown part; empty for a complete run. unended: the one of these
    about the progress of a run without an end.
    """

    folder: Path
    bundle: Bundle
    missing: tuple[str, ...] = ()
    unended: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name: that of its folder."""
        return self.folder.resolve().name


def _told_once(results: Iterable[TestResult]) -> tuple[list[Json], list[Json]]:
    """Every reason once, and the results, whose findings have the index of their reason, null for none.

    A rule explains the same value of many pods; with repeated reasons a bundle was twice as large.
    """
    places: dict[Reason, int] = {}
    cases: list[Json] = []
    for result in results:
        case = result.to_json()
        for document, finding in zip(case["findings"], result.findings, strict=True):
            if finding.reason is not None:
                document["reason"] = places.setdefault(finding.reason, len(places))
        cases.append(case)
    return [reason_document(reason) for reason in places], cases


def _part_text(name: str, part: Json) -> str:
    if name in {"reasons", "results"} and isinstance(part, list) and part:
        lines = (f"  {json.dumps(one, ensure_ascii=False, separators=(',', ':'))}" for one in part)
        return "[\n" + ",\n".join(lines) + "\n ]"
    return json.dumps(part, indent=1, ensure_ascii=False).replace("\n", "\n ")


def _matrix_document(matrix: Matrix) -> Json:
    return {
        "profiles": list(matrix.profiles),
        "columns": as_json(matrix.columns),
        "rows": as_json(matrix.rows),
        "differences": as_json(matrix.differences),
    }
