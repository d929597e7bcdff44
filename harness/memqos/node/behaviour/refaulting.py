"""Refaults: page cache that was taken from a container and that it read again, as the kernel counts them.

In pages, in memory.stat of the container (mm/workingset.c, workingset_refault): each page of a file that was in memory,
was taken, and is in memory again. But the multi-generational LRU counts none that comes back on another NUMA zone than
it was taken from (lru_gen_refault), as where the program runs on another CPU by then. So that there were some is all
that is expected of who lost memory, and not how many; and nothing is where its files have come to other zones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.cgroup.protection import Effective
from memqos.node.behaviour.conditions import SLACK, Sample, numa_of
from memqos.node.behaviour.exposure import mostly_protected
from memqos.node.behaviour.squeezing import Squeeze
from memqos.node.behaviour.together import Together
from memqos.node.behaviour.watched import WatchedContainer
from memqos.workload.command import Read, Touch
from memqos.workload.report import Done

__all__ = ["Refaulting"]

_REFAULTS = "workingset_refault_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refaulting(Together):
    """Containers from which a neighbour took memory. squeeze: what there was before, and how much was to be short."""

    squeeze: Squeeze

    def refaults(self, pod: str) -> Finding:
        """It read again what was taken from it since the pressure began.

        Not observable of one of which more than half is protected, nor of one that has read nothing since then (see
        `Watch.read_again`), nor where all of that came back on other zones.
        """
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts) or self._unread(container))
        if not self._read_again(container):
            why = why or self._elsewhere(container, at_most=0)
        return container.course.rises("memory.stat", _REFAULTS, why_not=why)

    def _hardly_refaults(self, container: WatchedContainer, *, at_most: int, why_not: str) -> Finding:
        """It read nothing again but so many batches of pages, which it may have missed.

        Not observable of one that has read nothing, nor where no more is counted, and more of its files has come to
        other zones. why_not: why it may have lost more, "" if it may not.
        """
        why = self._broken(why_not or self._unread(container))
        found = container.course.rises_by_batches("memory.stat", _REFAULTS, at_most=at_most, why_not=why)
        uncounted = self._elsewhere(container, at_most=at_most)
        if not uncounted or found.verdict is not Verdict.CONFORMS:
            return found
        return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=uncounted)

    def _counted(self, pod: str) -> tuple[WatchedContainer, Effective]:
        container = self._container(pod)
        return container, self.squeeze.counts[container.key]

    def _read_again(self, container: WatchedContainer) -> int:
        """Pages of its files that were taken from it and that it read again, as far as the kernel counts them."""
        return container.samples[-1].counter("memory.stat", _REFAULTS) or 0

    def _unread(self, container: WatchedContainer) -> str:
        """Why nothing can have come back; "" if it has reported since then that it read what it had."""
        read = _readings(container.samples[-1]) > max(map(_readings, self._before(container)), default=0)
        return "" if read else "it has not read its memory again"

    def _elsewhere(self, container: WatchedContainer, *, at_most: int) -> str:
        """Why pages may have come back uncounted: there are more on a zone, by more than so many batches; or ""."""
        before, now = _files(self._before(container)), _files(container.samples)
        more = {zone: size - before.get(zone, 0) for zone, size in now.items() if size > before.get(zone, 0)}
        if sum(more.values()) <= at_most * SLACK:
            return ""
        told = " and ".join(f"{size} bytes more on N{zone}" for zone, size in sorted(more.items()))
        return f"a page that comes back on another zone need not be counted: there are {told}"

    def _before(self, container: WatchedContainer) -> Sequence[Sample]:
        return [sample for sample in container.samples if sample.reading.at <= self.squeeze.since]


def _readings(sample: Sample) -> int:
    """How often its workload had read all that it had by then."""
    return sum(isinstance(one, Done) and one.verb in {Read.verb, Touch.verb} for one in sample.report)


def _files(samples: Sequence[Sample]) -> Mapping[int, int]:
    """Bytes of its files by zone as these saw them last; none if they never did."""
    seen = (numa_of(sample, "file") for sample in reversed(samples))
    return next((spread for spread in seen if spread is not None), {})
