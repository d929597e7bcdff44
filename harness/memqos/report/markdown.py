"""Results as Markdown: tables, a badge, the support of runtimes, and the compatibility matrix.

The matrix of runtimes and Kubernetes releases is the one that AEP-9926 asks for: units of counters, resize and swap,
and the values themselves, by topic.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.config.table import direct_prefix
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle, Json, as_json
from memqos.report.matrix import Matrix, Row, cell_text, matrix_of, names_of, worst_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import finding_line, machine_line, programs_of
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line
from memqos.report.words import again

__all__ = [
    "TOPICS",
    "badge_json",
    "compatibility_markdown",
    "compatibility_of",
    "inline",
    "markdown",
    "support_badges",
    "support_lines",
    "support_markdown",
    "support_of",
    "table",
]


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
        yield f"  - rerun: {_code(again(bundle, result))}"
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


_SUPPORT_SIGNS = {Outcome.CONFORMS: "✅", Outcome.DEVIATES: "❌", Outcome.KNOWN: "☑️"}
_OBSERVED = (Outcome.CONFORMS, Outcome.KNOWN, Outcome.DEVIATES)
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9.+_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """All claims by all columns, both in order of first occurrence."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    def claims(self, column: str) -> Mapping[str, int]:
        """The number of a column's claims by outcome, each by its worst case."""
        worst = (worst_of(row.cells[column]) for row in self.rows if column in row.cells)
        return Counter(outcome.value for outcome in worst if outcome is not None)

    def to_json(self) -> dict[str, Json]:
        """The document that `memqos report support --json` prints."""
        columns = [{"name": name, "claims": dict(self.claims(name))} for name in self.columns]
        return {"memqos_format": 1, "columns": columns, "rows": as_json(self.rows)}


def support_of(bundles: Iterable[Bundle | tuple[str, Bundle]]) -> Support:
    """The table of these runs. A run with a name is a column of that name, whatever its runtimes.

    Cases without a machine or without a claim do not count.
    """
    columns: dict[str, None] = {}
    cells: dict[str, dict[str, Counter[str]]] = {}
    for one in bundles:
        name, bundle = one if isinstance(one, tuple) else ("", one)
        names = {str(machine.get("id")): name or _versions(machine) for machine in bundle.machines}
        for result in bundle.results:
            column = names.get(result.machine) or name or result.runtime
            if result.claim and column:
                columns.setdefault(column)
                row = cells.setdefault(result.claim, {})
                row.setdefault(column, Counter())[result.outcome.value] += 1
    rows = (Row(claim=claim, cells={name: dict(found) for name, found in row.items()}) for claim, row in cells.items())
    return Support(columns=tuple(columns), rows=tuple(rows))


def _versions(machine: Mapping[str, Any]) -> str:
    """The runtimes that a machine reports: "containerd 1.7.24 + runc 1.1.15"; "" for none."""
    name = " + ".join(programs_of(machine))
    return f"{direct_prefix(str(machine.get('runtime', '')))}{name}" if name else ""


def support_markdown(support: Support) -> str:
    """The table as Markdown, with totals in the last row."""
    rows = [[inline(row.claim), *(_cell(row.cells.get(name, {})) for name in support.columns)] for row in support.rows]
    rows.append(["**claims that conform**", *(_score(support, name) for name in support.columns)])
    return "\n".join(table(["claim", *map(inline, support.columns)], rows)) + "\n"


