"""The trial of mutants on rigs in memory, and its report."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from memqos.errors import MachineryError
from memqos.mutants.fakes import imitated_traits
from memqos.mutants.rigs import Catalogue
from memqos.mutants.table import Level, Mutant, load_mutants
from memqos.mutants.trial import (
    Deviation,
    Fate,
    NothingObservedError,
    outcome_line,
    score,
    score_document,
    score_lines,
    try_mutants,
    try_mutants_on_rigs,
)
from tests.documents import misfits

CATALOGUE = Catalogue()
MUTANTS = {one.name: one for one in load_mutants()}
PICKED = [MUTANTS[name] for name in ("drops-memory-min", "protects-all", "class-protected", "utilization-clamped")]


class Scripted:
    """A rig with scripted deviations of each mutant. found: by mutant; "right" without one."""

    name = "scripted"

    def __init__(self, found: dict[str, list[Deviation] | MachineryError], pool: Executor | None = None) -> None:
        self.found, self.lanes, self.pool = found, 2 if pool else 1, pool
        self.case_choice = CATALOGUE.case_choice(imitated_traits("oci:runc"))
        self.asked: list[tuple[str, str]] = []
        self.able = set(MUTANTS)

    def why_not(self, mutant):
        return "" if mutant.name in self.able else "it cannot"

    def lacks(self, claim):  # noqa: ARG002
        return ""

    def is_exclusive(self, mutant):
        return mutant.levels == (Level.CLASS,)

    @contextlib.contextmanager
    def under(self, mutant, lane) -> Iterator[Once]:  # noqa: ARG002
        name = mutant.name if mutant is not None else "right"
        yield Once(self, name)


@dataclasses.dataclass
class Once:
    rig: Scripted
    mutant: str

    def find(self, case):
        self.rig.asked.append((self.mutant, case.claim.id))
        found = self.rig.found.get(self.mutant, [])
        if isinstance(found, MachineryError | NothingObservedError):
            raise found
        return found


def deviation(knob: str, level: Level = Level.CONTAINER) -> Deviation:
    return Deviation(knob=knob, level=level, expected="1", observed="2")


RIGHTLY = {
    "drops-memory-min": [deviation("memory.min"), deviation("memory.min", Level.SCOPE)],
    "protects-all": [deviation("memory.low")],
    "class-protected": [deviation("memory.low", Level.CLASS)],
}


def fates(rig: Scripted) -> dict[str, Fate]:
    return {one.mutant.name: one.fate for one in try_mutants(rig, PICKED)}


def test_a_mutant_is_killed_by_the_first_case_that_deviates_beyond_a_right_system() -> None:
    rig = Scripted(RIGHTLY)
    outcomes = list(try_mutants(rig, PICKED))
    assert [(one.fate, one.is_right) for one in outcomes] == [
        (Fate.KILLED, True), (Fate.KILLED, True), (Fate.EQUIVALENT, False), (Fate.KILLED, True),
    ]  # fmt: skip
    assert len([one for one in rig.asked if one[0] == "drops-memory-min"]) == 1


def test_a_deviation_of_a_right_system_kills_no_mutant() -> None:
    rig = Scripted({**RIGHTLY, "right": [deviation("memory.low")]})
    assert fates(rig)["protects-all"] is Fate.SURVIVED
    assert fates(rig)["drops-memory-min"] is Fate.KILLED


def test_several_in_parallel_and_exclusive_ones_last() -> None:
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(try_mutants(Scripted(RIGHTLY, pool), PICKED))
    assert outcomes[-1].mutant.name == "class-protected"
    assert {one.fate for one in outcomes} == {Fate.KILLED, Fate.EQUIVALENT}


def test_an_interrupt_begins_no_further_mutant() -> None:
    begun: list[str] = []
    several = [replace(MUTANTS["drops-memory-min"], name=f"mutant-{number}") for number in range(20)]
    with ThreadPoolExecutor(1) as pool:
        rig = Scripted({one.name: [deviation("memory.min")] for one in several}, pool)
        rig.able = {one.name for one in several}
        going_on = threading.Event()

        def begin(mutant: Mutant) -> None:
            begun.append(mutant.name)
            if len(begun) > 1:
                going_on.wait(10)

        outcomes = try_mutants(rig, several, begun=begin)
        next(outcomes)
        with pytest.raises(KeyboardInterrupt):
            outcomes.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
        going_on.set()
    assert len(begun) <= 2


def test_another_file_or_level_is_not_right() -> None:
    rig = Scripted(
        {"drops-memory-min": [deviation("memory.max")], "protects-all": [deviation("memory.low", Level.POD)]}
    )
    outcomes = {one.mutant.name: one for one in try_mutants(rig, PICKED[:2])}
    assert not any(one.is_right for one in outcomes.values())
    assert outcome_line(outcomes["protects-all"]).partition(" (")[0].split(": ", 1)[1] == (
        "memory.low of the pod; expected memory.low of the container"
    )


def test_a_value_never_shown_is_not_tried_and_one_hidden_by_a_mutant_survives() -> None:
    unseen = NothingObservedError("the answer has no swap")
    rig = Scripted({"protects-all": unseen, "right": unseen})
    [tried] = try_mutants(rig, [one for one in PICKED if one.name == "protects-all"])
    assert tried.fate is Fate.NOT_TRIED
    assert tried.why.endswith("the answer has no swap")
    assert fates(Scripted({"protects-all": unseen}))["protects-all"] is Fate.SURVIVED


def test_the_reason_of_a_tried_system_is_preferred() -> None:
    unseen = NothingObservedError("the answer has no swap")
    unable = Scripted({})
    unable.able = set()
    asked = Scripted({"protects-all": unseen, "right": unseen})
    rigs = iter([contextlib.nullcontext(unable), contextlib.nullcontext(asked)])
    [tried] = try_mutants_on_rigs(rigs, [one for one in PICKED if one.name == "protects-all"])
    assert tried.why.endswith("the answer has no swap")


def test_a_case_that_ends_in_an_error_kills_no_mutant() -> None:
    rig = Scripted({"protects-all": MachineryError("no answer.")})
    [outcome] = try_mutants(rig, [MUTANTS["protects-all"]])
    assert outcome.fate is Fate.SURVIVED
    assert "ended in: no answer." in outcome.why


def test_the_first_rig_that_supports_a_fault_tries_it() -> None:
    first, second = Scripted(RIGHTLY), Scripted(RIGHTLY)
    first.able = {"drops-memory-min"}
    second.able = {"drops-memory-min", "protects-all"}
    opened = (contextlib.nullcontext(rig) for rig in (first, second))
    outcomes = {one.mutant.name: one.fate for one in try_mutants_on_rigs(opened, PICKED)}
    assert outcomes == {
        "drops-memory-min": Fate.KILLED, "utilization-clamped": Fate.EQUIVALENT,
        "protects-all": Fate.KILLED, "class-protected": Fate.NOT_TRIED,
    }  # fmt: skip
    assert "drops-memory-min" not in {name for name, _ in second.asked}


def test_the_score_and_the_document() -> None:
    outcomes = list(try_mutants(Scripted({**RIGHTLY, "protects-all": []}), PICKED))
    assert score(outcomes) == {"killed": 2, "right": 2, "survived": 1, "equivalent": 1, "not_tried": 0}
    told = score_lines(outcomes, 90)
    assert told[-1] == (
        "score: 2 of 3 mutants killed (66 %), 2 with the right file and cgroup; 1 equivalent, 0 not tried; 1.5 min"
    )
    written = score_document(outcomes, system="scripted", complete=True, seconds=90)
    assert misfits(written, "mutants") == []
    assert sum(one["killed"] for one in written["chapters"].values()) == 2
