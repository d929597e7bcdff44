"""Builds the report: one HTML file with its styles, scripts, chart library and all data.

Text from a machine never becomes markup: the template escapes it, the scripts create text nodes only, and data are
compressed and in base64, so they cannot end their element. The page's policy allows only the scripts that ship with
memqos, by hash, and no network access.

The overview of the report as plain values for its template. Pure.
"""

from __future__ import annotations

import base64
import datetime
import functools
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from memqos.bundles.evidence import CaseEvidence, charts_of, folder_of
from memqos.engine.answer.document import finding_document, reason_document
from memqos.engine.answer.explain import shown_amount
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.engine.translate.explain import Document
from memqos.errors import ExitCode
from memqos.model.knob import Bytes
from memqos.report.bundle import Bundle, Part, Results
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import host_text
from memqos.report.verdict import Cause, causes_of, verdict_line
from memqos.report.words import again, how_many

__all__ = [
    "EVIDENCE_BYTES",
    "case_document",
    "columns_of",
    "findings_document",
    "index_document",
    "overview",
    "page_html",
    "release_of",
    "style_policy",
    "template_of",
]

Values = dict[str, Any]

MOST_CAUSES = 200
_WRONG = (("Deviations", {Outcome.DEVIATES}), ("Errors", {Outcome.MACHINERY, Outcome.USAGE}))
_AT_A_GLANCE = ("profile", "target", "topology", "kernel", "cri", "kubelets", "driver", "qemu", "accelerator")
"""Fields of a machine that are shown; the others are folded."""
_ALWAYS_TOLD = frozenset({"conforms", "deviates"})
_LONG = 12
"""Objects with more fields than this are folded."""


def overview(results: Results, *, suite: str = "") -> Values:
    """The template's values, except those about the file itself. suite: what its mutants came to, "" if not known."""
    bundle = results.bundle
    said = verdict_line(bundle).removeprefix("verdict: ")
    short, _, long = said.partition(" (")
    numbers, names = {id(result): number for number, result in enumerate(bundle.results)}, names_of(bundle.results)
    causes = causes_of(bundle.results)
    return {
        "verdict": short,
        "verdict_more": long.removesuffix(")"),
        "tone": _tone(bundle),
        "name": results.name,
        "missing": results.missing,
        "inconsistencies": bundle.inconsistencies,
        "error": bundle.error,
        "facts": [*_facts(bundle), *([("mutants", suite)] if suite else [])],
        "settings": list(_settings(bundle)),
        "machines": [_machine(machine) for machine in bundle.machines],
        "shares": list(_shares(bundle)),
        "tables": list(_tables(bundle)),
        "causes": [
            (title, shown[:MOST_CAUSES], max(0, len(shown) - MOST_CAUSES))
            for title, of in _WRONG
            if (shown := [_cause(one, numbers, names, bundle) for one in causes if one.outcome in of])
        ],
        "reasons": list(_reasons(bundle, names)),
        "known_gone": bundle.known_gone,
        "parts": [_part(part) for part in bundle.merged.parts] if bundle.merged else [],
        "doubles": bundle.merged.doubles if bundle.merged else (),
        "contradictions": bundle.merged.contradictions if bundle.merged else (),
    }


def _reasons(bundle: Bundle, names: Mapping[int, str]) -> Iterator[tuple[str, int, list[tuple[str, int, int, str]]]]:
    """Known deviations and cases that were not observable: counts in all and by reason, with the first case of each."""
    for title, outcome in (("Known deviations", Outcome.KNOWN), ("Not observable", Outcome.NOT_OBSERVABLE)):
        cases = [(number, result) for number, result in enumerate(bundle.results) if result.outcome is outcome]
        counted = Counter(result.reason for _, result in cases)
        first = {result.reason: (number, names[id(result)]) for number, result in reversed(cases)}
        if cases:
            yield title, len(cases), [(reason, count, *first[reason]) for reason, count in counted.most_common()]


