"""Pressed: one pod takes what others could lose, and the kernel's model says what each of them keeps.

Below kubepods' limit reclaim begins at kubepods, so that protection is handed down from there: a container's memory.min
and memory.low count as far as those of its pod and its QoS class do. Where the whole machine is short of memory it
begins at the root, and they count only as far as kubepods' do too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.protection import Effective, Shelter
from memqos.engine.cgroup.shelter import shelter
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import MAX, Bytes, Knob, Max
from memqos.node.behaviour.conditions import SLACK
from memqos.node.behaviour.together import Together
from memqos.node.behaviour.watched import WatchedContainer

__all__ = [
    "Aim",
    "Before",
    "Pressed",
    "Squeeze",
    "below_limit",
    "exposed",
    "gave_way_meanwhile",
    "mostly_protected",
    "squeeze_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """What there was before the pressure, and what the neighbour takes at last: all in bytes.

    counts: what counts of each container's protection, by its key in the watch. short: how much of what it takes is not
    free, and so has to come from others. since: when it began, in seconds of the machine's clock. cpus: those of the
    machine, each of which may have charged a batch ahead for each container. past_low: whether that is more than what
    is unprotected. generations: whether the machine as a whole is short, and reclaims by the multi-generational LRU: it
    passes memory.low over once and then takes from it, whoever else has memory left (mm/vmscan.c, shrink_one), where
    the classic LRU takes nothing of it while others have. dirty: whether what others have to give may have to be
    written to the disk first.
    """

    counts: Mapping[str, Effective]
    takes: int
    short: int
    since: float
    cpus: int
    past_low: bool = False
    generations: bool = False
    dirty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What containers used before anybody took memory from them, in bytes by their keys, and when it was seen last."""

    usage: Mapping[str, int]
    at: float

    @classmethod
    def of(cls, containers: Sequence[WatchedContainer]) -> Before:
        """What these use now; at: seconds of the machine's clock."""
        return cls(
            usage={one.key: one.last_usage(one.path) for one in containers},
            at=max(one.samples[-1].reading.at for one in containers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed(Together):
    """What a neighbour's growth did to the containers beside it."""

    squeeze: Squeeze

    def keeps(self, pod: str) -> Finding:
        """It lost nothing since the pressure began; not observable of one that is not protected whole.

        Nor of one that memory.low alone protects, if the kernel counted `low` for it while the page cache of others was
        dirty; see `gave_way_meanwhile`.
        """
        container, counts = self._counted(pod)
        why = exposed(counts)
        if counts.shelter is Shelter.SOFT and self.squeeze.generations:
            why = "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
        if self.squeeze.dirty:
            why = why or gave_way_meanwhile(container, counts)
        why = why or _charged_ahead(counts, self.squeeze.cpus)
        return container.course.keeps(
            counts.usage, since=self.squeeze.since, cpus=self.squeeze.cpus, why_not=self._broken(why)
        )

    def gives_way(self, pod: str) -> Finding:
        """It lost memory to the neighbour; not observable of one of which more than half is protected."""
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts))
        return self._gives_way(container, counts, why)

    def _gives_way(self, container: WatchedContainer, counts: Effective, why_not: str) -> Finding:
        cpus, since = self.squeeze.cpus, self.squeeze.since
        why = why_not or _charged_ahead(counts, cpus)
        return container.course.gives_way(counts.usage, since=since, cpus=cpus, why_not=why)

    def keep_together(self, pod: str, *others: str) -> tuple[Finding, ...]:
        """Together they lost memory, and kept all that what stands above them protects.

        Reclaim passes them over as soon as that covers what they use together, whoever of them lost how much, and each
        of the CPUs may have taken a batch more of each. Not observable of one that is not protected in part.
        """
        counted, why = self._partly([pod, *others])
        since, batches = self.squeeze.since, len(counted) * self.squeeze.cpus * SLACK
        usage = sum(counts.usage for _, counts in counted) - batches
        whole = sum(_amount(counts.min, counts.usage) for _, counts in counted) - batches
        first, *beside = [one.course for one, _ in counted]
        return (
            first.give_way_together(beside, usage, since=since, why_not=why),
            first.keep_together(beside, whole, since=since, why_not=why),
        )

    def _partly(self, pods: Sequence[str]) -> tuple[list[tuple[WatchedContainer, Effective]], str]:
        """What counts of each, and why nothing can be expected of their parts, "" if it can."""
        counted = [self._counted(pod) for pod in pods]
        whole = [counts for _, counts in counted if counts.shelter is not Shelter.PARTIAL or counts.min == Bytes(0)]
        ahead = [why for _, counts in counted if (why := _charged_ahead(counts, self.squeeze.cpus))]
        why_not = f"not a part of it is protected: {_told(whole[0])}" if whole else "".join(ahead[:1])
        return counted, self._broken(why_not)

    def breaks_low(self, pod: str) -> tuple[Finding, Finding]:
        """It lost memory that memory.low covers, and `low` was counted for it.

        How much of it the multi-generational LRU takes depends on who comes next there: that pages of it were taken is
        all that is expected then, since its usage may fall by a batch of charges without that. And not observable where
        the kernel counts that it came for them, and found none that is old enough (mm/vmscan.c, get_nr_to_scan).
        Neither is observable of one that memory.low alone does not cover whole, nor while others make room first.
        """
        container, counts = self._counted(pod)
        why = "" if counts.shelter is Shelter.SOFT else f"memory.low alone does not cover all of it: {_told(counts)}"
        if not (why or self.squeeze.past_low or self.squeeze.generations):
            why = "the classic LRU takes what nothing protects first, and that is enough"
        why, course = self._broken(why), container.course
        low = course.rises("memory.events", "low", why_not=why)
        if self.squeeze.generations:
            return course.rises("memory.stat", "pgsteal", why_not=why or _too_young(container)), low
        return self._gives_way(container, counts, why), low

    def lives(self, pod: str) -> tuple[Finding, Finding]:
        """Nothing of it was killed, and it runs."""
        return self._course(pod).lives()

    def swaps_nothing(self, pod: str) -> Finding:
        """Nothing of it was swapped out; not observable where `keeps` is not, while others are being written."""
        container, counts = self._counted(pod)
        why = gave_way_meanwhile(container, counts) if self.squeeze.dirty else ""
        return container.course.swaps_nothing(why_not=self._broken(why))

    def stays(self, pod: str, file: str, key: str) -> Finding:
        """A counter is still zero; see `Course.stays`."""
        return self._course(pod).stays(file, key, why_not=self._broken())

    def _counted(self, pod: str) -> tuple[WatchedContainer, Effective]:
        container = self._container(pod)
        return container, self.squeeze.counts[container.key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How much is to be short, of what others can lose: half of what nothing protects, unless it says something else.

    all_lose: all of that but half of an equal part. Who is reclaimed from first is nobody's promise, so for everybody
    to lose some, there has to be too little without any of them. past_low: all of that, and half of what memory.low
    alone protects. besides: bytes that something beside the pods can lose, and is to lose half of at least: all that
    pods can lose, and half of these. short: so many bytes in place of all that, where pods can lose nothing.
    """

    past_low: bool = False
    all_lose: bool = False
    besides: int = 0
    short: int | None = None

    def of(self, others: Sequence[Effective]) -> int:
        """Bytes that these, of whom so much counts, and what is beside them are to lose together."""
        if self.short is not None:
            return self.short
        parts = [_exposed_and_hidden(counts) for counts in others]
        exposed, hidden = sum(part for part, _ in parts), sum(part for _, part in parts)
        if self.past_low or self.besides:
            return exposed + (hidden if self.past_low else self.besides) // 2
        losers = sum(part > 0 for part, _ in parts) if self.all_lose else 1
        return exposed - exposed // (2 * max(1, losers))


def squeeze_of(
    plan: Plan,
    kubelet: Kubelet,
    containers: Sequence[WatchedContainer],
    neighbour: WatchedContainer,
    aim: Aim,
    *,
    before: Before,
    recursive: bool,
    spare: int | None = None,
    generations: bool = False,
    dirty: bool = False,
) -> Squeeze:
    """How much the neighbour takes for others to be short of so much, with what they have lost already.

    recursive: whether cgroups are mounted with memory_recursiveprot. spare: bytes that the whole machine has to give,
    where that is what runs short; None where it is kubepods. generations: how the machine reclaims. dirty: whether
    others were left to write to the disk later. UsageError if kubepods is to run short and has no limit.
    """
    free = below_limit(plan, containers) if spare is None else spare
    now, others = Before.of(containers).usage, [one for one in containers if one is not neighbour]
    lost = sum(max(0, before.usage[one.key] - now[one.key]) for one in others)
    usage = {(one.premises.pod.uid, one.premises.planned.name): before.usage[one.key] for one in others}
    # Protection that nobody claims is shared out by use, and the neighbour has its share when memory is short.
    its_own = neighbour.premises.pod.uid, neighbour.premises.planned.name
    usage[its_own] = now[neighbour.key] + max(0, free)
    subjects = {one.key: verdict.subject(one.premises.planned.cgroup, one.premises.pod) for one in containers}
    sheltered = {one.subject: one for one in shelter(plan, kubelet, usage, recursive=recursive)}
    counts: dict[str, Effective] = {}
    for key, subject in subjects.items():
        one = sheltered[subject]
        of_the_machine = one.recursive if recursive else one.plain
        counts[key] = of_the_machine if spare is not None or one.crowded is None else one.crowded
    short = aim.of([found for key, found in counts.items() if key != neighbour.key])
    return Squeeze(
        counts=counts,
        takes=free + max(0, short - lost),
        short=short,
        since=before.at,
        cpus=kubelet.node.cpus,
        past_low=aim.past_low,
        generations=generations and spare is not None,
        dirty=dirty,
    )


def below_limit(plan: Plan, containers: Sequence[WatchedContainer]) -> int:
    """Bytes that kubepods' limit leaves to its pods; UsageError without one."""
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    if limit is None or not isinstance(limit.value, Bytes):
        raise UsageError(
            "kubepods has no memory.max under this kubelet, so nothing is short of memory below it.",
            next_step="Take a kubelet that enforces allocatable memory, as tight() makes one.",
        )
    return limit.value.count - sum(one.last_usage(pod) for pod, one in {one.pod: one for one in containers}.items())


def exposed(counts: Effective) -> str:
    """Why a container of whose protection so much counts may lose memory, "" for one that is protected whole."""
    whole = counts.shelter in {Shelter.HARD, Shelter.SOFT}
    return "" if whole else f"not all of it is protected: {_told(counts)}"


def mostly_protected(counts: Effective) -> str:
    """Why such a container need not lose memory, "" for one of which no more than half is protected."""
    kept = max(_amount(counts.min, counts.usage), _amount(counts.low, counts.usage))
    return "" if 2 * kept <= counts.usage else f"more than half of it is protected: {_told(counts)}"


def _charged_ahead(counts: Effective, cpus: int) -> str:
    """Why what a container lost cannot be told where so many CPUs may have charged ahead for it; "" if it can be."""
    ahead = cpus * SLACK
    told = f"of {counts.usage} bytes in use {cpus} CPUs may have charged {ahead} ahead"
    return told if 2 * ahead > counts.usage else ""


def gave_way_meanwhile(container: WatchedContainer, counts: Effective) -> str:
    """Why what memory.low alone protects may have been taken where others write files; "" if it cannot have been.

    Reclaim that gets nowhere until the disk has what they wrote takes what memory.low covers, and counts `low` for it
    (mm/vmscan.c, do_try_to_free_pages, memcg_low_skipped).
    """
    low = container.samples[-1].counter("memory.events", "low")
    if counts.shelter is not Shelter.SOFT or not low:
        return ""
    return f"nothing else could make room while what others wrote waited for the disk: low {low}"


def _amount(protection: Bytes | Max, usage: int) -> int:
    """How much of a usage is protected."""
    return usage if protection is MAX else min(usage, protection.count)


def _exposed_and_hidden(counts: Effective) -> tuple[int, int]:
    """How much of a usage nothing protects, and how much memory.low alone does."""
    least = _amount(counts.min, counts.usage)
    most = max(least, _amount(counts.low, counts.usage))
    return counts.usage - most, most - least


def _too_young(container: WatchedContainer) -> str:
    """Why no page of it may have been taken though its memory.low was passed over; "" if some were, or it was not."""
    last = container.samples[-1]
    low, taken = last.counter("memory.events", "low"), last.counter("memory.stat", "pgsteal")
    return f"reclaim came for it and took nothing: low {low}, pgsteal {taken}" if low and not taken else ""


def _told(counts: Effective) -> str:
    return f"of {counts.usage} bytes in use {counts.min} count for memory.min and {counts.low} for memory.low"
