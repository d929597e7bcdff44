"""How much of its pace a program keeps next to an aggressor: measured in turns on one machine, and judged by ranks.

Never by an absolute time: a host that is busy makes everything slower, and what is compared with each other was
measured within seconds. Whether one program keeps more of its pace than another is a matter of how the turns of both
are ranked.

What is timed only reads. A program that writes page cache also sleeps for what the kernel allows of dirty pages, which
becomes less with what its cgroups have left, protected or not (mm/page-writeback.c, balance_dirty_pages;
mm/memcontrol.c, mem_cgroup_wb_stats): on 7.2 that was half of the pace of a program that had lost nothing.
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
from memqos.engine.cgroup.protection import Effective
from memqos.errors import UsageError
from memqos.node.behaviour.neighbour_demand import Squeeze
from memqos.node.behaviour.pressure import Refaulting, exposed, gave_way_meanwhile
from memqos.node.behaviour.watched_container import WatchedContainer, container_of
from memqos.workload.command import Anon, Command, File, Free, Hold, Read
from memqos.workload.report import Done, ReportLine

__all__ = ["LOOKS", "TURNS", "Paces", "Taking", "Turn", "chance", "left_alone", "read_ms", "taking_of", "turns_of"]

TURNS = 6
"""So many that on a busy host a turn or two may be spoilt: the best ranking of two has a chance of 1 in 924."""

LOOKS = 2
"""Where so many turns do not show it, there are as many again, and all of them are looked at: nothing is left out."""

READS = 2
"""Of which the quickest counts: the first one of a turn fetches what was lost in the turn before."""

AHEAD = 2
"""How many readings of its file an aggressor has before it when a pod is timed: it may end one meanwhile."""

_VERBS = ("hold", "read")

SURE = Fraction(1, 20) / LOOKS
"""The largest chance, of a ranking as good as what was seen or better, at which it counts as no coincidence.

Of one in twenty each look has its part, so that looking again makes no coincidence likelier.
"""


class Taking(StrEnum):
    """What an aggressor takes memory for.

    ANONYMOUS: memory of its own, which it keeps. FILES: page cache of a file that does not fit, which it reads again
    and again while others are timed: what it takes can be taken from it.
    """

    ANONYMOUS = "anonymous"
    FILES = "files"

    def begins(self, size: int) -> Command:
        """What it does first, until all of it was used once. size: bytes (> 0)."""
        return Anon(size=size) if self is Taking.ANONYMOUS else File(path="/taken", size=size)

    def goes_on(self, aggressor: WatchedContainer) -> None:
        """Have it do what it does while others are timed."""
        if self is Taking.FILES:
            aggressor.do(*(Read() for _ in range(aggressor.undone, AHEAD)))


def taking_of(word: str) -> Taking:
    """What an aggressor takes memory for, by its word; UsageError for another one."""
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
        """The part of its undisturbed pace that it kept: 1 is all of it; more is chance."""
        return self.undisturbed / self.disturbed


def left_alone(turns: Sequence[Turn]) -> list[float]:
    """What was kept from one undisturbed turn to the next, in place of `Turn.kept`.

    How far that is from 1 is the host's doing. The last turn has the first one as its next.
    """
    alone = [turn.undisturbed for turn in turns]
    return [one / following for one, following in zip(alone, [*alone[1:], *alone[:1]], strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces(Refaulting):
    """The turns of each victim, by its key in the watch, with each kind of aggressor."""

    turns: Mapping[Taking, Mapping[str, Sequence[Turn]]]

    def keeps_more(self, pod: str, *, than: str, beside: str) -> Finding:
        """One pod kept more of its pace than another: its turns rank so much higher that chance does not do that.

        Not observable if it did not, and would not have without any aggressor; see `_drowned`.
        beside: what the aggressor took memory for, "anonymous" or "files". UsageError for another word, for one
        beside which no pod was timed, and for a pod that was not timed.
        """
        if (turns := self.turns.get(taking_of(beside))) is None:
            raise UsageError(f"no program was timed beside '{beside}'.", next_step=f"Disturb with beside=['{beside}'].")
        better, worse = (self._timed(name) for name in (pod, than))
        kept, lost = ([turn.kept for turn in turns[one.key]] for one in (better, worse))
        why_not = self._why_not(kept, lost)
        by_chance = Fraction(1) if why_not else chance(kept, lost)
        if by_chance > SURE:
            why_not = why_not or self._drowned(left_alone(turns[better.key]), kept, lost, worse)
        shown = "" if why_not else f"{spread(kept)}, beside {spread(lost)}; by chance {float(by_chance):.3f}"
        found = Verdict.CONFORMS if by_chance <= SURE else Verdict.DEVIATES
        return Finding(
            verdict=Verdict.NOT_OBSERVABLE if why_not else found,
            subject=subject_of(better.premises.planned.cgroup, better.premises.pod),
            cgroup=str(better.path),
            knob="pace",
            set_by=behaviour_setter("pace", ""),
            expected=f"more of it kept than by {than}, by chance {float(SURE):g} at most",
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
        """The container of a victim, which has turns beside each kind of aggressor; UsageError for another pod."""
        victims = next(iter(self.turns.values()))
        return container_of(pod, among=[one for one in self.containers if one.key in victims])

    def hardly_refaults(self, pod: str) -> Finding:
        """It read nothing again but the batch that it may miss at each reading.

        Not observable of one that is not protected whole, nor of one from which memory.low gave way while what an
        aggressor wrote had to go to the disk.
        """
        container = self._timed(pod)
        counts = self.squeeze.counts[container.key]
        why_not = exposed(counts) or gave_way_meanwhile(container, counts)
        # In each turn it reads alone, and with each kind of aggressor.
        turns = max(len(measured[container.key]) for measured in self.turns.values())
        return self._hardly_refaults(container, at_most=turns * READS * (1 + len(self.turns)), why_not=why_not)

    def _drowned(
        self, alone: Sequence[float], kept: Sequence[float], lost: Sequence[float], worse: WatchedContainer
    ) -> str:
        """Why what one kept of its pace cannot be told from what one kept that lost memory; "" if it can.

        A host that is uneven, or has hardly any work with reading again what was lost, hides the loss: readings that
        undisturbed, `alone`, rank no higher than either of them. Where the kernel counts nothing that was read
        again there is no loss to be hidden.
        """
        by_chance = chance(alone, lost)
        if by_chance <= SURE or chance(alone, kept) <= SURE or not self._read_again(worse):
            return ""
        told = f"{spread(alone)}, beside {spread(lost)}; by chance {float(by_chance):.3f}"
        return f"a loss costs no more than the undisturbed readings vary on this host: {told}"

    def _why_not(self, *measured: Sequence[float]) -> str:
        """Why nothing can be said of these; "" if it can."""
        if broken := self._broken():
            return broken
        least = min(map(len, measured))
        return "" if least >= TURNS else f"only {least} of {TURNS} turns could be timed: a program has ended"


def turns_of(
    neighbour: WatchedContainer, victims: Sequence[WatchedContainer], squeeze: Squeeze, kinds: Sequence[Taking]
) -> dict[Taking, dict[str, list[Turn]]]:
    """The turns of each victim beside each kind, by its key: TURNS, or LOOKS times as many if those do not show enough.

    It is timed alone, and while the neighbour takes what the squeeze says in each of the ways, and gives it back each
    time.
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
    """Whether each that is protected whole kept more than each other one, or there is one that could not be timed."""
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
    """As `_read`, while the neighbour takes so many bytes, which it gives back afterwards."""
    neighbour.do(kind.begins(takes))
    neighbour.until_done()
    disturbed = _read(victims, before=lambda: kind.goes_on(neighbour))
    neighbour.do(Free())
    neighbour.until_done()
    return disturbed


