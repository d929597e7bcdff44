"""Builds the report: one HTML file with its style, programs, chart library and all data, and nothing from outside.

What came from a machine is data and never markup: the template escapes, the program makes text nodes only, and data are
compressed and in base64, so that nothing in them can end the element that they stand in. The page's policy lets run
what has the hash of the two programs that ship with memqos, and lets nothing be fetched.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from memqos.bundles.evidence import CaseEvidence, folder_of
from memqos.bundles.series import charts_of
from memqos.page.cases import case_document, columns_of, findings_document, index_document
from memqos.page.overview import overview
from memqos.report.again import again
from memqos.report.bundle import Results
from memqos.report.naming import names_of
from memqos.report.outcome import Outcome, TestResult

__all__ = ["EVIDENCE_BYTES", "page_html"]

EVIDENCE_BYTES = 3 << 20
"""How much room the evidence of cases may take in a file that is to be sent and opened on a phone."""
CASES_AT_ONCE = 40
"""Findings are unpacked when a case is opened, with those of the cases beside it."""

_HERE = Path(__file__).parent
SCRIPTS = ("vendored/uPlot.iife.min.js", "lists.js", "charts.js", "case.js", "page.js")
STYLES = ("vendored/uPlot.min.css", "page.css")
_FIRST = (Outcome.DEVIATES, Outcome.KNOWN, Outcome.MACHINERY, Outcome.USAGE, Outcome.NOT_OBSERVABLE, Outcome.CONFORMS)
"""Whose evidence is kept if there is no room for all."""


def page_html(results: Results) -> str:
    """The whole file as text."""
    scripts = [page_source(name) for name in SCRIPTS]
    styles = [page_source(name) for name in STYLES]
    return _template().render(
        **overview(results),
        policy=_policy(scripts, styles),
        scripts=[Markup(one) for one in scripts],  # noqa: S704 - files of this package, without an end of their element
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
    # The same data make the same file: no time in it.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), 6, mtime=0)).decode()


def _data(results: Results) -> dict[str, str]:
    """All data, packed, by the name under which the program asks for them."""
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
    """The evidence of cases, packed once for all that share it, as long as there is room.

    of_case: its name by the number of the case. charts: how many charts there are, by that name.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._room = EVIDENCE_BYTES
        self._by_folder: dict[Path, str] = {}
        self.packed: dict[str, str] = {}
        self.of_case: dict[int, str] = {}
        self.charts: dict[str, int] = {}

    def keep(self) -> None:
        """Those first that somebody will look for."""
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
            # Pods that several cases of a module look at are watched in the machine's own folder.
            own = self._results.folder / "machines" / Path(result.machine).name
            charts = charts_of(CaseEvidence(own).lines("series.jsonl"), cgroups)
        return {**evidence.document(), "charts": charts, "folder": f"{folder.parent.name}/{folder.name}"}