def support_lines(support: Support) -> Iterator[str]:
    """The table for a terminal: the claims that do not conform in every column, and one line for the others."""
    shown = [row for row in support.rows if not all(_is_right(row.cells.get(name, {})) for name in support.columns)]
    lines = [["claim", *support.columns]]
    lines += [[row.claim, *(cell_text(row.cells.get(name, {})) for name in support.columns)] for row in shown]
    lines.append(["claims that conform", *(_score(support, name) for name in support.columns)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def support_badges(support: Support) -> dict[str, str]:
    """A badge for each column by file name: one line as from `badge_json`."""
    found = {}
    for number, name in enumerate(support.columns, 1):
        claims = support.claims(name)
        observed = sum(claims.get(outcome, 0) for outcome in _OBSERVED)
        deviates = claims.get(Outcome.DEVIATES, 0)
        message = f"{deviates} of {observed} claims deviate" if deviates else f"conforms ({observed} claims)"
        colour = "red" if deviates else "brightgreen" if observed else "lightgrey"
        badge = {"schemaVersion": 1, "label": name, "message": message if observed else "nothing observed"}
        file = _NO_FILE_NAME.sub("-", name).strip("-.") or f"column-{number}"
        taken = f"{file}.json" in found
        text = json.dumps(badge | {"color": colour}, ensure_ascii=False) + "\n"
        found[f"{file}-{number}.json" if taken else f"{file}.json"] = text
    return found


def _is_right(counts: Mapping[str, int]) -> bool:
    return set(counts) == {Outcome.CONFORMS.value}


def _cell(counts: Mapping[str, int]) -> str:
    worst = worst_of(counts)
    if worst is None:
        return "-"
    number = sum(counts.values())
    return (
        f"{_SUPPORT_SIGNS[worst]} {number}"
        if worst is Outcome.CONFORMS
        else f"{_SUPPORT_SIGNS.get(worst, '')} {cell_text(counts)}"
    )


def _score(support: Support, column: str) -> str:
    claims = support.claims(column)
    return f"{claims.get(Outcome.CONFORMS, 0)} of {sum(claims.get(outcome, 0) for outcome in _OBSERVED)}"


TOPICS: Mapping[str, re.Pattern[str]] = {
    "counter units": re.compile(r"\w+/(pod-)?stats.*|kubelet/.*(stats|pressure|metrics).*"),
    "memory QoS values": re.compile(r"values/.*"),
    "throttling": re.compile(r"throttling/.*"),
    "protection": re.compile(r"protection/.*"),
    "resize": re.compile(r"resize/.*|requests/update-.*|kubelet/.*resiz.*"),
    "swap": re.compile(r"swap/.*|[\w-]+/.*\bswap\b.*"),
}
"""Topics with their claims; a claim may have several topics."""
_RELEASE = re.compile(r"\bv?(1\.\d{2})(?:\.\d+)?(?=\W|$)")
_ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """By runtimes and Kubernetes release, and by topic, the claims by outcome, each by its worst case.

    The release "any" has the cases without a kubelet, such as requests to a runtime.
    """

    rows: Mapping[tuple[str, str], Mapping[str, Mapping[str, Outcome]]]

    def to_json(self) -> dict[str, Json]:
        """The document that `memqos report support --compatibility --json` prints."""
        return {
            "memqos_format": 1,
            "topics": list(TOPICS),
            "rows": [
                {
                    "runtimes": runtimes,
                    "kubernetes": release,
                    "topics": {
                        topic: {
                            "claims": dict(Counter(outcome.value for outcome in claims.values())),
                            "deviates": sorted(name for name, one in claims.items() if one is Outcome.DEVIATES),
                            "known": sorted(name for name, one in claims.items() if one is Outcome.KNOWN),
                        }
                        for topic, claims in topics.items()
                    },
                }
                for (runtimes, release), topics in self.rows.items()
            ],
        }


def compatibility_of(bundles: Iterable[Bundle]) -> Compatibility:
    """The matrix of these runs: outcomes by topic, runtimes and the kubelet's release."""
    cells: dict[tuple[str, str], dict[str, dict[str, Counter[str]]]] = {}
    for bundle in bundles:
        names = {str(machine.get("id")): " + ".join(programs_of(machine)) for machine in bundle.machines}
        for result in bundle.results:
            runtimes = names.get(result.machine) or result.runtime
            found = _RELEASE.search(result.id.partition("[")[2])
            topics = [topic for topic, pattern in TOPICS.items() if pattern.fullmatch(result.claim)]
            for topic in topics if runtimes else ():
                row = cells.setdefault((runtimes, found[1] if found else _ANY), {})
                row.setdefault(topic, {}).setdefault(result.claim, Counter())[result.outcome.value] += 1
    return Compatibility(
        rows={
            key: {topic: _worst(row.get(topic, {})) for topic in TOPICS}
            for key, row in sorted(cells.items(), key=lambda one: (one[0][0], _order(one[0][1])))
        }
    )


def _order(release: str) -> tuple[int, ...]:
    return () if release == _ANY else tuple(map(int, release.split(".")))


def _worst(claims: Mapping[str, Counter[str]]) -> dict[str, Outcome]:
    found = {name: worst_of(counts) for name, counts in claims.items()}
    return {name: outcome for name, outcome in found.items() if outcome is not None}


def compatibility_markdown(found: Compatibility) -> str:
    """The matrix as Markdown; a topic without observations is empty."""
    lines = [
        [inline(runtimes), release, *(_topic_cell(topics[topic]) for topic in TOPICS)]
        for (runtimes, release), topics in found.rows.items()
    ]
    return "\n".join(table(["runtimes", "Kubernetes", *TOPICS], lines)) + "\n"


def _topic_cell(claims: Mapping[str, Outcome]) -> str:
    observed = {name: one for name, one in claims.items() if one in _OBSERVED}
    wrong = sorted(name for name, one in observed.items() if one is Outcome.DEVIATES)
    known = sorted(name for name, one in observed.items() if one is Outcome.KNOWN)
    parts = [f"{len(observed) - len(wrong) - len(known)} of {len(observed)} claims conform"] if observed else []
    parts += [f"deviates: {inline(', '.join(wrong))}"] if wrong else []
    parts += [f"known: {inline(', '.join(known))}"] if known else []
    return "; ".join(parts)
