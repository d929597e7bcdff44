"""Zswap of a machine, switched on for a while, and how much of it a container may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, UsageError
from memqos.model.knob import Knob
from memqos.node.behaviour.watched import WatchedContainer
from memqos.probe.facts import ZSWAP_ENABLED
from memqos.workload.command import Anon

__all__ = ["POOL", "Zswap", "zswap_on"]

POOL = 256 << 10
"""Bytes of a small pool: what a program fills with far less than its share of the swap, and a batch of charges."""

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Zswap:
    """What a machine whose zswap is on lets its containers do with it."""

    _tree: CgroupTree

    def limit(self, container: WatchedContainer) -> int:
        """Let the container have a small pool, of so many bytes."""
        self._write(container, "memory.zswap.max", str(POOL))
        return POOL

    def keep_out(self, container: WatchedContainer) -> None:
        """Let the container have nothing in zswap."""
        self._write(container, "memory.zswap.max", "0")

    def forbid_writeback(self, container: WatchedContainer) -> None:
        """Let nothing of the container be written to a swap device, neither from zswap nor past it."""
        self._write(container, "memory.zswap.writeback", "0")

    def overfill(self, container: WatchedContainer) -> None:
        """Have its workload take its planned memory.max and half of what it may swap, of what can be compressed.

        UsageError for a container without either limit, or whose workload takes no commands.
        """
        limits = [container.samples[-1].bound(knob) for knob in (Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX)]
        if None in limits:
            raise UsageError(
                f"the container {container.key} has no memory.max or no memory.swap.max that its program could pass.",
                next_step="Take a pod with limits, and a kubelet with LimitedSwap.",
            )
        most, share = (limit or 0 for limit in limits)
        container.do(Anon(size=most + share // 2, compressible=True))

    def _write(self, container: WatchedContainer, file: str, text: str) -> None:
        """Into the container's own cgroup, which counts as those above it do; nothing once it has ended."""
        if not container.has_ended:
            self._tree.write(container.path, file, text, deadline=Deadline.after(SECONDS))


@contextlib.contextmanager
def zswap_on(tree: CgroupTree) -> Iterator[Zswap]:
    """Until the context ends, zswap is on; EnvironmentNotAbleError for a kernel that has none."""
    before = tree.target.read(ZSWAP_ENABLED, deadline=Deadline.after(SECONDS))
    if before is None:
        raise EnvironmentNotAbleError(
            "zswap cannot be switched on: the machine's kernel has none.",
            where=tree.target.address,
            next_step="Take a kernel with CONFIG_ZSWAP: --profile forky.",
        )
    tree.target.write(ZSWAP_ENABLED, b"Y\n", deadline=Deadline.after(SECONDS))
    try:
        yield Zswap(tree)
    finally:
        tree.target.write(ZSWAP_ENABLED, before, deadline=Deadline.after(SECONDS))