def _read(victims: Sequence[WatchedContainer], *, before: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Have each of these read its memory, one after the other, READS times: the fewest milliseconds, by its key.

    before: called before each reading.
    What is lost and has no room is lost again each time; what a busy host adds is not.
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
    """The chance of a ranking in which `better` is as far ahead of `worse` or further, if nothing made a difference.

    Exact: of all ways to deal the same values out, those with as large a sum of ranks or a larger one, ties sharing
    theirs (the rank sum test of Wilcoxon, Mann and Whitney, one-sided). ValueError if one of them is empty.
    """
    if not better or not worse:
        raise ValueError("both must have values")
    values = [*better, *worse]
    # Twice the middle rank, so that ties stay whole numbers.
    ranks = [sum(other < value for other in values) + sum(other <= value for other in values) for value in values]
    seen = sum(ranks[: len(better)])
    # By how many values were dealt, in how many ways which sum of ranks comes of it.
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in better)]
    for rank in ranks:
        for dealt in range(len(better), 0, -1):
            ways[dealt].update({total + rank: number for total, number in ways[dealt - 1].items()})
    as_good = sum(number for total, number in ways[-1].items() if total >= seen)
    return Fraction(as_good, comb(len(values), len(better)))


def spread(kept: Sequence[float]) -> str:
    """Median and spread, in percent of the undisturbed pace."""
    low, middle, high = (f"{100 * value:.0f}" for value in (min(kept), statistics.median(kept), max(kept)))
    return f"{middle} % ({low} to {high})"


def read_ms(report: Sequence[ReportLine]) -> float | None:
    """Milliseconds from the end of the last hold to the end of the read after it, at least one; None without both."""
    begun, ended = (
        max((line.ms for line in report if isinstance(line, Done) and line.verb == verb), default=None)
        for verb in _VERBS
    )
    return None if begun is None or ended is None else max(1.0, ended - begun)
