"""Claims by systems: outcomes of the same cases on different systems, and where expectations differ. Pure.

A system is a profile with a runtime under a cgroup driver; it is a column. Two conforming systems may hold different
values: if a runtime's or kernel's version turns the same request into another value, the engine expects that value.
The differences list these.

Names of cases in lists with several systems. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Reason
from memqos.report.outcome import Outcome, TestResult

__all__ = [
    "Column",
    "ColumnDifference",
    "Matrix",
    "Row",
    "cell_text",
    "matrix_lines",
    "matrix_of",
    "names_of",
    "names_of_systems",
    "system_of_result",
    "without_system",
    "worst_of",
]

SHORTEST = 2
"""The least number of systems to compare."""

MANY = 20
"""From so many claims on, a summary shows only those that do not conform everywhere."""
MANY_COLUMNS = 3
"""From so many columns with the same value on, they are not named one by one."""
BESIDE = 5
"""Columns of a table; names and cells are some twenty characters wide."""

_ORDER = (
    Outcome.DEVIATES,
    Outcome.MACHINERY,
    Outcome.USAGE,
    Outcome.KNOWN,
    Outcome.NOT_OBSERVABLE,
    Outcome.CONFORMS,
)
"""The order in which a cell picks the worst outcome of its cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One system under test. name: what distinguishes it from the others, such as trixie or trixie/containerd+crun."""

    name: str
    profile: str
    runtime: str
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim: by column, the number of cases for each outcome that occurred."""

    claim: str
    cells: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """Findings of one claim and interface file that differ between columns for the same reasons.

    what: "expected", or "observed" if the expected values are equal and one column deviates. count: of findings.
    example, values: the subject of the first finding, and its values by column. reasons: its rules by column, if they
    differ.
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
    """All claims of a run in the order of judgement; without columns for fewer than two systems."""

    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    differences: tuple[ColumnDifference, ...] = ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles, each once."""
        return tuple(dict.fromkeys(column.profile for column in self.columns))


def matrix_of(results: Sequence[TestResult]) -> Matrix:
    """The matrix of these results; empty for fewer than two systems."""
    columns = _columns(results)
    if len(columns) < SHORTEST:
        return Matrix()
    cells: dict[str, dict[str, Counter[str]]] = {}
    for result in results:
        if result.profile:
            row = cells.setdefault(result.claim or result.chapter, {})
            row.setdefault(columns[system_of_result(result)].name, Counter())[result.outcome.value] += 1
    names = [column.name for column in columns.values()]
    rows = tuple(
        Row(claim=claim, cells={name: dict(row[name]) for name in names if name in row}) for claim, row in cells.items()
    )
    return Matrix(columns=tuple(columns.values()), rows=rows, differences=tuple(_differences(results, columns)))


_System = tuple[str, str, str]


def system_of_result(result: TestResult) -> _System:
    """Profile, runtime and driver of a result."""
    return result.profile, result.runtime, result.driver


def names_of_systems(results: Sequence[TestResult]) -> dict[_System, str]:
    """The distinguishing name of each system; empty for fewer than two systems."""
    columns = _columns(results)
    return {system: column.name for system, column in columns.items()} if len(columns) >= SHORTEST else {}


def _columns(results: Sequence[TestResult]) -> dict[_System, Column]:
    """The systems of the results in order, with the parts of their names."""
    systems = list(dict.fromkeys(system_of_result(result) for result in results if result.profile))
    varies = [len(set(parts)) > 1 for parts in zip(*systems, strict=True)]
    return {
        system: Column(
            name="/".join(part for part, is_told in zip(system, varies, strict=True) if is_told and part),
            profile=system[0],
            runtime=system[1],
            driver=system[2],
        )
        for system in systems
    }


def _differences(results: Sequence[TestResult], columns: Mapping[_System, Column]) -> Iterator[ColumnDifference]:
    """Differences between the columns, grouped by claim, interface file and rules; in the columns' order."""
    same: dict[tuple[str, str, str, str, int], dict[str, Finding]] = {}
    for result in results:
        if result.profile:
            # A case may have several findings of one knob, such as a refusal and the next request.
            seen = Counter[tuple[str, str]]()
            for finding in result.findings:
                about = (str(finding.subject), finding.knob)
                key = (result.claim, without_system(result), *about, seen[about])
                seen[about] += 1
                same.setdefault(key, {})[columns[system_of_result(result)].name] = finding
    names = [column.name for column in columns.values()]
    groups: dict[tuple[object, ...], list[tuple[str, Mapping[str, str], Mapping[str, str]]]] = {}
    for (claim, _, subject, knob, _), by_column in same.items():
        found = {name: by_column[name] for name in names if name in by_column}
        expected = {name: finding.expected for name, finding in found.items()}
        observed = {name: finding.observed for name, finding in found.items()}
        deviates = any(finding.verdict in {Verdict.DEVIATES, Verdict.KNOWN} for finding in found.values())
        is_measured = any(finding.measured for finding in found.values())
        if len(set(expected.values())) > 1 and not is_measured:
            rules = {name: _rules(finding.reason) for name, finding in found.items()}
            reasons = rules if len(set(rules.values())) > 1 else {}
            groups.setdefault((claim, knob, "expected", *_split(rules)), []).append((subject, expected, reasons))
        elif deviates and len(set(observed.values())) > 1:
            groups.setdefault((claim, knob, "observed"), []).append((subject, observed, {}))
    for (claim_of, knob_of, what, *_), members in groups.items():
        subject, values, why = members[0]
        yield ColumnDifference(
            claim=str(claim_of),
            knob=str(knob_of),
            what=str(what),
            count=len(members),
            example=subject,
            values=values,
            reasons=why,
        )


