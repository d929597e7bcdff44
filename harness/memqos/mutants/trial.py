"""The trial of mutants: finds the claim that kills each, and whether it names the right file and cgroup.

Its score: lines for people, and the JSON document of `memqos mutants --json`.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, Protocol

from msgspec.structs import replace

from memqos.cases import Case
from memqos.claims import Claim
from memqos.clock import SYSTEM_CLOCK
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Level as PlanLevel
from memqos.errors import MachineryError
from memqos.model.path import CgroupPath
from memqos.mutants.case_choice import CaseChoice
from memqos.mutants.table import Level, MachineFault, Mutant, PlanFault
from memqos.node.requests.container_requests import BESIDE
from memqos.threads import submit
from memqos.version import __version__

__all__ = [
    "Deviation",
    "Fate",
    "Kill",
    "Level",
    "NoEffectError",
    "NothingObservedError",
    "Outcome",
    "Rig",
    "SystemUnderMutant",
    "deviations_of",
    "level_of",
    "outcome_line",
    "score",
    "score_document",
    "score_lines",
    "try_mutants",
    "try_mutants_on_rigs",
]

_OF_SCOPE = " of the scope"


class Fate(StrEnum):
    """The outcome for a mutant. NOT_TRIED: the system under test cannot have this fault, or lacks the claim."""

    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Deviation:
    """A deviation: the file or other knob, its level, and the values."""

    knob: str
    level: Level
    expected: str
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The case that killed a mutant: its claim and all deviations."""

    claim: str
    deviations: tuple[Deviation, ...]

    def names_knob(self, mutant: Mutant) -> bool:
        """Whether every deviation names one of the mutant's knobs."""
        return all(one.knob in mutant.knobs for one in self.deviations)

    def names_level(self, mutant: Mutant) -> bool:
        """Whether every deviation is at one of the mutant's levels; a scope counts as its container."""
        levels = {*mutant.levels, *([Level.SCOPE] if Level.CONTAINER in mutant.levels else [])}
        return all(one.level in levels for one in self.deviations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome for one mutant.

    claims: the tried claims, in order. why: the reason if it was not tried or survived. seconds: the duration of its
    trial. runtime: the runtime of the trial, "" for none.
    """

    mutant: Mutant
    fate: Fate
    kill: Kill | None = None
    claims: tuple[str, ...] = ()
    why: str = ""
    seconds: float = 0.0
    runtime: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it was killed by the right knob at the right level."""
        kill = self.kill
        return kill is not None and kill.names_knob(self.mutant) and kill.names_level(self.mutant)


class NothingObservedError(Exception):
    """A case found nothing observable; the text is the first reason."""


class NoEffectError(Exception):
    """A fault changed nothing that the system does, so no case can notice it; the text says how to change its row."""


class SystemUnderMutant(Protocol):
    """A system with one mutant's fault, or without any."""

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations of a case that are not known.

        NothingObservedError if none of its findings was observable, NoEffectError if the fault changed nothing,
        MachineryError if the case fails to run.
        """
        ...


class Rig(Protocol):
    """A system that takes faults.

    name: its runtime. lanes: how many mutants can run at a time (>= 1).
    """

    name: str
    lanes: int
    case_choice: CaseChoice

    @property
    def pool(self) -> Executor | None:
        """The threads of the lanes, which end before the system is closed; None: one mutant at a time."""
        ...

    def why_not(self, mutant: Mutant) -> str:
        """Why it cannot have this fault; "" if it can."""
        ...

    def lacks(self, claim: Claim) -> str:
        """The claim's requirement that it lacks; "" for none."""
        ...

    def is_exclusive(self, mutant: Mutant) -> bool:
        """Whether a mutant affects more than its own pod, so that no other may run at the same time."""
        ...

    def under(self, mutant: Mutant | None, lane: int) -> contextlib.AbstractContextManager[SystemUnderMutant]:
        """Apply the fault until the context ends; None for no fault. lane: 0 to lanes - 1, one mutant each."""
        ...


@dataclass
class _Control:
    """The deviations of each case without a mutant, determined once, when the case kills a mutant or sees nothing.

    found: None for a case without anything observable.
    """

    rig: Rig
    found: dict[str, frozenset[tuple[str, Level]] | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def beyond(self, case: Case, lane: int, mutant: Mutant, deviations: Sequence[Deviation]) -> tuple[Deviation, ...]:
        """The deviations that do not show without the mutant."""
        known = (self._without(case, lane, mutant) or frozenset()) if deviations else frozenset()
        return tuple(one for one in deviations if (one.knob, one.level) not in known)

    def sees_nothing(self, case: Case, lane: int, mutant: Mutant) -> bool:
        """Whether the case finds nothing observable without the mutant either."""
        return self._without(case, lane, mutant) is None

    def _without(self, case: Case, lane: int, mutant: Mutant) -> frozenset[tuple[str, Level]] | None:
        right = _right(mutant)
        key = f"{case.claim.id} {right.plan if right is not None else ''}"
        with self.lock:
            if key in self.found:
                return self.found[key]
        with self.rig.under(right, lane) as tried_:
            try:
                known = frozenset((one.knob, one.level) for one in tried_.find(case))
            except NothingObservedError:
                known = None
        with self.lock:
            self.found[key] = known
        return known


def _right(mutant: Mutant) -> Mutant | None:
    """The mutant with the same pods and kubelets but no fault; None if the plain system will do."""
    if mutant.plan is not None:
        right = PlanFault(pods=mutant.plan.pods, kubelets=mutant.plan.kubelets)
        return replace(mutant, name="right", plan=right)
    return None if mutant.machine is None else replace(mutant, name="right", machine=MachineFault())


def try_mutants(
    rig: Rig, mutants: Sequence[Mutant], *, begun: Callable[[Mutant], object] = lambda _: None
) -> Iterator[Outcome]:
    """The outcome of each mutant as it ends: first several at a time in lanes, then the exclusive ones.

    begun: called for each before its first case. Raises a machine's failure, and an interrupt.
    """
    control = _Control(rig)
    together = [one for one in mutants if not rig.is_exclusive(one)]
    alone = [one for one in mutants if rig.is_exclusive(one)]
    if rig.pool is not None:
        yield from _side_by_side(rig, rig.pool, together, control, begun)
    else:
        alone = [*together, *alone]
    for mutant in alone:
        begun(mutant)
        yield _tried_one(rig, mutant, 0, control)


def try_mutants_on_rigs(
    rigs: Iterator[contextlib.AbstractContextManager[Rig]], mutants: Sequence[Mutant]
) -> Iterator[Outcome]:
    """The outcome of each mutant on the first of these rigs that can have its fault."""
    left: dict[str, Outcome | None] = {one.name: None for one in mutants}
    for opening in rigs:
        waiting = [one for one in mutants if one.name in left]
        if not waiting:
            break
        with opening as rig:
            for outcome in try_mutants(rig, waiting):
                if outcome.fate is Fate.NOT_TRIED:
                    # The reason of a system whose cases saw nothing is more useful than that of one without the part.
                    first = left[outcome.mutant.name]
                    left[outcome.mutant.name] = outcome if first is None or outcome.claims else first
                else:
                    del left[outcome.mutant.name]
                    yield outcome
    yield from (outcome for outcome in left.values() if outcome is not None)


def _side_by_side(
    rig: Rig, pool: Executor, mutants: Sequence[Mutant], control: _Control, begun: Callable[[Mutant], object]
) -> Iterator[Outcome]:
    lanes: SimpleQueue[int] = SimpleQueue()
    for lane in range(rig.lanes):
        lanes.put(lane)

    def one(mutant: Mutant) -> Outcome:
        lane = lanes.get()
        try:
            begun(mutant)
            return _tried_one(rig, mutant, lane, control)
        finally:
            lanes.put(lane)

    futures: list[Future[Outcome]] = []
    try:
        futures.extend(submit(pool, one, mutant) for mutant in mutants)
        for future in as_completed(futures):
            yield future.result()
    finally:
        # Those that have not begun; calls in progress end with the machine.
        for future in futures:
            future.cancel()


def _tried_one(rig: Rig, mutant: Mutant, lane: int, control: _Control) -> Outcome:
    began = SYSTEM_CLOCK.now()

    def outcome(fate: Fate, **more: object) -> Outcome:
        runtime = "" if fate in {Fate.NOT_TRIED, Fate.EQUIVALENT} else rig.name
        seconds = SYSTEM_CLOCK.now() - began
        return Outcome(mutant=mutant, fate=fate, seconds=seconds, runtime=runtime, **more)  # type: ignore[arg-type]

    if mutant.equivalent:
        return outcome(Fate.EQUIVALENT, why=mutant.equivalent)
    if why := rig.why_not(mutant):
        return outcome(Fate.NOT_TRIED, why=why)
    cases, lacking = [], ""
    for case in rig.case_choice.candidates(mutant):
        why = rig.lacks(case.claim)
        lacking = lacking or why
        cases += [] if why else [case]
    if not cases:
        return outcome(Fate.NOT_TRIED if lacking else Fate.SURVIVED, why=lacking or "no case uses it")
    return _tried_with(cases, mutant, lane, control, outcome)


def _tried_with(
    cases: Sequence[Case], mutant: Mutant, lane: int, control: _Control, outcome: Callable[..., Outcome]
) -> Outcome:
    """The outcome after these cases, one after another until the first that kills."""
    asked: list[str] = []
    unseen: list[str] = []
    trouble = ""
    for case in cases:
        asked.append(case.claim.id)
        try:
            with control.rig.under(mutant, lane) as system:
                found = system.find(case)
            beyond = control.beyond(case, lane, mutant, found)
        except NothingObservedError as error:
            # A mutant that hides a value survives; a system that never shows it cannot have the fault.
            unseen += [f"{case.claim.id}: {error}"] if control.sees_nothing(case, lane, mutant) else []
        except NoEffectError as error:
            unseen.append(str(error))
        except MachineryError as error:
            trouble = trouble or f"{case.claim.id} ended in: {error.what}"
        else:
            if beyond:
                return outcome(Fate.KILLED, kill=Kill(claim=case.claim.id, deviations=beyond), claims=tuple(asked))
    if len(unseen) == len(asked):
        return outcome(Fate.NOT_TRIED, claims=tuple(asked), why=unseen[0])
    return outcome(Fate.SURVIVED, claims=tuple(asked), why=trouble)


def deviations_of(case: Case, findings: Sequence[Finding], pod: CgroupPath | None) -> list[Deviation]:
    """The deviations among findings. pod: the cgroup of the case's pod, None without one.

    NothingObservedError if there are findings and none is observable.
    """
    if findings and all(one.verdict is Verdict.NOT_OBSERVABLE for one in findings):
        raise NothingObservedError(findings[0].why_not)
    return [
        Deviation(
            knob=one.knob.removesuffix(_OF_SCOPE),
            level=level_of(one, pod, case),
            expected=one.expected,
            observed=one.observed,
        )
        for one in findings
        if one.verdict is Verdict.DEVIATES
    ]


_LEVELS = {
    PlanLevel.CONTAINER: Level.CONTAINER,
    PlanLevel.POD: Level.POD,
    PlanLevel.QOS: Level.CLASS,
    PlanLevel.NODE: Level.NODE,
    PlanLevel.RESERVED: Level.NODE,
}


def level_of(finding: Finding, pod: CgroupPath | None, case: Case) -> Level:
    """The place of a finding, relative to the case's container."""
    subject = finding.subject
    if finding.knob in {"create", "update"}:
        return Level.REQUEST
    if case.asks.verb in {"sandbox_as_it_comes", "sandbox_in_its_parent"}:
        return Level.SANDBOX
    reported = finding.knob.startswith("stats ")  # their subject is the command that reports them
    if subject.part == "scope" or reported:
        return Level.CONTAINER if reported else Level.SCOPE
    if finding.cgroup and pod is not None and subject.level is PlanLevel.NODE:
        return _level_of_another(CgroupPath.parse(finding.cgroup), pod)
    if finding.knob in _LEFT or (subject.level is PlanLevel.NODE and not finding.cgroup):
        return Level.MACHINE
    return Level.SIBLING if subject.container == BESIDE else _LEVELS.get(subject.level, Level.MACHINE)


_LEFT = frozenset({"cgroups", "mounts", "units", "processes"})
"""The knobs with which claims name leftovers of pods."""


def _level_of_another(path: CgroupPath, pod: CgroupPath) -> Level:
    """The level of a cgroup other than the container's own."""
    if path == pod:
        return Level.POD
    if pod.below(path):
        return Level.CLASS if path == pod.parent else Level.NODE
    return Level.SIBLING


# ---- the score

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


def outcome_line(outcome: Outcome) -> str:
    """One mutant: its result, the claim that killed it with its file and level, and the time."""
    kill, mutant = outcome.kill, outcome.mutant
    head = f"{outcome.fate.value:{_WIDTHS[0]}} {mutant.name:{_WIDTHS[1]}}"
    if kill is None:
        cases = "1 case" if len(outcome.claims) == 1 else f"{len(outcome.claims)} cases"
        said = outcome.why or f"{cases} noticed no deviation"
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


def score_document(
    outcomes: Sequence[Outcome], *, system: str, complete: bool, seconds: float, default_run: bool = False
) -> dict[str, Any]:
    """The score as JSON; docs/reference/json.md describes the fields."""
    chapters = sorted({chapter_of(one) for one in outcomes if chapter_of(one)})
    return {
        "memqos_format": _FORMAT,
        "memqos": __version__,
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": system,
        "complete": complete,
        "default_run": default_run,
        "seconds": round(seconds, 1),
        "score": score(outcomes),
        "chapters": {name: score(one for one in outcomes if chapter_of(one) == name) for name in chapters},
        "mutants": [_mutant_row(one) for one in outcomes],
    }


def _mutant_row(outcome: Outcome) -> dict[str, Any]:
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
