"""The table of docs/explanation/repeatability.md, by the counts that soaks wrote: `python -m tests.docs.soaked COUNTS`.

Without a file it prints the table of what is kept in docs; with files it adds them up and keeps them there first.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memqos.report.outcome import Outcome
from tests.docs.snippets import DOCS

PAGE = DOCS / "explanation" / "repeatability.md"
COUNTS = DOCS / "explanation" / "repeatability.json"

_SHOWN = (Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE, Outcome.DEVIATES, Outcome.MACHINERY)

System = dict[str, Counter[str]]
"""How often each case of a system ended in which way."""


def added_up(files: Sequence[Path]) -> dict[str, System]:
    """Counts by system, then by case."""
    systems: dict[str, System] = {}
    for file in files:
        for system, cases in json.loads(file.read_text(encoding="utf-8")).items():
            for case, counted in cases.items():
                systems.setdefault(system, {}).setdefault(case, Counter()).update(counted)
    return systems


def table(systems: Mapping[str, System]) -> str:
    """A row for each chapter of each system."""
    head = ["system and host", "chapter", "cases", "times each", *_SHOWN]
    rows = [head, ["---"] * len(head)]
    for system, cases in systems.items():
        rows += [[system, *row] for row in _chapters(cases)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _chapters(cases: System) -> Iterator[list[str]]:
    chapters = [*sorted({case.split("/")[0] for case in cases}), ""]
    for chapter in chapters:
        counted = [found for case, found in cases.items() if case.startswith(chapter)]
        times = sorted({found.total() for found in counted})
        often = f"{times[0]}" if len(times) == 1 else f"{times[0]} to {times[-1]}"
        found = sum(counted, Counter[str]())
        yield [chapter or "all", f"{len(counted)}", often, *(f"{found[outcome]}" for outcome in _SHOWN)]


def main(files: Sequence[str]) -> None:
    """Print the table."""
    systems = added_up([Path(file) for file in files] or [COUNTS])
    if files:
        COUNTS.write_text(json.dumps(systems, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(table(systems) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
