"""Refaults: page cache that was taken from a container and that it read again, as the kernel counts them.

In pages, in memory.stat of the container (mm/workingset.c, workingset_refault): each page of a file that was in memory,
was taken, and is in memory again, but for one that comes back on another zone where the multi-generational LRU reclaims
(lru_gen_refault). So that there were some is all that is expected of who lost memory, and not how many.
"""

from __future__ import annotations

from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.protection import Effective
from memqos.node.behaviour.exposure import mostly_protected
from memqos.node.behaviour.watched import WatchedContainer

__all__ = ["REFAULTS", "hardly_refaults", "refaults"]

REFAULTS = "workingset_refault_file"
"""The key of memory.stat."""


def refaults(container: WatchedContainer, counts: Effective, *, broken: str) -> Finding:
    """It read again what was taken from it; not observable of one of which more than half is protected.

    broken: why nothing can be expected of anybody, "" if it can.
    """
    why_not = broken or mostly_protected(counts)
    return container.course.rises("memory.stat", REFAULTS, why_not=why_not)


def hardly_refaults(container: WatchedContainer, *, at_most: int, why_not: str) -> Finding:
    """It read nothing again but so many batches of pages, which it may have missed.

    why_not: why it may have lost more, "" if it may not.
    """
    return container.course.rises_by_batches("memory.stat", REFAULTS, at_most=at_most, why_not=why_not)