def _cause(cause: Cause, numbers: Mapping[int, int], names: Mapping[int, str], bundle: Bundle) -> Values:
    """A cause by its first finding: the rule, the hop that lost the value, the counts, and the cases."""
    example, first = cause.example, cause.results[0]
    found = f"{how_many(len(cause.findings), 'finding')} in " if cause.findings else ""
    values: Values = {"knob": "", "subject": first.reason or first.id, "rule": "", "lost": ""}
    if example is not None:
        values = {
            "knob": example.knob,
            "subject": str(example.subject),
            "expected": _amount(example.expected, example.knob),
            "observed": _amount(example.observed, example.knob),
            "rule": _rule(example) or bundle.claims.get(first.claim, {}).get("sentence", ""),
            "lost": example.lost.by if example.lost is not None else "",
        }
    return {
        **values,
        "counted": f"{found}{how_many(len(cause.results), 'case')}" if len(cause.findings or cause.results) > 1 else "",
        "cases": [(numbers[id(result)], names[id(result)]) for result in cause.results],
    }


def _rule(finding: Finding) -> str:
    """The rule behind the expected value, with its revision."""
    reason = finding.reason
    if reason is None:
        return ""
    return f"{reason.rule} ({reason.revision})" if reason.rule and reason.revision else reason.rule


def _amount(text: str, knob: str) -> str:
    """An interface file's value, with its amount in MiB or KiB."""
    is_bytes = "memory" in knob and text.isascii() and text.isdecimal()
    return shown_amount(Bytes(int(text))) if is_bytes else text or "nothing"


def _tone(bundle: Bundle) -> str:
    """The verdict's style: good, bad, or unclear."""
    if bundle.exit_code == ExitCode.CONFORMS:
        return "good"
    return "bad" if bundle.exit_code == ExitCode.DEVIATES else "unclear"


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    yield "started", bundle.started or "not known"
    yield "ended", bundle.ended or "not known"
    if seconds := _seconds(bundle.started, bundle.ended):
        yield "took", f"{seconds // 60} min {seconds % 60} s"
    yield "exit code", f"{bundle.exit_code} ({ExitCode(bundle.exit_code).name.lower().replace('_', ' ')})"
    if again := sum(len(result.earlier_attempts) for result in bundle.results):
        yield "run again", str(again)
    if bundle.not_run:
        yield "not run", str(bundle.not_run)
    if bundle.left_out.cases:
        yield "skipped by the default run", f"{bundle.left_out.cases} cases of {bundle.left_out.claims} claims"
    yield from ((f"host: {name}", str(value)) for name, value in bundle.host.items())
    yield from bundle.versions.items()


def _seconds(started: str, ended: str) -> int:
    try:
        return int((datetime.datetime.fromisoformat(ended) - datetime.datetime.fromisoformat(started)).total_seconds())
    except (ValueError, TypeError):
        return 0


