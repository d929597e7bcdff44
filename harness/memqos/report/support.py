"""What runtimes support: claims by runtimes in the judged versions, from any number of runs. Pure.

A column is the runtimes that a machine reports; cases of several runs, kernels and drivers count together.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.config.runtimes import DIRECTLY
from memqos.report.as_json import Json, as_json
from memqos.report.bundle import Bundle
from memqos.report.markdown import inline, table
from memqos.report.matrix import Row, cell_text, worst_of
from memqos.report.outcome import Outcome

__all__ = ["Support", "support_badges", "support_lines", "support_markdown", "support_of"]

_SIGNS = {Outcome.CONFORMS: "✅", Outcome.DEVIATES: "❌", Outcome.KNOWN: "☑️"}
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
    name = " + ".join(map(str, machine.get("runtimes", ())))
    return f"{DIRECTLY}{name}" if name and str(machine.get("runtime", "")).startswith(DIRECTLY) else name


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
    return f"{_SIGNS[worst]} {number}" if worst is Outcome.CONFORMS else f"{_SIGNS.get(worst, '')} {cell_text(counts)}"


def _score(support: Support, column: str) -> str:
    claims = support.claims(column)
    return f"{claims.get(Outcome.CONFORMS, 0)} of {sum(claims.get(outcome, 0) for outcome in _OBSERVED)}"
