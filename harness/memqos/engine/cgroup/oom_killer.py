"""Whom the kernel kills when a cgroup, or the machine, has run out of memory.

A model for claims about behaviour, with the kernel's own arithmetic: whole pages, signed. Of the processes below what
ran out, the one with the highest badness is chosen:

    badness = resident + swapped + page tables + oom_score_adj * (total / 1000)        all in pages

total is what there is below the limit that ran out: its memory.max, and as much swap as its memory.swap.max lets it
have of the machine's. So oom_score_adj weighs a process by thousandths of what ran out, not of the machine. A process
of -1000 is never chosen. With memory.oom.group in the victim's cgroup, or in one above it up to the one that ran out,
all processes below the highest such cgroup go with it, but for those of -1000; kubelets set it for containers alone.

Source: mm/oom_kill.c `oom_badness` (since Linux 5.9 without rounding to thousandths), `oom_evaluate_task`;
mm/memcontrol.c `mem_cgroup_get_max`, `mem_cgroup_get_oom_group`. A task that is dying already, and one that is marked
as the origin of the shortage (swapoff), are left out.
"""

from __future__ import annotations

from memqos.model.knob import MAX, Bytes, Max

__all__ = ["badness", "total_pages"]

_THOUSANDTHS = 1000


def total_pages(limit: Bytes | Max, swap_limit: Bytes | Max, *, memory: int, swap: int, page_size: int = 4096) -> int:
    """What there is below a limit, in pages.

    limit, swap_limit: memory.max and memory.swap.max of the cgroup that ran out; both MAX for the machine itself.
    memory, swap: what the machine has, in bytes.
    """
    most = memory if limit is MAX else limit.count
    more = swap if swap_limit is MAX else min(swap_limit.count, swap)
    return most // page_size + more // page_size


def badness(pages: int, oom_score_adj: int, *, total: int) -> int:
    """How likely a victim a process is where `total` pages ran out: the one with the most is killed.

    pages: resident, swapped out and of page tables together. oom_score_adj: -999 to 1000.
    """
    return pages + oom_score_adj * (total // _THOUSANDTHS)
