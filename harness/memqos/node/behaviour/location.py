"""Findings about where a container's memory was: on which NUMA nodes, in swap, in zswap. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import SMALL_PAGE, Sample, held, numa_of
from memqos.node.behaviour.preconditions import Observed

__all__ = ["NumaPlacement", "SwapUse"]

_NUMA_STAT = "memory.numa_stat"


@dataclass(frozen=True)
class NumaPlacement:
    """Findings from memory.numa_stat and cpuset.mems. kind: a row of memory.numa_stat: anon, file, shmem."""

    observed: Observed

    def is_only_on(self, *numa_nodes: int, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on these NUMA nodes in the sample with the most of it.

        Files that the runtime read to create the container are charged to it as page cache on any node: for file, up
        to one batch may be elsewhere. Not observable if the workload held none.
        """
        spread = [one for sample in self.observed.samples if (one := numa_of(sample, kind)) is not None]
        named = " ".join(f"N{numa_node}" for numa_node in numa_nodes)
        if not spread:
            return self.observed.finding(_NUMA_STAT, f"{kind} on {named} only", None, holds=False)
        most = max(spread, key=lambda one: sum(one.values()))
        elsewhere = sum(amount for number, amount in most.items() if number not in numa_nodes)
        least = held(self.observed.samples[-1].report, kind)
        of_runtime = self.observed.slack if kind == "file" else 0
        holds = elsewhere <= of_runtime and _on(most, numa_nodes) >= least
        expected = f"{kind} of at least {least} on {named} only" + (
            f", at most {self.observed.slack} elsewhere" if of_runtime else ""
        )
        return self.observed.finding(_NUMA_STAT, expected, _shown(kind, most), holds, why_not=self._held_none(kind))

    def ends_only_on(self, numa_node: int, *, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on this NUMA node in the last sample.

        Not observable if the workload held none.
        """
        spread = [one for sample in self.observed.samples if (one := numa_of(sample, kind)) is not None]
        least = held(self.observed.samples[-1].report, kind)
        expected = f"{kind} of at least {least} on N{numa_node} only"
        if not spread:
            return self.observed.finding(_NUMA_STAT, expected, None, holds=False, key="moved")
        last = spread[-1]
        holds = sum(last.values()) == last.get(numa_node, 0) >= least
        return self.observed.finding(
            _NUMA_STAT, expected, _shown(kind, last), holds, key="moved", why_not=self._held_none(kind)
        )

    def never_leaves(self, numa_node: int, *, kind: str = "anon") -> Finding:
        """In every sample some of the container's memory of a kind was on this NUMA node and none on another.

        For a program that is killed before it has allocated all it asks for. A process that is being killed may
        allocate on any node (kernel/cgroup/cpuset.c, cpuset_node_allowed), so one batch may be elsewhere. Samples from
        before the workload runs are ignored. Not observable if memory.numa_stat never counted any.
        """
        running = [sample for sample in self.observed.samples if sample.runs]
        spread = [one for sample in running if (one := numa_of(sample, kind)) is not None]
        most = {number: max(one.get(number, 0) for one in spread) for number in {n for one in spread for n in one}}
        elsewhere = sum(amount for number, amount in most.items() if number != numa_node)
        holds = elsewhere <= self.observed.slack < most.get(numa_node, 0)
        shown = _shown(kind, most) if spread else None
        expected = f"{kind} on N{numa_node} only in every sample, at most {self.observed.slack} elsewhere"
        why = "" if not spread or any(most.values()) else f"{_NUMA_STAT} counted none of it while it ran"
        return self.observed.finding(_NUMA_STAT, expected, shown, holds, why_not=why)

    def spills_to(self, near: int, *, not_to: int) -> Finding:
        """In the sample with the most anon, more than a batch was on node `near`, and at most a batch on `not_to`."""
        spread = [one for sample in self.observed.samples if (one := numa_of(sample, "anon")) is not None]
        most = max(spread, key=lambda one: sum(one.values()), default={})
        holds = most.get(near, 0) > self.observed.slack >= most.get(not_to, 0)
        expected = f"anon of more than {self.observed.slack} on N{near}, and at most that on N{not_to}"
        return self.observed.finding(
            _NUMA_STAT, expected, _shown("anon", most) if spread else None, holds, key="spilled"
        )

    def is_reclaimed(self, kind: str) -> Finding:
        """At the end, more than a batch is missing of the memory of a kind that the workload reported to have used.

        Not observable if nothing is missing and the kernel reclaimed no page (pgsteal 0): there was enough room.
        """
        spread = [one for sample in self.observed.samples if (one := numa_of(sample, kind)) is not None]
        used = held(self.observed.samples[-1].report, kind)
        left = sum(spread[-1].values()) if spread else None
        holds = left is not None and left < used - self.observed.slack
        had_room = left is not None and not holds and self.observed.samples[-1].counter("memory.stat", "pgsteal") == 0
        why = f"all of it fitted: {left} of {kind}, pgsteal 0" if had_room else ""
        return self.observed.finding(
            _NUMA_STAT, f"less than {used - self.observed.slack} of {kind}", left, holds, key="reclaimed", why_not=why
        )

    def is_only_where_planned(self, *, kind: str = "anon") -> Finding:
        """All of the container's memory of a kind was on the NUMA nodes that its plan binds it to.

        Not observable if the plan binds it to no node, or to all nodes.
        """
        planned = self.observed.rests_on.planned.resources.cpuset_mems
        numa_nodes = {int(numa_node) for numa_node in planned.split(",")} if planned else set()
        there = {numa_node for sample in self.observed.samples for numa_node in numa_of(sample, kind) or {}}
        if not numa_nodes or (there and numa_nodes >= there):
            why = f"the plan binds the container to {'all NUMA nodes' if numa_nodes else 'no NUMA node'}"
            return self.observed.finding(
                _NUMA_STAT, f"{kind} on the planned NUMA nodes only", None, holds=False, why_not=why
            )
        return self.is_only_on(*sorted(numa_nodes), kind=kind)

    def _held_none(self, kind: str) -> str:
        """Why the workload holds no memory of this kind; "" if it reported some."""
        last = self.observed.samples[-1]
        if held(last.report, kind):
            return ""
        status = last.status
        ended = "" if status.exit_code is None else f", and ended with {status.exit_code} ({status.reason})"
        return f"the workload reported no {kind} that it holds{ended}"

    def placed_elsewhere_than(self, other: NumaPlacement) -> Finding:
        """The last cpuset.mems read differs from that of another container."""
        here, there = (_last(one.observed.samples, Knob.CPUSET_MEMS) for one in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read for the container that it is compared with"
        return self.observed.finding(Knob.CPUSET_MEMS, f"not {there}", here or None, here != there, why_not=unread)

    def placed_where(self, other: NumaPlacement) -> Finding:
        """The last cpuset.mems read equals that of another container."""
        here, there = (_last(one.observed.samples, Knob.CPUSET_MEMS) for one in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read for the container that it is compared with"
        return self.observed.finding(Knob.CPUSET_MEMS, there, here or None, here == there, why_not=unread)


def _on(spread: dict[int, int], numa_nodes: Collection[int]) -> int:
    return sum(spread.get(numa_node, 0) for numa_node in numa_nodes)


def _shown(kind: str, spread: dict[int, int]) -> str:
    return f"{kind} " + " ".join(f"N{number}={amount}" for number, amount in sorted(spread.items()))


def _last(samples: Sequence[Sample], file: str) -> str:
    """The last text of a file of the container's cgroup, "" if it was never read."""
    texts = [text.strip() for sample in samples if (text := sample.text(file)) is not None]
    return texts[-1] if texts else ""


_CURRENT, _POOL, _STAT = "memory.swap.current", "memory.zswap.current", "memory.stat"


@dataclass(frozen=True)
class SwapUse:
    """Findings from memory.swap.current, memory.zswap.current and memory.stat."""

    observed: Observed

    def is_compressed(self) -> Finding:
        """At its maximum zswap used some memory, and less than half of the bytes that were in swap then."""
        seen = [(pool, swap) for one in self.observed.samples
                if (pool := one.number(_POOL)) is not None and (swap := one.number(_CURRENT)) is not None]  # fmt: skip
        pool, swap = max(seen, default=(0, 0))
        expected = f"above 0, and less than half of the {swap} bytes in swap"
        found = self.observed.finding(_POOL, expected, pool if seen else None, 0 < pool < swap / 2)
        return replace(found, measured=True)

    def counts_as_swap(self, *, cpus: int) -> Finding:
        """Pages in zswap, more than a batch for each CPU, counted in memory.swap.current at their full size.

        memory.stat may lag by a batch for each CPU (mm/memcontrol.c, MEMCG_CHARGE_BATCH).
        """
        seen = [(kept, swap) for one in self.observed.samples
                if (kept := one.counter(_STAT, "zswapped")) is not None
                and (swap := one.pod_number(_CURRENT)) is not None]  # fmt: skip
        kept, swap = max(seen, default=(0, 0))
        slack = cpus * self.observed.slack
        expected = f"at least {kept - slack} in swap, of {kept} in zswap, and more than {slack} in zswap"
        holds = kept > slack and swap >= kept - slack
        found = self.observed.finding(_CURRENT, expected, swap if seen else None, holds, key="zswapped")
        return replace(found, measured=True)

    def compresses_nothing(self) -> Finding:
        """Zswap used no memory for it in any sample."""
        pool = max(self.observed.amounts(_POOL), default=None)
        return self.observed.finding(_POOL, "0 in every sample", pool, pool == 0, key="limited")

    def compresses_at_most(self, most: int) -> Finding:
        """Zswap never used more memory for it than its limit and one batch."""
        pool = max(self.observed.amounts(_POOL), default=None)
        bound = most + self.observed.slack
        holds = pool is not None and pool <= bound
        return self.observed.finding(_POOL, f"at most {bound} in every sample", pool, holds, key="limited")

    def is_used(self, *, why_not: str = "") -> Finding:
        """More than one batch of it was in swap. why_not: why this is not observable, "" if it is."""
        most = max(self.observed.amounts(_CURRENT), default=None)
        holds = most is not None and most > self.observed.slack
        return self.observed.finding(
            _CURRENT, f"more than {self.observed.slack}", most, holds, key="used", why_not=why_not
        )

    def is_unused(self, *, why_not: str = "") -> Finding:
        """None of it was in swap in any sample. why_not: as for `is_used`."""
        most = max(self.observed.amounts(_CURRENT), default=None)
        return self.observed.finding(_CURRENT, "0 in every sample", most, most == 0, why_not=why_not)

    def stops_early(self) -> str:
        """Why the kernel swapped no more though memory.swap.max was not reached; "" where a page has 4 KiB.

        It needs 64 pages of room in swap (mm/vmscan.c, get_swappiness, MIN_LRU_BATCH).
        """
        first, most = self.observed.samples[0], max(self.observed.amounts(_CURRENT), default=0)
        bound, size = first.bound(Knob.MEMORY_SWAP_MAX), first.page_size
        if size <= SMALL_PAGE or not bound or bound - most >= first.slack:
            return ""
        return f"{bound - most} bytes of memory.swap.max {bound} were left, too few for the kernel's 64 pages of {size}"

    def is_hardly_used(self) -> Finding:
        """At most one batch of it was in swap: a program also has memory that its commands do not allocate."""
        most = max(self.observed.amounts(_CURRENT), default=None)
        return self.observed.finding(
            _CURRENT, f"at most {self.observed.slack}", most, most is not None and most <= self.observed.slack
        )

    def exceeds_limit_of(self, other: SwapUse) -> Finding:
        """More of it was in swap than another container's planned memory.swap.max; not observable without one."""
        bound = other.observed.samples[0].bound(Knob.MEMORY_SWAP_MAX)
        most = max(self.observed.amounts(_CURRENT), default=None)
        why = "" if bound is not None else f"the plan of the other container sets no {Knob.MEMORY_SWAP_MAX}"
        holds = most is not None and bound is not None and most > bound
        return self.observed.finding(_CURRENT, f"more than {bound}", most, holds, key="used", why_not=why)

    def is_freed(self, *, cpus: int) -> Finding:
        """At the end of the watch its pod has at most one batch for each CPU in swap.

        Read from the pod, which outlives its container. Up to 6.13 each CPU keeps up to 64 freed slots, which stay
        charged (mm/swap_slots.c, SWAP_SLOTS_CACHE_SIZE). Not observable if the pod never had more than that in swap.
        """
        seen = [amount for sample in self.observed.samples if (amount := _of_pod(sample)) is not None]
        most, slack = max(seen, default=0), cpus * self.observed.slack
        why = "" if most > slack or not seen else f"at most {most} bytes of its pod were in swap"
        left = seen[-1] if seen else None
        holds = left is not None and left <= slack
        return self.observed.finding(
            _CURRENT, f"at most {slack} at the end, of {most}", left, holds, key="given back", why_not=why
        )


def _of_pod(sample: Sample) -> int | None:
    text = sample.reading.file(sample.pod, _CURRENT)
    return parse.number(text, path=f"{sample.pod}/{_CURRENT}") if isinstance(text, str) else None
