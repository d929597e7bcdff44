"""The table of docs/explanation/repeatability.md, by the counts that soaks wrote: `python -m tests.docs.soaked COUNTS`.

It adds them to what is kept in docs (repeatability.json), and prints the table of all.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from memqos.report.outcome import Outcome
from tests.docs.snippets import DOCS
from tests.soak.counting import PUBLISHED, Counts, by_chapter, of_all, often

PAGE = DOCS / "explanation" / "repeatability.md"

_SHOWN = (Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE, Outcome.DEVIATES, Outcome.MACHINERY)


def table(systems: Mapping[str, Mapping[str, Counter[str]]]) -> str:
    """A row for each chapter of each system, by how often each case ended in which way, and one for all of several."""
    head = ["system and host", "chapter", "cases", "times each", *_SHOWN]
    rows = [head, ["---"] * len(head)]
    for system, counts in sorted(systems.items()):
        chapters: dict[str, Mapping[str, Counter[str]]] = {**by_chapter(counts)}
        if len(chapters) > 1:
            chapters["all"] = counts
        for chapter, cases in chapters.items():
            found = of_all(cases)
            rows.append([system, chapter, f"{len(cases)}", often(cases), *(f"{found[outcome]}" for outcome in _SHOWN)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(files: Sequence[str]) -> None:
    """Print the table."""
    counts = Counts(PUBLISHED)
    for file in files:
        counts.add_all(Counts(Path(file)))
    sys.stdout.write(table(counts.by_system) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
