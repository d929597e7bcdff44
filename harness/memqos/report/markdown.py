"""A run as Markdown, for the summary of a CI job or a pull request; and in one line, for a badge. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from memqos.errors import ExitCode
from memqos.report.again import again
from memqos.report.bundle import Bundle
from memqos.report.matrix import Matrix, cell_text, matrix_of
from memqos.report.naming import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import finding_line, machine_line
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["badge_json", "inline", "markdown", "table"]

MOST_LISTED = 30
"""GitHub accepts 1 MiB for a summary, which stands among others."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~@&$])")
_SIGNS = {ExitCode.CONFORMS: "✅", ExitCode.DEVIATES: "❌"}
_COLOURS = {ExitCode.CONFORMS: "brightgreen", ExitCode.DEVIATES: "red", ExitCode.NOTHING_OBSERVED: "lightgrey"}


def inline(text: str) -> str:
    """Any text as inert Markdown: without markup, link, mention or line break."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table whose cells are Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join([' --- '] + [' ---: '] * (len(head) - 1))}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def markdown(bundle: Bundle, *, name: str = "", missing: Sequence[str] = ()) -> str:
    """The whole document. name: of the results. missing: what is unknown about the run."""
    return "\n".join(_lines(bundle, name, missing)) + "\n"


def _lines(bundle: Bundle, name: str, missing: Sequence[str]) -> Iterator[str]:
    said = verdict_line(bundle).removeprefix("verdict: ")
    sign = _SIGNS.get(ExitCode(bundle.exit_code), "⚠️")
    yield f"## {sign} memqos{f' {inline(name)}' if name else ''}: {inline(said.partition(' (')[0])}"
    yield from ("", inline(said), "")
    yield from (f"> {inline(one)}" for one in (*missing, *bundle.error.splitlines(), *bundle.inconsistencies) if one)
    yield ""
    yield from _chapters(bundle)
    yield from _matrix(matrix_of(bundle.results))
    yield from _deviations(bundle)
    yield from _reasons("Not observable", bundle, Outcome.NOT_OBSERVABLE)
    yield from _reasons("Machinery", bundle, Outcome.MACHINERY)
    yield from _run_again(bundle)
    if bundle.machines:
        yield from ("", "<details><summary>Machines</summary>", "")
        yield from (f"- {inline(machine_line(machine))}" for machine in bundle.machines)
        yield from ("", "</details>")


def _chapters(bundle: Bundle) -> Iterator[str]:
    shown = [outcome for outcome in Outcome if bundle.outcomes[outcome.value]]
    names = list(dict.fromkeys(result.chapter for result in bundle.results))
    rows = []
    for chapter in names:
        results = [result for result in bundle.results if result.chapter == chapter]
        counts = (str(sum(result.outcome is outcome for result in results)) for outcome in shown)
        rows.append([inline(chapter), *counts, f"{sum(result.seconds for result in results):.1f}"])
    if rows:
        yield from table(["chapter", *(outcome.value for outcome in shown), "seconds"], rows)


def _matrix(matrix: Matrix) -> Iterator[str]:
    if not matrix.columns:
        return
    names = [column.name for column in matrix.columns]
    yield from ("", "<details><summary>Matrix</summary>", "")
    rows = [[inline(row.claim), *(cell_text(row.cells.get(name, {})) for name in names)] for row in matrix.rows]
    yield from table(["claim", *map(inline, names)], rows)
    yield from ("", "</details>")


def _deviations(bundle: Bundle) -> Iterator[str]:
    deviating = [result for result in bundle.results if result.outcome is Outcome.DEVIATES]
    if deviating:
        yield from ("", "### Deviations", "")
    names = names_of(bundle.results)
    for result in deviating[:MOST_LISTED]:
        yield f"- {inline(names[id(result)])}"
        lines = [finding_line(finding) for finding in result.deviations] or [result.reason]
        yield from (f"  - {inline(line)}" for line in lines[:MOST_LISTED])
        yield f"  - again: {_code(again(bundle, result))}"
    yield from _more(len(deviating))


def _run_again(bundle: Bundle) -> Iterator[str]:
    again = [(result, one) for result in bundle.results for one in result.earlier_attempts]
    if again:
        yield from ("", f"<details><summary>Run again: {len(again)}</summary>", "")
        yield from (f"- {inline(result.id)}: {inline(one.again)} ({inline(one.reason)})" for result, one in again)
        yield from ("", "</details>")


def _reasons(title: str, bundle: Bundle, outcome: Outcome) -> Iterator[str]:
    by_reason: dict[str, list[TestResult]] = {}
    for result in bundle.results:
        if result.outcome is outcome:
            by_reason.setdefault(result.reason, []).append(result)
    if by_reason:
        names = names_of(bundle.results)
        yield from ("", f"<details><summary>{title}: {sum(map(len, by_reason.values()))}</summary>", "")
        for reason, results in list(by_reason.items())[:MOST_LISTED]:
            first, more = inline(names[id(results[0])]), " …" if len(results) > 1 else ""
            yield f"- {inline(reason)} ({len(results)}: {first}{more})"
        yield from _more(len(by_reason))
        yield from ("", "</details>")


def _more(number: int) -> Iterator[str]:
    if number > MOST_LISTED:
        yield f"- and {number - MOST_LISTED} more"


def _code(text: str) -> str:
    """A text as code; the fence is longer than any in the text."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def badge_json(bundle: Bundle, *, label: str = "memory QoS") -> str:
    """One line from which shields.io draws a badge (its endpoint schema, version 1)."""
    code = ExitCode(bundle.exit_code)
    counts = bundle.outcomes
    observed = sum(counts[outcome.value] for outcome in (Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN))
    partly = sum(result.observed_in_part for result in bundle.results)
    in_part = f"{observed}, {partly} in part" if partly else str(observed)
    message = {
        ExitCode.CONFORMS: f"conforms ({in_part})",
        ExitCode.DEVIATES: f"{counts[Outcome.DEVIATES.value]} of {observed} deviate",
        ExitCode.NOTHING_OBSERVED: "nothing observed",
    }.get(code, code.name.lower())
    if bundle.inconsistencies:
        message = CONTRADICTS_ITSELF
    badge = {"schemaVersion": 1, "label": label, "message": message, "color": _COLOURS.get(code, "yellow")}
    return json.dumps(badge, ensure_ascii=False) + "\n"
