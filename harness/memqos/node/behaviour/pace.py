"""How much of its pace a program keeps next to an aggressor: measured in turns on one machine, judged by ranks.

Absolute times are never judged: a busy host slows everything down. Only readings made within seconds of each other are
compared, and the question whether one program keeps more of its pace than another is decided by ranking the turns of
both.

The timed programs only read. A program that writes page cache also sleeps for the kernel's dirty limit. That limit
shrinks with the memory left to its cgroups, protected or not (mm/page-writeback.c, balance_dirty_pages;
mm/memcontrol.c, mem_cgroup_wb_stats); on 7.2 this cost a program half of its pace although it had lost no memory.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import comb

from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Finding, Verdict, subject_of
from memqos.engine.cgroup.effective_protection import Effective
from memqos.errors import UsageError
from memqos.node.behaviour.neighbour_demand import Squeeze
from memqos.node.behaviour.pressure import Refaulting, exposed, gave_way_meanwhile
from memqos.node.behaviour.watched_container import WatchedContainer, container_of
from memqos.workload.command import Anon, Command, File, Free, Hold, Read
from memqos.workload.report import Done, ReportLine

__all__ = ["LOOKS", "TURNS", "Paces", "Taking", "Turn", "chance", "left_alone", "read_ms", "taking_of", "turns_of"]

TURNS = 6
"""Enough that a busy host may spoil a turn or two: the best ranking of two has a chance of 1 in 924."""

LOOKS = 2
"""If this many turns do not show a difference, as many again are made, and all of them are judged."""

READS = 2
"""The quickest one counts: the first reading of a turn also fetches what was lost in the turn before."""

AHEAD = 2
"""How many readings an aggressor has queued when a pod is timed; it may finish one meanwhile."""

_VERBS = ("hold", "read")

SURE = Fraction(1, 20) / LOOKS
"""The significance level of a ranking: its chance without a difference.

Each look at the data gets its part of one in twenty, so that looking twice does not make coincidences likelier.
"""


class Taking(StrEnum):
    """What an aggressor takes memory for.

    ANONYMOUS: memory that it keeps. FILES: page cache of a file that does not fit, which it reads again and again while
    others are timed; that page cache can be reclaimed.
    """

    ANONYMOUS = "anonymous"
    FILES = "files"

    def begins(self, size: int) -> Command:
        """Its first command, which uses all of it once. size: bytes (> 0)."""
        return Anon(size=size) if self is Taking.ANONYMOUS else File(path="/taken", size=size)

    def goes_on(self, aggressor: WatchedContainer) -> None:
        """Start its activity while others are timed."""
        if self is Taking.FILES:
            aggressor.do(*(Read() for _ in range(aggressor.undone, AHEAD)))


def taking_of(word: str) -> Taking:
    """The Taking with this name; UsageError for another."""
    if word not in {*Taking}:
        raise UsageError(f"an aggressor cannot take memory for '{word}'.", next_step=f"Known: {', '.join(Taking)}.")
    return Taking(word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The time in which a program read all of its memory, alone and with the aggressor: ms, above zero."""

    undisturbed: float
    disturbed: float

    @property
    def kept(self) -> float:
        """The part of its undisturbed pace that it kept: 1 is all of it; values above 1 are noise."""
        return self.undisturbed / self.disturbed


