"""Pressed: one pod takes what others could lose, and the kernel's model says what each of them keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.cgroup.protection import Effective, Shelter
from memqos.model.knob import Bytes
from memqos.node.behaviour.conditions import SLACK
from memqos.node.behaviour.exposure import (
    charged_ahead,
    exposed,
    gave_way_meanwhile,
    mostly_protected,
    taken_unweighed,
    too_young,
    what_counts,
)
from memqos.node.behaviour.refaulting import Refaulting
from memqos.node.behaviour.watched import WatchedContainer

__all__ = ["Pressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed(Refaulting):
    """What a neighbour's growth did to the containers beside it.

    That something was kept says nothing where the neighbour ended before it had taken what it was to take.
    """

    neighbour: WatchedContainer

    def keeps(self, pod: str) -> Finding:
        """It lost nothing since the pressure began; not observable of one that is not protected whole.

        A loss is not observable of one that memory.low alone protects, if the kernel counted `low` for it while others
        waited for the disk; see `gave_way_meanwhile`. Nor of one from which somebody took before kswapd did; see
        `taken_unweighed`.
        """
        container, counts = self._counted(pod)
        why = self._may_lose(counts) or charged_ahead(counts, self.squeeze.cpus)
        since, cpus = self.squeeze.since, self.squeeze.cpus
        found = container.course.keeps(counts.usage, since=since, cpus=cpus, why_not=self._broken(why))
        return self._weighed(container, counts, found)

    def gives_way(self, pod: str) -> Finding:
        """It lost memory to the neighbour; not observable of one of which more than half is protected."""
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts))
        return self._gives_way(container, counts, why)

    def _gives_way(self, container: WatchedContainer, counts: Effective, why_not: str) -> Finding:
        cpus, since = self.squeeze.cpus, self.squeeze.since
        why = why_not or charged_ahead(counts, cpus)
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
        ahead = [why for _, counts in counted if (why := charged_ahead(counts, self.squeeze.cpus))]
        why_not = f"not a part of it is protected: {what_counts(whole[0])}" if whole else "".join(ahead[:1])
        return counted, self._broken(why_not)

    def hardly_refaults(self, pod: str) -> Finding:
        """It read nothing again but what `keeps` lets it miss, and not observable where that is not."""
        container, counts = self._counted(pod)
        why, cpus = self._may_lose(counts), self.squeeze.cpus
        return self._weighed(container, counts, self._hardly_refaults(container, at_most=cpus, why_not=why))

    def breaks_low(self, pod: str) -> tuple[Finding, Finding]:
        """It lost memory that memory.low covers, and `low` was counted for it.

        How much of it the multi-generational LRU takes depends on who comes next there: that pages of it were taken is
        all that is expected then, since its usage may fall by a batch of charges without that. And not observable where
        the kernel counts that it came for them, and found none that is old enough (mm/vmscan.c, get_nr_to_scan).
        Neither is observable of one that memory.low alone does not cover whole, nor while others make room first.
        """
        container, counts = self._counted(pod)
        covered = counts.shelter is Shelter.SOFT
        why = "" if covered else f"memory.low alone does not cover all of it: {what_counts(counts)}"
        if not (why or self.squeeze.past_low or self.squeeze.generations):
            why = "the classic LRU takes what nothing protects first, and that is enough"
        why, course = self._broken(why), container.course
        low = course.rises("memory.events", "low", why_not=why)
        if self.squeeze.generations:
            return course.rises("memory.stat", "pgsteal", why_not=why or too_young(container)), low
        return self._gives_way(container, counts, why), low

    def lives(self, pod: str) -> tuple[Finding, Finding]:
        """Nothing of it was killed, and it runs."""
        return self._course(pod).lives()

    def swaps_nothing(self, pod: str) -> Finding:
        """Nothing of it was swapped out; some that was is not observable where a loss of `keeps` is not."""
        container, counts = self._counted(pod)
        return self._weighed(container, counts, container.course.swaps_nothing(why_not=self._broken()))

    def stays(self, pod: str, file: str, key: str) -> Finding:
        """A counter is still zero; see `Course.stays`."""
        return self._course(pod).stays(file, key, why_not=self._broken())

    def _may_lose(self, counts: Effective) -> str:
        """Why it may lose memory by the kernel's rules; "" if it may not."""
        if counts.shelter is Shelter.SOFT and self.squeeze.generations:
            return "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
        return exposed(counts)

    def _weighed(self, container: WatchedContainer, counts: Effective, found: Finding) -> Finding:
        """What was kept is not observable without pressure.

        Nor is a loss that may have been taken without weighing what is protected, or in spite of it.
        """
        if found.verdict is Verdict.CONFORMS:
            why = self._unpressed()
        elif found.verdict is Verdict.DEVIATES:
            why = taken_unweighed(container) if self.squeeze.generations else ""
            why = why or (gave_way_meanwhile(container, counts) if self.squeeze.dirty else "")
        else:
            why = ""
        return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=why) if why else found

    def _unpressed(self) -> str:
        """Why nobody was short of memory; "" if the neighbour took all that it was told to take."""
        if self.neighbour.work_is_done:
            return ""
        return f"{self.neighbour.key} ended before it had taken what others were to be short of"
