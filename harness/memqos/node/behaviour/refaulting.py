"""Refaults: page cache that was taken from a container and that it read again, as the kernel counts them.

In pages, in memory.stat of the container (mm/workingset.c, workingset_refault): each page of a file that was in memory,
was taken, and is in memory again. But the multi-generational LRU counts none that comes back on another NUMA zone than
it was taken from (lru_gen_refault), as where the program runs on another CPU by then. So that there were some is all
that is expected of who lost memory, and not how many; and nothing is where its files have come to other zones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.cgroup.protection import Effective
from memqos.node.behaviour.conditions import SLACK, numa_of
from memqos.node.behaviour.exposure import mostly_protected
from memqos.node.behaviour.watched import WatchedContainer
from memqos.workload.command import Read, Touch
from memqos.workload.report import Done

__all__ = ["hardly_refaults", "refaults"]

_REFAULTS = "workingset_refault_file"


def refaults(container: WatchedContainer, counts: Effective, *, since: float, broken: str) -> Finding:
    """It read again what was taken from it since this time; not observable of one that is protected by more than half.

    Nor of one that has read nothing, nor where all of that came back on other zones. since: seconds of the machine's
    clock. broken: why nothing can be expected of anybody, "" if it can.
    """
    why = broken or mostly_protected(counts) or _unread(container)
    if not container.samples[-1].counter("memory.stat", _REFAULTS):
        why = why or _elsewhere(container, since, at_most=0)
    return container.course.rises("memory.stat", _REFAULTS, why_not=why)


def hardly_refaults(container: WatchedContainer, *, since: float, at_most: int, why_not: str) -> Finding:
    """It read nothing again but so many batches of pages, which it may have missed.

    Not observable of one that has read nothing, nor where no more is counted, and more of its files has come to other
    zones since this time, as of `refaults`. why_not: why it may have lost more, "" if it may not.
    """
    why = why_not or _unread(container)
    found = container.course.rises_by_batches("memory.stat", _REFAULTS, at_most=at_most, why_not=why)
    uncounted = _elsewhere(container, since, at_most=at_most)
    if not uncounted or found.verdict is not Verdict.CONFORMS:
        return found
    return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=uncounted)


def _unread(container: WatchedContainer) -> str:
    """Why nothing can have come back; "" if it has reported that it read what it had."""
    verbs = {one.verb for one in container.samples[-1].report if isinstance(one, Done)}
    return "" if verbs & {Read.verb, Touch.verb} else "it has not read its memory again"


def _elsewhere(container: WatchedContainer, since: float, *, at_most: int) -> str:
    """Why pages may have come back uncounted: more on a zone than there were, by more than so many batches; or ""."""
    before, now = _files_at(container, since), _files_at(container, container.now)
    more = {zone: size - before.get(zone, 0) for zone, size in now.items() if size > before.get(zone, 0)}
    if sum(more.values()) <= at_most * SLACK:
        return ""
    told = " and ".join(f"{size} bytes more on N{zone}" for zone, size in sorted(more.items()))
    return f"a page that comes back on another zone need not be counted: there are {told}"


def _files_at(container: WatchedContainer, at: float) -> Mapping[int, int]:
    """Bytes of its files by zone as they were seen last up to this time; none if they never were."""
    seen = [numa_of(sample, "file") for sample in container.samples if sample.reading.at <= at]
    return next((spread for spread in reversed(seen) if spread is not None), {})
