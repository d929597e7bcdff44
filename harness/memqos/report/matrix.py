"""Claims by profiles: how the same cases ended on different systems, and what is expected of these otherwise. Pure.

That two profiles conform does not mean that they hold the same: where a runtime's or kernel's version makes another
value of the same request, the engine expects that value. The differences say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.report.outcome import Outcome, TestResult

__all__ = ["Matrix", "ProfileDifference", "Row", "matrix_lines", "matrix_of"]

SHORTEST = 2
"""With fewer profiles there is nothing to compare."""

_ORDER = (Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE, Outcome.NOT_OBSERVABLE, Outcome.CONFORMS)
"""Which outcome a cell shows: the worst of its cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim: by profile, how many cases ended in each outcome that occurred."""

    claim: str
    cells: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDifference:
    """Findings of one claim and control file that are not the same on all profiles, for the same reasons.

    what: "expected", or "observed" where the same is expected, and one of them deviates. count: how many findings.
    example, values: the subject of the first, and its values by profile. reasons: its rules by profile, if they differ.
    """

    claim: str
    knob: str
    what: str
    count: int
    example: str
    values: Mapping[str, str]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All claims of a run, in the order in which they were judged; without profiles if there is nothing to compare."""

    profiles: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    differences: tuple[ProfileDifference, ...] = ()


def matrix_of(results: Sequence[TestResult]) -> Matrix:
    """The matrix of these results; an empty one if they are of fewer than two profiles."""
    profiles = tuple(dict.fromkeys(result.profile for result in results if result.profile))
    if len(profiles) < SHORTEST:
        return Matrix()
    cells: dict[str, dict[str, Counter[str]]] = {}
    for result in results:
        if result.profile:
            row = cells.setdefault(result.claim or result.chapter, {})
            row.setdefault(result.profile, Counter())[result.outcome.value] += 1
    rows = tuple(
        Row(claim=claim, cells={profile: dict(row[profile]) for profile in profiles if profile in row})
        for claim, row in cells.items()
    )
    return Matrix(profiles=profiles, rows=rows, differences=tuple(_differences(results, profiles)))


def _differences(results: Sequence[TestResult], profiles: Sequence[str]) -> Iterator[ProfileDifference]:
    """What differs between the profiles, put together by claim, control file and rules; in the profiles' order."""
    same: dict[tuple[str, str, str, str], dict[str, Finding]] = {}
    for result in results:
        for finding in result.findings:
            key = (result.claim, _without_profile(result), finding.subject, finding.knob)
            same.setdefault(key, {})[result.profile] = finding
    groups: dict[tuple[object, ...], list[tuple[str, Mapping[str, str], Mapping[str, str]]]] = {}
    for (claim, _, subject, knob), by_profile in same.items():
        found = {profile: by_profile[profile] for profile in profiles if profile in by_profile}
        expected = {profile: finding.expected for profile, finding in found.items()}
        observed = {profile: finding.observed for profile, finding in found.items()}
        deviates = any(finding.verdict is Verdict.DEVIATES for finding in found.values())
        if len(set(expected.values())) > 1:
            rules = {profile: _rules(finding.reason) for profile, finding in found.items()}
            reasons = rules if len(set(rules.values())) > 1 else {}
            groups.setdefault((claim, knob, "expected", *_split(rules)), []).append((subject, expected, reasons))
        elif deviates and len(set(observed.values())) > 1:
            groups.setdefault((claim, knob, "observed"), []).append((subject, observed, {}))
    for (claim_of, knob_of, what, *_), members in groups.items():
        subject, values, why = members[0]
        yield ProfileDifference(
            claim=str(claim_of),
            knob=str(knob_of),
            what=str(what),
            count=len(members),
            example=subject,
            values=values,
            reasons=why,
        )


def _without_profile(result: TestResult) -> str:
    """The test's id without the parameter that names its profile."""
    return result.id.replace(result.profile, "", 1) if result.profile else result.id


def _rules(reason: Reason | None) -> str:
    """The rules that an expectation comes from, outermost first, with their revisions."""
    if reason is None:
        return ""
    own = f"{reason.rule} ({reason.revision})" if reason.revision else reason.rule
    return "; ".join(dict.fromkeys([own, *(_rules(cause) for cause in reason.because)]))


def _split(rules: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Which profiles go together by their rules: what makes differences of many findings one."""
    return tuple(
        tuple(profile for profile, text in rules.items() if text == one) for one in dict.fromkeys(rules.values())
    )


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """The matrix and the differences as text, line by line; nothing without profiles."""
    if not matrix.profiles:
        return
    table = [["claim", *matrix.profiles]]
    table += [[row.claim, *(_cell(row.cells.get(profile, {})) for profile in matrix.profiles)] for row in matrix.rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
    if matrix.differences:
        yield ""
        yield "differences between the profiles:"
    for difference in matrix.differences:
        more = f", and {difference.count - 1} more" if difference.count > 1 else ""
        yield f"  {difference.knob} {difference.what} ({difference.claim}): {difference.example}{more}"
        for values, profiles in _grouped(difference.values):
            rule = difference.reasons.get(profiles[0], "")
            yield f"    {', '.join(profiles)}: {values}" + (f"  [{rule}]" if rule else "")


def _cell(counts: Mapping[str, int]) -> str:
    """A cell: the worst outcome, and of how many cases it is if not of all."""
    total = sum(counts.values())
    worst = next((outcome.value for outcome in _ORDER if counts.get(outcome.value)), "")
    if not worst:
        return "-"
    return f"{worst} {total}" if counts[worst] == total else f"{worst} {counts[worst]} of {total}"


def _grouped(values: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for profile, value in values.items():
        groups.setdefault(value, []).append(profile)
    return list(groups.items())
