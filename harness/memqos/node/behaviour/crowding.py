"""Crowded below kubepods' limit: what a pod takes so that others must swap some of what they hold, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.node.behaviour.together import Together
from memqos.node.behaviour.watched import WatchedContainer
from memqos.workload.command import Anon

__all__ = ["Crowded", "crowding", "growth_of"]

TO_DISK = 32 << 20
"""Bytes a second, a fraction of what a program can take: slow enough for a disk of a machine under emulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded(Together):
    """What a neighbour's growth made others swap."""

    def stays_within_its_share(self, pod: str) -> Finding:
        """It never had more in swap than its planned memory.swap.max."""
        return self._course(pod).stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX)


def growth_of(free: int, more: int) -> Sequence[Anon]:
    """What a neighbour takes: what is free at once, and then more, for which others have to write theirs to the disk.

    free, more: bytes; below zero counts as none. It goes on no faster than the disk. What is on its way there cannot
    make room yet, and counts as swapped already: who outruns the disk is killed though there is enough for all, or the
    kernel takes what it would have left.
    """
    at_once = [Anon(size=free)] if free > 0 else []
    return [*at_once, Anon(size=more, step=TO_DISK // 64, rate=TO_DISK)] if more > 0 else at_once


def crowding(plan: Plan, containers: Sequence[WatchedContainer], neighbour: WatchedContainer) -> tuple[int, int]:
    """Bytes: what kubepods has left, and half of what the others have in use and may swap out.

    UsageError if kubepods has no limit, or if no other container may swap.
    """
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    others = [one for one in containers if one.key != neighbour.key]
    swappable = sum(min(one.last_usage(one.path), _share(one)) for one in others)
    if limit is None or not isinstance(limit.value, Bytes) or not swappable:
        raise UsageError(
            "kubepods has no memory.max under this kubelet, or no pod beside the neighbour may swap.",
            next_step="Take a kubelet with LimitedSwap that enforces allocatable memory, as tight() makes one.",
        )
    pods: dict[CgroupPath, WatchedContainer] = {one.pod: one for one in containers}
    used = sum(one.last_usage(path) for path, one in pods.items())
    return limit.value.count - used, swappable // 2


def _share(one: WatchedContainer) -> int:
    """Bytes that the plan lets a container have in swap; a container without a limit counts with none."""
    planned = one.premises.planned.cgroup.knobs.get(Knob.MEMORY_SWAP_MAX)
    return planned.value.count if planned is not None and isinstance(planned.value, Bytes) else 0