def _settings(bundle: Bundle) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Name, value and origin of each setting: first the given ones, then under a title the defaults."""
    rows = [(name, _text(setting["value"]), str(setting["origin"])) for name, setting in bundle.settings.items()]
    for title, is_default in (("", False), ("defaults", True)):
        if some := [row for row in rows if (row[2] == "default") is is_default]:
            yield title, some


def _text(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _shares(bundle: Bundle) -> Iterator[tuple[int, str, int, float, float]]:
    """For the bar of all cases: each outcome's number, name and cases, and its part's start and length in %.

    Cases that were not run are the last part.
    """
    names = [*(outcome.value for outcome in Outcome), "not run"]
    counts = Counter(result.outcome.value for result in bundle.results)
    counts["not run"] = bundle.not_run
    before, whole = 0, counts.total()
    for number, name in enumerate(names):
        if cases := counts[name]:
            yield number, name, cases, round(100 * before / whole, 2), round(100 * cases / whole, 2)
        before += cases


def _tables(bundle: Bundle) -> Iterator[Values]:
    """Counts of cases by chapter, by system and by host, and of findings by writer of the observed value."""
    results = bundle.results
    chapters = _tallied(results, [result.chapter for result in results])
    yield {"title": "Chapters", "name": "chapter", "more": ("seconds",), **chapters}
    systems = [" ".join(filter(None, (result.profile, result.runtime, result.driver))) for result in results]
    if len(set(systems)) > 1:
        named = [system or "no system" for system in systems]
        yield {"title": "Systems", "name": "system", "more": ("seconds",), **_tallied(results, named)}
    if any(hosts := [result.host for result in results]):
        named = [host or "the run's own host" for host in hosts]
        yield {"title": "Hosts", "name": "host", "more": ("seconds",), **_tallied(results, named)}
    setters = {setter: counts for setter, counts in bundle.set_by.items() if any(counts.values())}
    if setters:
        seen = [one for one in Verdict if one in _ALWAYS_TOLD or any(counts[one.value] for counts in setters.values())]
        yield {
            "title": "Findings by writer of the observed value",
            "name": "set by",
            "more": (),
            "has_total": False,
            "columns": [(list(Verdict).index(one), one.value) for one in seen],
            "rows": [(setter, [counts[one.value] for one in seen], ()) for setter, counts in setters.items()],
        }


def _tallied(results: Sequence[TestResult], names: Sequence[str]) -> Values:
    """Rows of cases by outcome with their seconds, by name, without empty columns; the last row is all."""
    seen = [one for one in Outcome if one in _ALWAYS_TOLD or any(result.outcome is one for result in results)]
    rows = []
    for name in [*dict.fromkeys(names), None]:
        own = [result for result, of in zip(results, names, strict=True) if name in (None, of)]
        counts = [sum(result.outcome is outcome for result in own) for outcome in seen]
        rows.append((name if name is not None else "all", counts, (f"{sum(result.seconds for result in own):.1f}",)))
    return {"columns": [(list(Outcome).index(one), one.value) for one in seen], "rows": rows, "has_total": True}


def _part(part: Part) -> tuple[str, ...]:
    """Name, start, cases, exit code, verification, host's kernel and memqos's version."""
    counts = (str(part.cases), str(part.exit_code), part.verified)
    return part.name, part.started, *counts, str(part.host.get("kernel", "")), part.versions.get("memqos", "")


def _machine(machine: Mapping[str, Any]) -> Values:
    """A machine: its main fields, and all others, folded by name."""
    short = [("runs", ", ".join(map(str, machine.get("runtimes", ())))), ("host", host_text(machine))]
    short += [(name, _text(machine[name])) for name in _AT_A_GLANCE if machine.get(name)]
    folded: list[tuple[str, list[tuple[str, str]]]] = [("all fields", [])]
    for name, value in machine.items():
        rows = list(_rows(value, ""))
        if isinstance(value, dict) and len(rows) > _LONG:
            folded.append((name.replace("_", " "), rows))
        else:
            folded[0][1].extend((f"{name} {row}".strip().replace("_", " "), text) for row, text in rows)
    return {"id": str(machine.get("id", "?")), "short": [row for row in short if row[1]], "folded": folded}


def _rows(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _rows(one, f"{path} {name}".strip())
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for number, one in enumerate(value):
            yield from _rows(one, f"{path} {number}".strip())
    else:
        yield path, _text(value)


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
    return template_of("page.html.j2")


def template_of(name: str) -> jinja2.Template:
    """One of this package's templates, which escapes all text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def page_source(name: str) -> str:
    """The text of one of SCRIPTS or STYLES."""
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def style_policy(styles: Sequence[str]) -> str:
    """The policy of a page without scripts."""
    return f"default-src 'none'; style-src {_hashes(styles)}; base-uri 'none'; form-action 'none'"


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
