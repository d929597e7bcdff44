"""The score of a trial of mutants: lines for people, and the JSON document of `memqos mutants --json`."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from memqos.mutants.trial import Fate, Outcome
from memqos.version import __version__

__all__ = ["document", "line", "score", "score_lines"]

_FORMAT = 1
_WIDTHS = (10, 34)


def chapter_of(outcome: Outcome) -> str:
    """The chapter of the claim that killed a mutant, or else of its first claim; "" without claims."""
    claim = outcome.kill.claim if outcome.kill is not None else next(iter(outcome.claims), "")
    return claim.partition("/")[0]


def score(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The number of mutants killed, rightly killed, survived, equivalent, and not tried."""
    counts: Counter[str] = Counter()
    for one in outcomes:
        counts[one.fate.value.replace(" ", "_")] += 1
        counts["right"] += one.is_right
    return {name: counts[name] for name in ("killed", "right", "survived", "equivalent", "not_tried")}


def line(outcome: Outcome) -> str:
    """One mutant: its result, the claim that killed it with its file and level, and the time."""
    kill, mutant = outcome.kill, outcome.mutant
    head = f"{outcome.fate.value:{_WIDTHS[0]}} {mutant.name:{_WIDTHS[1]}}"
    if kill is None:
        said = outcome.why or f"{len(outcome.claims)} cases noticed no deviation"
        return f"{head} {said}"
    named = ", ".join(dict.fromkeys(f"{one.knob} of the {one.level}" for one in kill.deviations))
    wrong = "" if outcome.is_right else f"; expected {' or '.join(mutant.knobs)} of the {' or '.join(mutant.levels)}"
    return f"{head} {kill.claim}: {named}{wrong} ({outcome.seconds:.1f} s)"


def score_lines(outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """The score by chapter and in all."""
    chapters = sorted({chapter_of(one) for one in outcomes if one.fate in {Fate.KILLED, Fate.SURVIVED}})
    lines = []
    for chapter in chapters:
        of_it = score(one for one in outcomes if chapter_of(one) == chapter)
        tried = of_it["killed"] + of_it["survived"]
        lines.append(f"  {chapter or 'no case':14} {of_it['killed']} of {tried} killed, {of_it['right']} rightly named")
    whole = score(outcomes)
    tried = whole["killed"] + whole["survived"]
    share = f" ({100 * whole['killed'] // tried} %)" if tried else ""
    lines.append(
        f"score: {whole['killed']} of {tried} mutants killed{share}, {whole['right']} with the right file and cgroup; "
        f"{whole['equivalent']} equivalent, {whole['not_tried']} not tried; {seconds / 60:.1f} min"
    )
    return lines


def document(outcomes: Sequence[Outcome], *, system: str, complete: bool, seconds: float) -> dict[str, Any]:
    """The score as JSON; docs/reference/json.md describes the fields."""
    chapters = sorted({chapter_of(one) for one in outcomes if chapter_of(one)})
    return {
        "memqos_format": _FORMAT,
        "memqos": __version__,
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": system,
        "complete": complete,
        "seconds": round(seconds, 1),
        "score": score(outcomes),
        "chapters": {name: score(one for one in outcomes if chapter_of(one) == name) for name in chapters},
        "mutants": [_row(one) for one in outcomes],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    kill, mutant = outcome.kill, outcome.mutant
    return {
        "name": mutant.name,
        "kind": mutant.kind.value,
        "wrong": mutant.wrong,
        "fate": outcome.fate.value,
        "runtime": outcome.runtime,
        "claim": "" if kill is None else kill.claim,
        "claims": list(outcome.claims),
        "right_knob": kill is not None and kill.names_knob(mutant),
        "right_level": kill is not None and kill.names_level(mutant),
        "deviations": []
        if kill is None
        else [
            {"knob": one.knob, "level": one.level.value, "expected": one.expected, "observed": one.observed}
            for one in kill.deviations
        ],
        "why": outcome.why,
        "seconds": round(outcome.seconds, 2),
    }
