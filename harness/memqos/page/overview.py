"""The overview of the report as plain values for its template. Pure."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memqos.engine.answer.explain import shown_amount
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ExitCode
from memqos.model.knob import Bytes
from memqos.report.bundle import Bundle, Part, Results
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import host_text
from memqos.report.verdict import Cause, causes_of, verdict_line
from memqos.report.words import how_many

__all__ = ["overview"]

Values = dict[str, Any]

MOST_CAUSES = 200
_WRONG = (("Deviations", {Outcome.DEVIATES}), ("Errors", {Outcome.MACHINERY, Outcome.USAGE}))
_AT_A_GLANCE = ("profile", "target", "topology", "kernel", "cri", "driver", "qemu", "accelerator")
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
    """A control file's value, with its amount in MiB or KiB."""
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