def without_system(result: TestResult) -> str:
    """The test's id without its system's parameters: the id in a run of that system alone."""
    name, bracket, parameters = result.id.partition("[")
    if not bracket:
        return name
    kept = f"-{parameters.removesuffix(']')}"
    for part in filter(None, system_of_result(result)):
        kept = re.sub(rf"-{re.escape(part)}(?=-|$)", "", kept, count=1)
    return f"{name}[{kept[1:]}]" if kept else name


def _rules(reason: Reason | None) -> str:
    """The rules behind an expected value, outermost first, with their revisions."""
    if reason is None:
        return ""
    own = f"{reason.rule} ({reason.revision})" if reason.revision else reason.rule
    return "; ".join(dict.fromkeys([own, *(_rules(cause) for cause in reason.because)]))


def _split(rules: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The columns grouped by their rules: the key that groups differences."""
    return tuple(tuple(name for name, text in rules.items() if text == one) for one in dict.fromkeys(rules.values()))


def matrix_lines(matrix: Matrix, *, whole: bool = True) -> Iterator[str]:
    """The matrix and the differences as lines of text; empty without columns.

    whole: list every claim; else one line counts the claims that conform in every column, if there are many.
    """
    if not matrix.columns:
        return
    rows = matrix.rows if whole or len(matrix.rows) <= MANY else tuple(row for row in matrix.rows if not _is_right(row))
    for number, columns in enumerate(_blocks(matrix.columns) if rows else ()):
        yield from [""] if number else []
        yield from _table(rows, columns)
    if left := len(matrix.rows) - len(rows):
        yield f"{left} {'further ' if rows else ''}claims conform in every column that has them: see matrix.txt"
    if matrix.differences:
        yield ""
        yield "differences between the columns:"
    for difference in matrix.differences:
        more = f", and {difference.count - 1} more" if difference.count > 1 else ""
        yield f"  {difference.knob} {difference.what} ({difference.claim}): {difference.example}{more}"
        for values, names in _grouped(difference.values):
            rule = difference.reasons.get(names[0], "")
            whose = f"the {len(names)} others" if _are_the_others(names, difference.values) else ", ".join(names)
            yield f"    {whose}: {values}" + (f"  [{rule}]" if rule else "")


def _is_right(row: Row) -> bool:
    """Whether every observed case of a claim conforms."""
    return all(set(counts) == {Outcome.CONFORMS.value} for counts in row.cells.values())


def _blocks(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """The columns in blocks that fit side by side, of nearly equal width."""
    count = -(-len(columns) // BESIDE)
    size = -(-len(columns) // count)
    yield from (columns[first : first + size] for first in range(0, len(columns), size))


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    """The rows with these columns; the parts of column names are stacked."""
    names = [column.name.split("/") for column in columns]
    heads = [[line[part] if part < len(line) else "" for line in names] for part in range(max(map(len, names)))]
    table = [["claim" if not part else "", *head] for part, head in enumerate(heads)]
    table += [[row.claim, *(cell_text(row.cells.get(column.name, {})) for column in columns)] for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _are_the_others(names: Sequence[str], values: Mapping[str, str]) -> bool:
    """Whether these columns are so many that naming the other ones is shorter."""
    return len(names) > MANY_COLUMNS and 2 * len(names) > len(values)


def cell_text(counts: Mapping[str, int]) -> str:
    """A cell's text: the worst outcome with its count, and the total if greater; "-" without cases."""
    total = sum(counts.values())
    worst = worst_of(counts)
    if worst is None:
        return "-"
    return f"{worst} {total}" if counts[worst] == total else f"{worst} {counts[worst]} of {total}"


def worst_of(counts: Mapping[str, int]) -> Outcome | None:
    """The worst outcome that any case of a cell had; None for no case."""
    return next((outcome for outcome in _ORDER if counts.get(outcome.value)), None)


def _grouped(values: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for column, value in values.items():
        groups.setdefault(value, []).append(column)
    return list(groups.items())


def names_of(results: Sequence[TestResult]) -> Mapping[int, str]:
    """The name of each result by its id(): the test's id, plus what distinguishes it from the others.

    That is its system, if there are several and its id does not name it, and its machine if that is not enough, as for
    contradictions in merged results.
    """
    systems = names_of_systems(results)
    told = {id(one): _untold(one, systems.get(system_of_result(one), "")) for one in results}
    machines = defaultdict[tuple[str, str], set[str]](set)
    for one in results:
        machines[one.id, told[id(one)]].add(one.machine)
    names = {}
    for one in results:
        system = told[id(one)]
        words = [system, one.machine if len(machines[one.id, system]) > 1 else ""]
        behind = ", ".join(filter(None, words))
        names[id(one)] = f"{one.id} ({behind})" if behind else one.id
    return names


def _untold(result: TestResult, system: str) -> str:
    """The system's name, unless the parameters in the test's id name it."""
    parameters = result.id.partition("[")[2].removesuffix("]")
    is_told = all(re.search(rf"(?:^|-){re.escape(word)}(?:-|$)", parameters) for word in system.split("/"))
    return "" if is_told else system
