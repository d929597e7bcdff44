"""Why a container may lose memory, or need not, by what counts of its protection and what was seen of reclaim.

Each gives the reason why nothing can be expected, as a finding tells it; "" if it can be.
"""

from __future__ import annotations

from memqos.engine.cgroup.protection import Effective, Shelter
from memqos.node.behaviour.conditions import SLACK
from memqos.node.behaviour.watched import WatchedContainer

__all__ = [
    "charged_ahead",
    "exposed",
    "gave_way_meanwhile",
    "mostly_protected",
    "taken_unweighed",
    "too_young",
    "what_counts",
]


def exposed(counts: Effective) -> str:
    """Why a container of whose protection so much counts may lose memory, "" for one that is protected whole."""
    whole = counts.shelter in {Shelter.HARD, Shelter.SOFT}
    return "" if whole else f"not all of it is protected: {what_counts(counts)}"


def mostly_protected(counts: Effective) -> str:
    """Why such a container need not lose memory, "" for one of which no more than half is protected."""
    return "" if 2 * counts.exposed >= counts.usage else f"more than half of it is protected: {what_counts(counts)}"


def charged_ahead(counts: Effective, cpus: int) -> str:
    """Why what a container lost cannot be told where so many CPUs may have charged ahead for it; "" if it can be."""
    ahead = cpus * SLACK
    why = f"of {counts.usage} bytes in use {cpus} CPUs may have charged {ahead} ahead"
    return why if 2 * ahead > counts.usage else ""


def gave_way_meanwhile(container: WatchedContainer, counts: Effective) -> str:
    """Why what memory.low alone protects may have been taken where others write files; "" if it cannot have been.

    Reclaim that gets nowhere until the disk has what they wrote takes what memory.low covers, and counts `low` for it
    (mm/vmscan.c, do_try_to_free_pages, memcg_low_skipped).
    """
    low = container.samples[-1].counter("memory.events", "low")
    if counts.shelter is not Shelter.SOFT or not low:
        return ""
    return f"nothing else could make room while what others wrote waited for the disk: low {low}"


def taken_unweighed(container: WatchedContainer) -> str:
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


def too_young(container: WatchedContainer) -> str:
    """Why no page of it may have been taken though its memory.low was passed over; "" if some were, or it was not."""
    last = container.samples[-1]
    low, taken = last.counter("memory.events", "low"), last.counter("memory.stat", "pgsteal")
    return f"reclaim came for it and took nothing: low {low}, pgsteal {taken}" if low and not taken else ""


def what_counts(counts: Effective) -> str:
    """How much of its protection counts, and of how much."""
    return f"of {counts.usage} bytes in use {counts.min} count for memory.min and {counts.low} for memory.low"