def left_alone(turns: Sequence[Turn]) -> list[float]:
    """The pace kept from one undisturbed turn to the next, comparable with `Turn.kept`.

    Any distance from 1 comes from the host. The last turn is compared with the first one.
    """
    alone = [turn.undisturbed for turn in turns]
    return [one / following for one, following in zip(alone, [*alone[1:], *alone[:1]], strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces(Refaulting):
    """The turns of each victim, by its key in the watch, with each kind of aggressor."""

    turns: Mapping[Taking, Mapping[str, Sequence[Turn]]]

    def keeps_more(self, pod: str, *, than: str, taking: str) -> Finding:
        """One pod kept more of its pace than another: its turns rank significantly higher.

        Not observable if they do not, and would not have without any aggressor; see `_drowned`. taking: what the
        aggressor took memory for, "anonymous" or "files". UsageError for another word, for a kind that was not
        measured, and for a pod that was not timed.
        """
        if (turns := self.turns.get(taking_of(taking))) is None:
            raise UsageError(
                f"no program was timed with an aggressor of kind '{taking}'.",
                next_step=f"Disturb with taking=['{taking}'].",
            )
        better, worse = (self._timed(name) for name in (pod, than))
        kept, lost = ([turn.kept for turn in turns[one.key]] for one in (better, worse))
        why_not = self._why_not(kept, lost)
        by_chance = Fraction(1) if why_not else chance(kept, lost)
        if by_chance > SURE:
            why_not = why_not or self._drowned(left_alone(turns[better.key]), kept, lost, worse)
        shown = "" if why_not else f"{spread(kept)}, the other {spread(lost)}; p = {float(by_chance):.3f}"
        return Finding(
            verdict=Verdict.of(by_chance <= SURE, why_not),
            subject=subject_of(better.premises.planned.cgroup, better.premises.pod),
            cgroup=str(better.path),
            knob="pace",
            set_by=behaviour_setter("pace", ""),
            expected=f"more than {than}, p at most {float(SURE):g}",
            observed=shown,
            reason=behaviour_reason("pace", "", better.premises.planned.cgroup.knobs),
            why_not=why_not,
            evidence={
                f"{name} beside {taking}": spread([turn.kept for turn in each])
                for taking, measured in self.turns.items()
                for name, each in measured.items()
                if each
            },
        )

    def _timed(self, pod: str) -> WatchedContainer:
        """The container of a victim, which has turns with each kind of aggressor; UsageError for another pod."""
        victims = next(iter(self.turns.values()))
        return container_of(pod, among=[one for one in self.containers if one.key in victims])

    def hardly_refaults(self, pod: str) -> Finding:
        """It refaulted at most the batch that each reading may miss.

        Not observable if it is not fully protected, or if memory.low gave way while an aggressor's writes went to the
        disk.
        """
        container = self._timed(pod)
        counts = self.squeeze.counts[container.key]
        why_not = exposed(counts) or gave_way_meanwhile(container, counts)
        # Each turn has one reading alone, and one with each kind of aggressor.
        turns = max(len(measured[container.key]) for measured in self.turns.values())
        return self._hardly_refaults(container, at_most=turns * READS * (1 + len(self.turns)), why_not=why_not)

    def _drowned(
        self, alone: Sequence[float], kept: Sequence[float], lost: Sequence[float], worse: WatchedContainer
    ) -> str:
        """Why a program that kept its memory cannot be told from one that lost some; "" if it can.

        An uneven host, or one that reads lost memory again at hardly any cost, hides the loss: then the undisturbed
        readings, `alone`, rank no higher than either program's. Without refaults there is no loss to hide.
        """
        by_chance = chance(alone, lost)
        if by_chance <= SURE or chance(alone, kept) <= SURE or not self._read_again(worse):
            return ""
        told = f"{spread(alone)}, the other {spread(lost)}; p = {float(by_chance):.3f}"
        return f"a loss costs no more than the undisturbed readings vary on this host: {told}"

    def _why_not(self, *measured: Sequence[float]) -> str:
        """Why these turns are inconclusive; "" if they are not."""
        if broken := self._broken():
            return broken
        least = min(map(len, measured))
        return "" if least >= TURNS else f"only {least} of {TURNS} turns could be timed: a program has ended"


def turns_of(
    neighbour: WatchedContainer, victims: Sequence[WatchedContainer], squeeze: Squeeze, kinds: Sequence[Taking]
) -> dict[Taking, dict[str, list[Turn]]]:
    """The turns of each victim with each kind, by its key: TURNS, or LOOKS times as many if those are inconclusive.

    Each turn times it alone, then once for each kind while the neighbour takes what the squeeze says; the neighbour
    gives everything back in between.
    """
    neighbour.do(Free())
    neighbour.until_done()
    turns: dict[Taking, dict[str, list[Turn]]] = {kind: {one.key: [] for one in victims} for kind in kinds}
    for _ in range(LOOKS):
        for _ in range(TURNS):
            undisturbed = _read(victims)
            for kind, found in turns.items():
                disturbed = _beside(neighbour, victims, kind, squeeze.takes)
                for key in undisturbed.keys() & disturbed.keys():
                    found[key].append(Turn(undisturbed=undisturbed[key], disturbed=disturbed[key]))
        if _is_shown(turns, squeeze.counts):
            break
    return turns


def _is_shown(turns: Mapping[Taking, Mapping[str, Sequence[Turn]]], counts: Mapping[str, Effective]) -> bool:
    """Whether each fully protected victim kept more than each other one, or one could not be timed."""
    for measured in turns.values():
        kept = {key: [turn.kept for turn in each] for key, each in measured.items()}
        whole = {key for key in kept if not exposed(counts[key])}
        if not all(kept.values()):
            return True
        if any(chance(kept[key], kept[other]) > SURE for key in whole for other in kept.keys() - whole):
            return False
    return True


def _beside(
    neighbour: WatchedContainer, victims: Sequence[WatchedContainer], kind: Taking, takes: int
) -> dict[str, float]:
    """As `_read`, while the neighbour takes so many bytes, which it frees afterwards."""
    neighbour.do(kind.begins(takes))
    neighbour.until_done()
    disturbed = _read(victims, before=lambda: kind.goes_on(neighbour))
    neighbour.do(Free())
    neighbour.until_done()
    return disturbed


def _read(victims: Sequence[WatchedContainer], *, before: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Have each of these read its memory, one after the other, READS times: the fewest milliseconds, by its key.

    before: called before each reading. Lost memory without room is lost again each time; noise of a busy host is not.
    """
    took: dict[str, list[float]] = {}
    for _ in range(READS):
        for one in victims:
            before()
            one.do(Hold(seconds=0), Read())
            one.until_reported()
            if (milliseconds := read_ms(one.samples[-1].report)) is not None and not one.has_ended:
                took.setdefault(one.key, []).append(milliseconds)
    return {key: min(each) for key, each in took.items()}


def chance(better: Sequence[float], worse: Sequence[float]) -> Fraction:
    """The chance of a ranking in which `better` leads `worse` by at least this much, if nothing made a difference.

    Exact: of all ways to deal out the same values, those with at least as large a rank sum, with ties sharing their
    ranks (the one-sided rank sum test of Wilcoxon, Mann and Whitney). ValueError if one of them is empty.
    """
    if not better or not worse:
        raise ValueError("both must have values")
    values = [*better, *worse]
    # Twice the middle rank keeps ties whole numbers.
    ranks = [sum(other < value for other in values) + sum(other <= value for other in values) for value in values]
    seen = sum(ranks[: len(better)])
    # By number of values dealt out: each rank sum and the number of ways to reach it.
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in better)]
    for rank in ranks:
        for dealt in range(len(better), 0, -1):
            ways[dealt].update({total + rank: number for total, number in ways[dealt - 1].items()})
    as_good = sum(number for total, number in ways[-1].items() if total >= seen)
    return Fraction(as_good, comb(len(values), len(better)))


def spread(kept: Sequence[float]) -> str:
    """Median and range, in percent of the undisturbed pace."""
    low, middle, high = (f"{100 * value:.0f}" for value in (min(kept), statistics.median(kept), max(kept)))
    return f"{middle} % ({low} to {high})"


def read_ms(report: Sequence[ReportLine]) -> float | None:
    """Milliseconds (at least 1) from the end of the last hold to the end of the read after it; None without both."""
    begun, ended = (
        max((line.ms for line in report if isinstance(line, Done) and line.verb == verb), default=None)
        for verb in _VERBS
    )
    return None if begun is None or ended is None else max(1.0, ended - begun)
