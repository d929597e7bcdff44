"""Pressed: one pod takes what others could lose, and the kernel's model says what each of them keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.cgroup.protection import Effective, Shelter
from memqos.model.knob import Bytes
from memqos.node.behaviour.conditions import SLACK
from memqos.node.behaviour.squeezing import Squeeze
from memqos.node.behaviour.together import Together
from memqos.node.behaviour.watched import WatchedContainer

__all__ = ["Pressed", "exposed", "gave_way_meanwhile", "mostly_protected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed(Together):
    """What a neighbour's growth did to the containers beside it."""

    squeeze: Squeeze

    def keeps(self, pod: str) -> Finding:
        """It lost nothing since the pressure began; not observable of one that is not protected whole.

        Nor of one that memory.low alone protects, if the kernel counted `low` for it while the page cache of others was
        dirty; see `gave_way_meanwhile`. Nor of one from which somebody took before kswapd did; see `_taken_unweighed`.
        """
        container, counts = self._counted(pod)
        why = exposed(counts)
        if counts.shelter is Shelter.SOFT and self.squeeze.generations:
            why = "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
        if self.squeeze.dirty:
            why = why or gave_way_meanwhile(container, counts)
        why = why or _charged_ahead(counts, self.squeeze.cpus)
        since, cpus = self.squeeze.since, self.squeeze.cpus
        found = container.course.keeps(counts.usage, since=since, cpus=cpus, why_not=self._broken(why))
        return self._weighed(container, found)

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
        whole = sum(counts.hard for _, counts in counted) - batches
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
        """Nothing of it was swapped out; not observable where `keeps` is not for what others did meanwhile."""
        container, counts = self._counted(pod)
        why = gave_way_meanwhile(container, counts) if self.squeeze.dirty else ""
        return self._weighed(container, container.course.swaps_nothing(why_not=self._broken(why)))

    def stays(self, pod: str, file: str, key: str) -> Finding:
        """A counter is still zero; see `Course.stays`."""
        return self._course(pod).stays(file, key, why_not=self._broken())

    def _weighed(self, container: WatchedContainer, found: Finding) -> Finding:
        """A loss is not observable if it was taken before anybody had worked out what is protected."""
        why = _taken_unweighed(container) if self.squeeze.generations else ""
        if not why or found.verdict is not Verdict.DEVIATES:
            return found
        return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=why)

    def _counted(self, pod: str) -> tuple[WatchedContainer, Effective]:
        container = self._container(pod)
        return container, self.squeeze.counts[container.key]


def exposed(counts: Effective) -> str:
    """Why a container of whose protection so much counts may lose memory, "" for one that is protected whole."""
    whole = counts.shelter in {Shelter.HARD, Shelter.SOFT}
    return "" if whole else f"not all of it is protected: {_told(counts)}"


def mostly_protected(counts: Effective) -> str:
    """Why such a container need not lose memory, "" for one of which no more than half is protected."""
    return "" if 2 * counts.exposed >= counts.usage else f"more than half of it is protected: {_told(counts)}"


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


def _taken_unweighed(container: WatchedContainer) -> str:
    """Why what a container lost to the multi-generational LRU says nothing of its protection; "" if it does.

    From Linux 6.11 on kswapd alone works out what counts of memory.min and memory.low for the whole machine
    (mm/vmscan.c, lru_gen_age_node). Whoever else reclaims, as khugepaged does for a huge page on a zone that is full
    while another one is not, goes by what kswapd found last (shrink_one): nothing, if it has not been there.
    """
    last = container.samples[-1]
    kswapd, direct, khugepaged = (
        last.counter("memory.stat", f"pgsteal_{who}") or 0 for who in ("kswapd", "direct", "khugepaged")
    )
    if kswapd or not (direct or khugepaged):
        return ""
    taken = f"pgsteal_direct {direct}, pgsteal_khugepaged {khugepaged}, pgsteal_kswapd 0"
    return f"its pages were taken before kswapd had worked out what protects them: {taken}"


def _too_young(container: WatchedContainer) -> str:
    """Why no page of it may have been taken though its memory.low was passed over; "" if some were, or it was not."""
    last = container.samples[-1]
    low, taken = last.counter("memory.events", "low"), last.counter("memory.stat", "pgsteal")
    return f"reclaim came for it and took nothing: low {low}, pgsteal {taken}" if low and not taken else ""


def _told(counts: Effective) -> str:
    return f"of {counts.usage} bytes in use {counts.min} count for memory.min and {counts.low} for memory.low"
