"""On which NUMA nodes a container's memory was, and the findings that can be made of it.

How much of a container was in swap, what zswap compressed of that, and the findings that can be made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import Sample, held, numa_of
from memqos.node.behaviour.sample_findings import Judged

__all__ = ["Placed", "Swapped"]

_NUMA_STAT = "memory.numa_stat"


@dataclass(frozen=True, kw_only=True)
class Placed(Judged):
    """What memory.numa_stat and cpuset.mems tell of a container. kind: a row of memory.numa_stat: anon, file, shmem."""

    def is_only_on(self, *zones: int, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on these NUMA nodes when it held the most of it.

        What the runtime's own program read to make the container counts as its page cache, wherever that is: up to a
        batch of it may be elsewhere, beside all that the workload wrote. Not observable of a workload that held none.
        """
        spread = [one for sample in self.samples if (one := numa_of(sample, kind)) is not None]
        named = " ".join(f"N{zone}" for zone in zones)
        if not spread:
            return self._finding(_NUMA_STAT, f"{kind} on {named} only", None, holds=False)
        most = max(spread, key=lambda one: sum(one.values()))
        elsewhere = sum(amount for number, amount in most.items() if number not in zones)
        least = held(self.samples[-1].report, kind)
        of_runtime = self.slack if kind == "file" else 0
        holds = elsewhere <= of_runtime and _on(most, zones) >= least
        expected = f"{kind} of at least {least} on {named} only" + (
            f", but for {self.slack} beside it" if of_runtime else ""
        )
        return self._finding(_NUMA_STAT, expected, _shown(kind, most), holds, why_not=self._held_none(kind))

    def ends_only_on(self, zone: int, *, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on this NUMA node at the end, wherever it was before.

        Not observable of a workload that held none.
        """
        spread = [one for sample in self.samples if (one := numa_of(sample, kind)) is not None]
        least = held(self.samples[-1].report, kind)
        expected = f"{kind} of at least {least} on N{zone} only"
        if not spread:
            return self._finding(_NUMA_STAT, expected, None, holds=False, key="moved")
        last = spread[-1]
        holds = sum(last.values()) == last.get(zone, 0) >= least
        return self._finding(
            _NUMA_STAT, expected, _shown(kind, last), holds, key="moved", why_not=self._held_none(kind)
        )

    def never_leaves(self, zone: int, *, kind: str = "anon") -> Finding:
        """None of the container's memory of a kind was on another NUMA node, in any sample, and some was on this one.

        For a program that never comes to hold what it asks for, and is killed: until it is dead it may take memory from
        any zone (kernel/cgroup/cpuset.c, cpuset_node_allowed), so one batch may be elsewhere. What the runtime uses
        there to make it does not count. Not observable of one of which nothing was counted anywhere.
        """
        running = [sample for sample in self.samples if sample.runs]
        spread = [one for sample in running if (one := numa_of(sample, kind)) is not None]
        most = {number: max(one.get(number, 0) for one in spread) for number in {n for one in spread for n in one}}
        elsewhere = sum(amount for number, amount in most.items() if number != zone)
        holds = elsewhere <= self.slack < most.get(zone, 0)
        shown = _shown(kind, most) if spread else None
        expected = f"{kind} on N{zone} only, all the time, but for {self.slack}"
        why = "" if not spread or any(most.values()) else f"{_NUMA_STAT} counted nothing of it while it ran"
        return self._finding(_NUMA_STAT, expected, shown, holds, why_not=why)

    def spills_to(self, near: int, *, not_to: int) -> Finding:
        """When it held the most, more of its anonymous memory was on a zone than one batch, and no more on another."""
        spread = [one for sample in self.samples if (one := numa_of(sample, "anon")) is not None]
        most = max(spread, key=lambda one: sum(one.values()), default={})
        holds = most.get(near, 0) > self.slack >= most.get(not_to, 0)
        expected = f"anon of more than {self.slack} on N{near}, and of no more on N{not_to}"
        return self._finding(_NUMA_STAT, expected, _shown("anon", most) if spread else None, holds, key="spilled")

    def is_reclaimed(self, kind: str) -> Finding:
        """Of what the workload said to have used of a kind, less is counted at the end than a batch below all of it.

        Not observable where all of it is there and the kernel took no page of it: others made the room that there was.
        """
        spread = [one for sample in self.samples if (one := numa_of(sample, kind)) is not None]
        used = held(self.samples[-1].report, kind)
        left = sum(spread[-1].values()) if spread else None
        holds = left is not None and left < used - self.slack
        had_room = left is not None and not holds and self.samples[-1].counter("memory.stat", "pgsteal") == 0
        why = f"there was room for all of it: {left} of {kind}, pgsteal 0" if had_room else ""
        return self._finding(
            _NUMA_STAT, f"less than {used - self.slack} of {kind}", left, holds, key="reclaimed", why_not=why
        )

    def is_only_where_planned(self, *, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on the zones that its plan binds it to.

        Not observable of a container that is bound to none, or to all that there are.
        """
        planned = self.rests_on.planned.resources.cpuset_mems
        zones = {int(zone) for zone in planned.split(",")} if planned else set()
        there = {zone for sample in self.samples for zone in numa_of(sample, kind) or {}}
        if not zones or (there and zones >= there):
            why = f"the plan binds the container to {'all NUMA nodes' if zones else 'no NUMA node'}"
            return self._finding(_NUMA_STAT, f"{kind} on the planned NUMA nodes only", None, holds=False, why_not=why)
        return self.is_only_on(*sorted(zones), kind=kind)

    def _held_none(self, kind: str) -> str:
        """Why nothing of what the workload asked for can be anywhere; "" if it reported some."""
        last = self.samples[-1]
        if held(last.report, kind):
            return ""
        status = last.status
        ended = "" if status.exit_code is None else f", and ended with {status.exit_code} ({status.reason})"
        return f"the workload reported no {kind} that it holds{ended}"

    def placed_elsewhere_than(self, other: Placed) -> Finding:
        """The container's cpuset.mems was another one than in another course, by the last reading of each."""
        here, there = (_last(course.samples, Knob.CPUSET_MEMS) for course in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read in the course that it is compared with"
        return self._finding(Knob.CPUSET_MEMS, f"not {there}", here or None, here != there, why_not=unread)

    def placed_where(self, other: Placed) -> Finding:
        """The container's cpuset.mems was the same as in another course, by the last reading of each."""
        here, there = (_last(course.samples, Knob.CPUSET_MEMS) for course in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read in the course that it is compared with"
        return self._finding(Knob.CPUSET_MEMS, there, here or None, here == there, why_not=unread)


def _on(spread: dict[int, int], zones: Collection[int]) -> int:
    return sum(spread.get(zone, 0) for zone in zones)


def _shown(kind: str, spread: dict[int, int]) -> str:
    return f"{kind} " + " ".join(f"N{number}={amount}" for number, amount in sorted(spread.items()))


def _last(samples: Sequence[Sample], file: str) -> str:
    """The last text of a file of the container's cgroup, "" if it was never read."""
    texts = [text.strip() for sample in samples if (text := sample.text(file)) is not None]
    return texts[-1] if texts else ""


_CURRENT, _POOL, _STAT = "memory.swap.current", "memory.zswap.current", "memory.stat"


@dataclass(frozen=True, kw_only=True)
class Swapped(Judged):
    """What memory.swap.current, memory.swap.events, memory.zswap.current and memory.stat tell of a container."""

    def is_compressed(self) -> Finding:
        """When most of it was in zswap, that took some memory, and less than half of what was in swap then."""
        seen = [(pool, swap) for one in self.samples
                if (pool := one.number(_POOL)) is not None and (swap := one.number(_CURRENT)) is not None]  # fmt: skip
        pool, swap = max(seen, default=(0, 0))
        expected = f"above 0, and less than half of the {swap} bytes in swap"
        found = self._finding(_POOL, expected, pool if seen else None, 0 < pool < swap / 2)
        return replace(found, measured=True)

    def counts_as_swap(self, *, cpus: int) -> Finding:
        """What was in zswap, more than a batch of each CPU, was in memory.swap.current with its full size.

        memory.stat may be behind by a batch of each CPU (mm/memcontrol.c, MEMCG_CHARGE_BATCH).
        """
        seen = [(kept, swap) for one in self.samples
                if (kept := one.counter(_STAT, "zswapped")) is not None
                and (swap := one.pod_number(_CURRENT)) is not None]  # fmt: skip
        kept, swap = max(seen, default=(0, 0))
        slack = cpus * self.slack
        expected = f"at least {kept - slack} in swap, of {kept} in zswap, which are more than {slack}"
        holds = kept > slack and swap >= kept - slack
        found = self._finding(_CURRENT, expected, swap if seen else None, holds, key="zswapped")
        return replace(found, measured=True)

    def compresses_nothing(self) -> Finding:
        """In no sample did zswap take any memory for it."""
        pool = max(self._amounts(_POOL), default=None)
        return self._finding(_POOL, "0 all the time", pool, pool == 0, key="limited")

    def compresses_at_most(self, most: int) -> Finding:
        """In no sample did zswap take more memory for it than its limit there, but for one batch."""
        pool = max(self._amounts(_POOL), default=None)
        bound = most + self.slack
        holds = pool is not None and pool <= bound
        return self._finding(_POOL, f"at most {bound} all the time", pool, holds, key="limited")

    def swaps(self, *, why_not: str = "") -> Finding:
        """More of it was in swap than one batch. why_not: why that cannot be expected, "" if it can."""
        most = max(self._amounts(_CURRENT), default=None)
        holds = most is not None and most > self.slack
        return self._finding(_CURRENT, f"more than {self.slack}", most, holds, key="used", why_not=why_not)

    def swaps_nothing(self, *, why_not: str = "") -> Finding:
        """Nothing of it was in swap, in any sample. why_not: as of `swaps`."""
        most = max(self._amounts(_CURRENT), default=None)
        return self._finding(_CURRENT, "0 all the time", most, most == 0, why_not=why_not)

    def hardly_swaps(self) -> Finding:
        """No more of it was in swap than one batch: what a program has beside the memory that its commands name."""
        most = max(self._amounts(_CURRENT), default=None)
        return self._finding(_CURRENT, f"at most {self.slack}", most, most is not None and most <= self.slack)

    def swaps_more_than(self, other: Swapped) -> Finding:
        """More of it was in swap than the plan of another course lets it swap; not observable where that has no limit.

        Both plans name memory.swap.max.
        """
        bound = other.samples[0].bound(Knob.MEMORY_SWAP_MAX)
        most = max(self._amounts(_CURRENT), default=None)
        why = "" if bound is not None else f"the plan that it is held against sets no {Knob.MEMORY_SWAP_MAX}"
        holds = most is not None and bound is not None and most > bound
        return self._finding(_CURRENT, f"more than {bound}", most, holds, key="used", why_not=why)

    def gives_swap_back(self, *, cpus: int) -> Finding:
        """What its pod had in swap is free again at the end of the watch, but for one batch of each CPU.

        The pod tells it, which outlives its container. Up to 6.13 each CPU keeps up to 64 freed slots, which stay
        charged (mm/swap_slots.c, SWAP_SLOTS_CACHE_SIZE). Not observable of a pod that never had more than that there.
        """
        seen = [amount for sample in self.samples if (amount := _of_pod(sample)) is not None]
        most, slack = max(seen, default=0), cpus * self.slack
        why = "" if most > slack or not seen else f"no more than {most} bytes of its pod were in swap"
        left = seen[-1] if seen else None
        holds = left is not None and left <= slack
        return self._finding(
            _CURRENT, f"at most {slack} at the end, of {most}", left, holds, key="given back", why_not=why
        )


def _of_pod(sample: Sample) -> int | None:
    text = sample.reading.file(sample.pod, _CURRENT)
    return parse.number(text, path=f"{sample.pod}/{_CURRENT}") if isinstance(text, str) else None
