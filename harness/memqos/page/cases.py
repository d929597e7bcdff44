"""The cases of a report as data that its program reads: what all lists need of them, and the findings of each. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from memqos.engine.answer.document import finding_document, reason_document
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.engine.translate.explain import Document
from memqos.report.bundle import Bundle
from memqos.report.outcome import Outcome, TestResult

__all__ = ["case_document", "columns_of", "findings_document", "index_document", "release_of"]

_Column = tuple[str, str, str, str]
"""Profile, runtime, driver, and release of Kubernetes."""

_RELEASE = re.compile(r"\[(?:.*-)?v(\d+\.\d+)\b")
_OUTCOMES = [outcome.value for outcome in Outcome]


def release_of(result: TestResult) -> str:
    """The release of Kubernetes whose rules a case holds to, such as 1.36; "" for the kernel's or runtime's own."""
    found = _RELEASE.search(result.id)
    return found[1] if found else ""


def columns_of(results: Iterable[TestResult]) -> dict[_Column, str]:
    """The systems and releases of the results, in their order, each with a name of what tells it from the others.

    The columns of a system that has but one release, beside what is of any, have one name: they are shown as one.
    """
    found = dict.fromkeys(_column(result) for result in results if result.profile or release_of(result))
    systems = list(dict.fromkeys(column[:3] for column in found))
    columns = sorted(found, key=lambda column: (systems.index(column[:3]), _version(column[3])))
    releases = Counter(column[:3] for column in columns if column[3])
    varies = [len(set(parts)) > 1 for parts in zip(*columns, strict=True)][:3]
    named = {}
    for column in columns:
        words = [part for part, is_told in zip(column, varies, strict=False) if is_told and part]
        if releases[column[:3]] > 1:
            words.append(f"v{column[3]}" if column[3] else "any release")
        named[column] = " ".join(words) or " ".join(filter(None, column[:2])) or "all"
    return named


def _version(release: str) -> tuple[int, ...]:
    """1.36 comes after 1.9, and what is of any release before both."""
    return tuple(map(int, release.split("."))) if release else ()


def _column(result: TestResult) -> _Column:
    return result.profile, result.runtime, result.driver, release_of(result)


def index_document(bundle: Bundle, cases: Sequence[Document]) -> Document:
    """What the lists, the matrix and the filters need: names once, and cases that refer to them by number."""
    return {
        "outcomes": _OUTCOMES,
        "chapters": list(dict.fromkeys(result.chapter for result in bundle.results)),
        "columns": [
            {"name": name, "profile": column[0], "runtime": column[1], "driver": column[2], "release": column[3]}
            for column, name in columns_of(bundle.results).items()
        ],
        "claims": {name: dict(claim) for name, claim in bundle.claims.items()},
        "cases": list(cases),
    }


def case_document(result: TestResult, columns: Sequence[_Column], *, name: str, again: str) -> Document:
    """One case in the index. name: what it is called among the others. again: the command that runs just this one."""
    verdicts = Counter(finding.verdict for finding in result.findings)
    column = _column(result)
    return {
        "id": name,
        "claim": result.claim,
        "chapter": result.chapter,
        "column": columns.index(column) if column in columns else -1,
        "outcome": _OUTCOMES.index(result.outcome.value),
        "seconds": result.seconds,
        "reason": result.reason,
        "attempts": [f"{one.again}. Attempt {n}: {one.reason}" for n, one in enumerate(result.earlier_attempts, 1)],
        "before": result.seconds_before,
        "machine": result.machine,
        "host": result.host,
        "knobs": sorted({finding.knob for finding in result.findings}),
        "findings": [verdicts[verdict] for verdict in Verdict],
        "folder": result.folder,
        "again": again,
    }


def findings_document(results: Sequence[TestResult]) -> Document:
    """The findings of some cases, in the order of these; reasons, which many share, once."""
    reasons: dict[Reason, int] = {}
    cases = [
        {"text": result.text, "findings": [_finding(one, reasons) for one in result.findings]} for result in results
    ]
    return {"reasons": [reason_document(reason) for reason in reasons], "cases": cases}


def _finding(finding: Finding, reasons: dict[Reason, int]) -> Document:
    number = -1 if finding.reason is None else reasons.setdefault(finding.reason, len(reasons))
    document = finding_document(finding)
    kept: Mapping[str, object] = {name: value for name, value in document.items() if name != "reason" and value}
    return {**kept, "reason": number}
