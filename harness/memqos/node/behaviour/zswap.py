"""zswap for a while, and limits of watched containers' use of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.errors import EnvironmentNotAbleError, UsageError
from memqos.model.knob import Knob
from memqos.node.behaviour.watched_container import WatchedContainer
from memqos.probe.facts import ZSWAP_ENABLED
from memqos.workload.command import Anon

__all__ = ["Zswap", "zswap_on"]

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Zswap:
    """Sets limits on the zswap use of containers on a machine with zswap enabled."""

    _tree: CgroupTree

    def limit(self, container: WatchedContainer) -> int:
        """Limit the container's pool to so many bytes: a batch of charges.

        A program fills it with far less than its share of the swap.
        """
        pool = CHARGE_BATCH * container.page_size
        self._write(container, "memory.zswap.max", str(pool))
        return pool

    def keep_out(self, container: WatchedContainer) -> None:
        """Allow the container nothing in zswap."""
        self._write(container, "memory.zswap.max", "0")

    def forbid_writeback(self, container: WatchedContainer) -> None:
        """Allow no writes of the container's memory to a swap device, neither from zswap nor past it."""
        self._write(container, "memory.zswap.writeback", "0")

    def overfill(self, container: WatchedContainer) -> None:
        """Have its workload take its planned memory.max and half of its swap limit, in compressible memory.

        UsageError for a container without either limit, or whose workload takes no commands.
        """
        limits = [container.samples[-1].bound(knob) for knob in (Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX)]
        if None in limits:
            raise UsageError(
                f"the container {container.key} has no memory.max or no memory.swap.max to exceed.",
                next_step="Use a pod with limits and a kubelet with LimitedSwap.",
            )
        most, share = (limit or 0 for limit in limits)
        container.do(Anon(size=most + share // 2, compressible=True))

    def _write(self, container: WatchedContainer, file: str, text: str) -> None:
        """Written to the container's own cgroup, where it limits as in an ancestor; ignored once it has ended."""
        if not container.has_ended:
            self._tree.write(container.path, file, text, deadline=Deadline.after(_SECONDS))


@contextlib.contextmanager
def zswap_on(tree: CgroupTree) -> Iterator[Zswap]:
    """Until the context ends, zswap is on; EnvironmentNotAbleError for a kernel without it."""
    before = tree.target.read(ZSWAP_ENABLED, deadline=Deadline.after(_SECONDS))
    if before is None:
        raise EnvironmentNotAbleError(
            "zswap cannot be enabled: the machine's kernel does not have it.",
            where=tree.target.address,
            next_step="Use a kernel with CONFIG_ZSWAP, such as --profile forky.",
        )
    tree.target.write(ZSWAP_ENABLED, b"Y\n", deadline=Deadline.after(_SECONDS))
    try:
        yield Zswap(tree)
    finally:
        tree.target.write(ZSWAP_ENABLED, before, deadline=Deadline.after(_SECONDS))
