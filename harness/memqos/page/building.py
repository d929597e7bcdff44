"""Builds the report: one HTML file with its styles, scripts, chart library and all data.

Text from a machine never becomes markup: the template escapes it, the scripts create text nodes only, and data are
compressed and in base64, so they cannot end their element. The page's policy allows only the scripts that ship with
memqos, by hash, and no network access.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from memqos.bundles.evidence import CaseEvidence, charts_of, folder_of
from memqos.engine.answer.document import finding_document, reason_document
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.engine.translate.explain import Document
from memqos.page.overview import overview
from memqos.report.again import again
from memqos.report.bundle import Bundle, Results
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult

__all__ = [
    "EVIDENCE_BYTES",
    "case_document",
    "columns_of",
    "findings_document",
    "index_document",
    "page_html",
    "release_of",
]

_Column = tuple[str, str, str, str]
"""Profile, runtime, driver, and release of Kubernetes."""

_RELEASE = re.compile(r"\[(?:.*-)?v(\d+\.\d+)\b")
_OUTCOMES = [outcome.value for outcome in Outcome]


def release_of(result: TestResult) -> str:
    """The release of Kubernetes whose rules a case checks, such as 1.36; "" for rules of the kernel or the runtime."""
    found = _RELEASE.search(result.id)
    return found[1] if found else ""


def columns_of(results: Iterable[TestResult]) -> dict[_Column, str]:
    """The systems and releases of the results, in order, each with a distinguishing name.

    The columns of a system with one release, and those for any release, share a name: the page shows them as one.
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
    """Sorts 1.9 before 1.36, and "any release" first."""
    return tuple(map(int, release.split("."))) if release else ()


def _column(result: TestResult) -> _Column:
    return result.profile, result.runtime, result.driver, release_of(result)


def index_document(bundle: Bundle, cases: Sequence[Document]) -> Document:
    """The index for lists, matrix and filters: names once, and cases that refer to them by number."""
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
    """One case in the index. name: distinguishes it from the others. again: the command that reruns it."""
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
    """The findings of some cases in order, with each shared reason once."""
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


EVIDENCE_BYTES = 3 << 20
"""Most bytes of evidence in the file, so that it can be sent and opened on a phone."""
CASES_AT_ONCE = 40
"""Cases per packed block of findings; a block is unpacked when one of its cases is opened."""

_HERE = Path(__file__).parent
SCRIPTS = ("vendored/uPlot.iife.min.js", "lists.js", "charts.js", "case.js", "page.js")
STYLES = ("vendored/uPlot.min.css", "page.css")
_FIRST = (Outcome.DEVIATES, Outcome.KNOWN, Outcome.MACHINERY, Outcome.USAGE, Outcome.NOT_OBSERVABLE, Outcome.CONFORMS)
"""The order of outcomes in which evidence is kept while there is room."""


def page_html(results: Results, *, suite: str = "") -> str:
    """The whole file as text. suite: what its mutants came to, "" if not known."""
    scripts = [page_source(name) for name in SCRIPTS]
    styles = [page_source(name) for name in STYLES]
    return _template().render(
        **overview(results, suite=suite),
        policy=_policy(scripts, styles),
        scripts=[Markup(one) for one in scripts],  # noqa: S704 - files of this package, which do not close their element
        styles=[Markup(one) for one in styles],  # noqa: S704 - as above
        blobs=_data(results),
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2")


def page_source(name: str) -> str:
    """The text of one of SCRIPTS or STYLES."""
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes(sources: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in sources)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _packed(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # No timestamp, so that the same data make the same file.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), 6, mtime=0)).decode()


def _data(results: Results) -> dict[str, str]:
    """All data, packed, by the name that the script uses."""
    bundle = results.bundle
    evidence = _Evidence(results)
    evidence.keep()
    packed = evidence.packed
    columns = list(columns_of(bundle.results))
    cases, names = [], names_of(bundle.results)
    for number, result in enumerate(bundle.results):
        command = "" if result.outcome is Outcome.CONFORMS else again(bundle, result)
        case = case_document(result, columns, name=names[id(result)], again=command)
        name = evidence.of_case.get(number, "")
        cases.append({**case, "evidence": name, "charts": evidence.charts.get(name, 0)})
    for start in range(0, len(bundle.results), CASES_AT_ONCE):
        some = bundle.results[start : start + CASES_AT_ONCE]
        packed[f"findings-{start // CASES_AT_ONCE}"] = _packed(findings_document(some))
    packed["index"] = _packed({**index_document(bundle, cases), "at_once": CASES_AT_ONCE})
    return packed


class _Evidence:
    """The evidence of cases, packed once for all cases that share it, while there is room.

    of_case: its name by the number of the case. charts: number of charts by that name.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._room = EVIDENCE_BYTES
        self._by_folder: dict[Path, str] = {}
        self.packed: dict[str, str] = {}
        self.of_case: dict[int, str] = {}
        self.charts: dict[str, int] = {}

    def keep(self) -> None:
        """The cases in the order in which evidence is kept."""
        cases = enumerate(self._results.bundle.results)
        for number, result in sorted(cases, key=lambda one: (_FIRST.index(one[1].outcome), one[0])):
            folder = folder_of(self._results.folder, result)
            if folder is not None and (folder in self._by_folder or self._room > 0):
                self.of_case[number] = self._by_folder.get(folder) or self._add(folder, result)

    def _add(self, folder: Path, result: TestResult) -> str:
        name = f"evidence-{len(self._by_folder)}"
        self._by_folder[folder] = name
        document = self._document(folder, result)
        self.packed[name] = _packed(document)
        self.charts[name] = len(document["charts"])
        self._room -= len(self.packed[name])
        return name

    def _document(self, folder: Path, result: TestResult) -> dict[str, Any]:
        evidence = CaseEvidence(folder)
        charts = charts_of(evidence.lines("series.jsonl"))
        cgroups = frozenset(finding.cgroup for finding in result.findings if finding.cgroup)
        if not charts and result.machine and result.folder and cgroups:
            # Series of pods that several cases of a module share are in the machine's folder.
            own = self._results.folder / "machines" / Path(result.machine).name
            charts = charts_of(CaseEvidence(own).lines("series.jsonl"), cgroups)
        return {**evidence.document(), "charts": charts, "folder": f"{folder.parent.name}/{folder.name}"}
