"""How much of a container was in swap, what zswap compressed of that, and the findings that can be made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import SLACK, Sample
from memqos.node.behaviour.judged import Judged

__all__ = ["Swapped"]

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
        slack = cpus * SLACK
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
        bound = most + SLACK
        holds = pool is not None and pool <= bound
        return self._finding(_POOL, f"at most {bound} all the time", pool, holds, key="limited")

    def swaps(self, *, why_not: str = "") -> Finding:
        """More of it was in swap than one batch. why_not: why that cannot be expected, "" if it can."""
        most = max(self._amounts(_CURRENT), default=None)
        holds = most is not None and most > SLACK
        return self._finding(_CURRENT, f"more than {SLACK}", most, holds, key="used", why_not=why_not)

    def swaps_nothing(self, *, why_not: str = "") -> Finding:
        """Nothing of it was in swap, in any sample. why_not: as of `swaps`."""
        most = max(self._amounts(_CURRENT), default=None)
        return self._finding(_CURRENT, "0 all the time", most, most == 0, why_not=why_not)

    def hardly_swaps(self) -> Finding:
        """No more of it was in swap than one batch: what a program has beside the memory that its commands name."""
        most = max(self._amounts(_CURRENT), default=None)
        return self._finding(_CURRENT, f"at most {SLACK}", most, most is not None and most <= SLACK)

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
        most, slack = max(seen, default=0), cpus * SLACK
        why = "" if most > slack or not seen else f"no more than {most} bytes of its pod were in swap"
        left = seen[-1] if seen else None
        holds = left is not None and left <= slack
        return self._finding(
            _CURRENT, f"at most {slack} at the end, of {most}", left, holds, key="given back", why_not=why
        )


def _of_pod(sample: Sample) -> int | None:
    text = sample.reading.file(sample.pod, _CURRENT)
    return parse.number(text, path=f"{sample.pod}/{_CURRENT}") if isinstance(text, str) else None
