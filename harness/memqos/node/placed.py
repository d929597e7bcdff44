"""On which NUMA zones a container's memory was, and the findings that can be made of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.model.knob import Knob
from memqos.node.conditions import Sample, held
from memqos.node.judged import Judged

__all__ = ["Placed"]

_NUMA_STAT = "memory.numa_stat"


@dataclass(frozen=True, kw_only=True)
class Placed(Judged):
    """What memory.numa_stat and cpuset.mems tell of a container. kind: a row of memory.numa_stat: anon, file, shmem."""

    def is_only_on(self, *zones: int, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on these NUMA zones when it held the most of it."""
        spread = [one for sample in self.samples if (one := _spread(sample, kind)) is not None]
        named = " ".join(f"N{zone}" for zone in zones)
        if not spread:
            return self._finding(_NUMA_STAT, f"{kind} on {named} only", None, holds=False)
        most = max(spread, key=lambda one: sum(one.values()))
        elsewhere = sum(amount for number, amount in most.items() if number not in zones)
        least = held(self.samples[-1].report, kind)
        holds = elsewhere == 0 and _on(most, zones) >= least
        return self._finding(_NUMA_STAT, f"{kind} of at least {least} on {named} only", _shown(kind, most), holds)

    def is_only_where_planned(self, *, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on the zones that its plan binds it to."""
        planned = self.rests_on.planned.resources.cpuset_mems
        if not planned:
            why = "the plan binds the container to no zone"
            return self._finding(_NUMA_STAT, f"{kind} on the planned zones only", None, holds=False, why_not=why)
        return self.is_only_on(*(int(zone) for zone in planned.split(",")), kind=kind)

    def placed_elsewhere_than(self, other: Placed) -> Finding:
        """The container's cpuset.mems was another one than in another course, by the last reading of each."""
        here, there = (_last(course.samples, Knob.CPUSET_MEMS) for course in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read in the course that it is held against"
        return self._finding(Knob.CPUSET_MEMS, f"not {there}", here or None, here != there, why_not=unread)


def _spread(sample: Sample, kind: str) -> dict[int, int] | None:
    """Bytes of a kind by zone; None where memory.numa_stat cannot be read."""
    text = sample.text(_NUMA_STAT)
    return None if text is None else parse.numa_stat(text, path=f"{sample.container}/{_NUMA_STAT}").get(kind, {})


def _on(spread: dict[int, int], zones: Collection[int]) -> int:
    return sum(spread.get(zone, 0) for zone in zones)


def _shown(kind: str, spread: dict[int, int]) -> str:
    return f"{kind} " + " ".join(f"N{number}={amount}" for number, amount in sorted(spread.items()))


def _last(samples: Sequence[Sample], file: str) -> str:
    """The last text of a file of the container's cgroup, "" if it was never read."""
    texts = [text.strip() for sample in samples if (text := sample.text(file)) is not None]
    return texts[-1] if texts else ""
