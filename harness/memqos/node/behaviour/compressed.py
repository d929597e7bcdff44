"""How much of what a container had in swap was compressed in memory, and the findings that can be made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding
from memqos.node.behaviour.conditions import SLACK
from memqos.node.behaviour.judged import Judged

__all__ = ["Compressed"]

_POOL, _SWAP, _STAT = "memory.zswap.current", "memory.swap.current", "memory.stat"


@dataclass(frozen=True, kw_only=True)
class Compressed(Judged):
    """What memory.zswap.current and memory.stat tell of a container."""

    def is_compressed(self) -> Finding:
        """When most of it was in zswap, that took some memory, and less than half of what was in swap then."""
        seen = [(pool, swap) for one in self.samples
                if (pool := one.number(_POOL)) is not None and (swap := one.number(_SWAP)) is not None]  # fmt: skip
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
                and (swap := one.pod_number(_SWAP)) is not None]  # fmt: skip
        kept, swap = max(seen, default=(0, 0))
        slack = cpus * SLACK
        expected = f"at least {kept - slack} in swap, of {kept} in zswap, which are more than {slack}"
        holds = kept > slack and swap >= kept - slack
        found = self._finding(_SWAP, expected, swap if seen else None, holds, key="zswapped")
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
