"""What the report says first, as plain values for its template. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from memqos.bundles.reading import Results
from memqos.engine.answer.finding import Verdict
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle, Part
from memqos.report.causes import Cause, causes_of
from memqos.report.outcome import Outcome
from memqos.report.summary import finding_line
from memqos.report.verdict import verdict_line
from memqos.report.words import how_many

__all__ = ["overview"]

Values = dict[str, Any]

MOST_DEVIATIONS = 200
_LONG = 12
"""Of what a machine says, an object with more fields than this is folded."""


def overview(results: Results) -> Values:
    """The template's values but for those that are about the file itself."""
    bundle = results.bundle
    said = verdict_line(bundle).removeprefix("verdict: ")
    short, _, long = said.partition(" (")
    numbers = {id(result): number for number, result in enumerate(bundle.results)}
    deviations = [_cause(one, numbers) for one in causes_of(bundle.results) if one.outcome is Outcome.DEVIATES]
    return {
        "verdict": short,
        "verdict_more": long.removesuffix(")"),
        "tone": _tone(bundle),
        "name": results.name,
        "missing": results.missing,
        "error": bundle.error,
        "facts": list(_facts(bundle)),
        "settings": list(_settings(bundle)),
        "machines": [_machine(machine) for machine in bundle.machines],
        "outcomes": [outcome.value for outcome in Outcome],
        "chapters": list(_chapters(bundle)),
        "verdicts": [verdict.value for verdict in Verdict],
        "setters": [
            (setter, list(counts.values())) for setter, counts in bundle.set_by.items() if any(counts.values())
        ],
        "deviations": deviations[:MOST_DEVIATIONS],
        "more_deviations": max(0, len(deviations) - MOST_DEVIATIONS),
        "known_gone": bundle.known_gone,
        "parts": [_part(part) for part in bundle.merged.parts] if bundle.merged else [],
        "doubles": bundle.merged.doubles if bundle.merged else (),
        "contradictions": bundle.merged.contradictions if bundle.merged else (),
    }


def _cause(cause: Cause, numbers: Mapping[int, int]) -> Values:
    """A cause by its first finding: its rule, the hop that lost the value, how much is like it, and the cases."""
    found = f"{how_many(len(cause.findings), 'finding')} in " if cause.findings else ""
    lost = cause.example.lost.by if cause.example is not None and cause.example.lost is not None else ""
    return {
        "line": finding_line(cause.example) if cause.example is not None else cause.results[0].reason,
        "rule": cause.example.reason.rule if cause.example is not None and cause.example.reason is not None else "",
        "lost": lost,
        "counted": f"{found}{how_many(len(cause.results), 'case')}" if len(cause.findings or cause.results) > 1 else "",
        "cases": [(numbers[id(result)], result.id) for result in cause.results],
    }


def _tone(bundle: Bundle) -> str:
    """What the verdict looks like: good, bad, or neither."""
    if bundle.exit_code == ExitCode.CONFORMS:
        return "good"
    return "bad" if bundle.exit_code == ExitCode.DEVIATES else "unclear"


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    yield "started", bundle.started or "not known"
    yield "ended", bundle.ended or "not known"
    if seconds := _seconds(bundle.started, bundle.ended):
        yield "took", f"{seconds // 60} min {seconds % 60} s"
    yield "exit code", f"{bundle.exit_code} ({ExitCode(bundle.exit_code).name.lower().replace('_', ' ')})"
    if bundle.not_run:
        yield "not run", str(bundle.not_run)
    if bundle.left_out.cases:
        yield "left out of the default", f"{bundle.left_out.cases} cases of {bundle.left_out.claims} claims"
    yield from ((f"host: {name}", str(value)) for name, value in bundle.host.items())
    yield from bundle.versions.items()


def _seconds(started: str, ended: str) -> int:
    try:
        return int((datetime.datetime.fromisoformat(ended) - datetime.datetime.fromisoformat(started)).total_seconds())
    except (ValueError, TypeError):
        return 0


def _settings(bundle: Bundle) -> Iterator[tuple[str, str, str]]:
    """Name, value and origin; what was given stands before what was left at its default."""
    rows = [(name, _text(setting["value"]), str(setting["origin"])) for name, setting in bundle.settings.items()]
    yield from sorted(rows, key=lambda row: row[2] == "default")


def _text(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _chapters(bundle: Bundle) -> Iterator[tuple[str, list[int], float]]:
    """Name, cases by outcome, seconds; the last row is all."""
    names = list(dict.fromkeys(result.chapter for result in bundle.results))
    for name, of in [*((name, {name}) for name in names), ("all", set(names))]:
        results = [result for result in bundle.results if result.chapter in of]
        counts = [sum(result.outcome is outcome for result in results) for outcome in Outcome]
        yield name, counts, sum(result.seconds for result in results)


def _part(part: Part) -> tuple[str, ...]:
    """Name, start, cases, exit code, host's kernel and memqos's version."""
    counts = (str(part.cases), str(part.exit_code))
    return part.name, part.started, *counts, str(part.host.get("kernel", "")), part.versions.get("memqos", "")


def _machine(machine: Mapping[str, Any]) -> Values:
    """A machine: short facts by their path, long lists folded by name."""
    short: list[tuple[str, str]] = []
    folded: list[tuple[str, list[tuple[str, str]]]] = []
    for name, value in machine.items():
        rows = list(_rows(value, ""))
        if isinstance(value, dict) and len(rows) > _LONG:
            folded.append((name.replace("_", " "), rows))
        else:
            short += [(f"{name} {row}".strip().replace("_", " "), text) for row, text in rows]
    return {"id": str(machine.get("id", "?")), "short": short, "folded": folded}


def _rows(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _rows(one, f"{path} {name}".strip())
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for number, one in enumerate(value):
            yield from _rows(one, f"{path} {number}".strip())
    else:
        yield path, _text(value)
