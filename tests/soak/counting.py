"""How often each case ended in which way, from one soak to the next: kept in a file that grows.

A hundred times of every case take longer than a night on a small machine, so what is counted may be added up over
several. What was counted on another system, or beside other work, is counted apart.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from memqos.report.outcome import Outcome

EXPLAINED = frozenset({Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE})

ROUND = re.compile(r"-?round\d+")
"""How a case is told that `rounds` has carried out several times."""


PUBLISHED = Path(__file__).parents[2] / "docs" / "explanation" / "repeatability.json"
"""What all soaks until now have counted."""

BySystem = dict[str, dict[str, Counter[str]]]


class Counts:
    """Outcomes by system, then by case. file: where they are kept; None keeps them nowhere.

    earlier: a file of what was counted before; it says what is usual, and is not added to.
    """

    def __init__(self, file: Path | None, *, earlier: Path | None = None) -> None:
        self._file = file
        self._earlier = read(earlier)
        self.by_system = read(file)

    def add(self, system: str, found: Iterable[tuple[str, str]]) -> None:
        """Count what a run found, and keep it at once."""
        cases = self.by_system.setdefault(system, {})
        for case, outcome in found:
            cases.setdefault(case, Counter())[outcome] += 1
        self._keep()

    def add_all(self, others: Counts) -> None:
        """Count what others counted, and keep it at once."""
        for system, cases in others.by_system.items():
            mine = self.by_system.setdefault(system, {})
            for case, counted in cases.items():
                mine.setdefault(case, Counter()).update(counted)
        self._keep()

    def _keep(self) -> None:
        if self._file is not None:
            new = self._file.with_name(f"{self._file.name}.new")
            new.write_text(json.dumps(self.by_system, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            new.replace(self._file)

    def is_usual(self, system: str, case: str, outcome: str) -> bool:
        """Whether a case that was counted mostly ends so, now and earlier, and that is none of a fault."""
        counted = self.by_system[system][case] + self._earlier.get(system, {}).get(case, Counter())
        return 2 * counted[outcome] > counted.total() and outcome in EXPLAINED


def read(file: Path | None) -> BySystem:
    """What such a file holds; nothing if there is none."""
    told = json.loads(file.read_text(encoding="utf-8")) if file is not None and file.exists() else {}
    return {system: {case: Counter(counted) for case, counted in cases.items()} for system, cases in told.items()}


def outcomes(results: Path) -> Iterator[tuple[str, str]]:
    """The id and the outcome of each case of a run; none of one that wrote no bundle."""
    bundle = results / "bundle.json"
    if bundle.exists():
        for one in json.loads(bundle.read_text(encoding="utf-8"))["results"]:
            yield ROUND.sub("", one["id"]).replace("[]", ""), one["outcome"]


def is_explained(outcomes_of_a_case: Collection[str]) -> bool:
    """Whether it ended in one way each time, and that is none of a fault."""
    return len(outcomes_of_a_case) == 1 and EXPLAINED.issuperset(outcomes_of_a_case)


def table(counts: Mapping[str, Counter[str]]) -> str:
    """One line a case: how often it ended in which way, and `!` before one that has something to explain."""
    lines = []
    for case, counted in sorted(counts.items()):
        mark = " " if is_explained(counted) else "!"
        told = ", ".join(f"{number} {outcome}" for outcome, number in counted.most_common())
        lines.append(f"{mark} {case}: {told}")
    return "\n".join(lines)


def summary(counts: Mapping[str, Counter[str]]) -> str:
    """All of them in one line: cases, how often the rarest and the commonest was carried out, and every outcome."""
    told = ", ".join(f"{number} {outcome}" for outcome, number in of_all(counts).most_common())
    return f"{len(counts)} cases, {often(counts)} times each: {told}"


def often(counts: Mapping[str, Counter[str]]) -> str:
    """How often the rarest of these cases was carried out, and the commonest."""
    times = {counted.total() for counted in counts.values()}
    return " to ".join(f"{number}" for number in sorted({min(times), max(times)}))


def of_all(counts: Mapping[str, Counter[str]]) -> Counter[str]:
    """How often these cases ended in which way, together."""
    return sum(counts.values(), Counter[str]())


def by_chapter(counts: Mapping[str, Counter[str]]) -> dict[str, dict[str, Counter[str]]]:
    """The counts of each chapter's cases, whose ids begin with its name."""
    chapters: dict[str, dict[str, Counter[str]]] = {}
    for case, counted in sorted(counts.items()):
        chapters.setdefault(case.split("/")[0], {})[case] = counted
    return chapters
