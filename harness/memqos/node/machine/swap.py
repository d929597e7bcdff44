"""Swap of a node's machine: use of each swap device by priority, and zswap for a while.

With zswap on, also limits of watched containers' use of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.plan import Reason, kernel_revision
from memqos.errors import EnvironmentNotAbleError, TargetError, UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.node.behaviour.watched_container import WatchedContainer
from memqos.probe.facts import ZSWAP_ENABLED
from memqos.target.base import Target, checked
from memqos.workload.command import Anon

__all__ = ["Zswap", "order_finding", "swaps_in_order", "zswap_on"]


SWAPS = "/proc/swaps"

_FIELDS = 5
_SECONDS = 60.0
_REASON = Reason(
    rule="swap goes to the device with the highest priority that has room, and to no other",
    revision=kernel_revision(CgroupVersion.V2),
    source="swapon(2), Priority; mm/swapfile.c, get_swap_pages",
)


def swaps_in_order(target: Target) -> Finding:
    """No swap device is in use while one of a higher priority has room; see `order_finding`."""
    result = target.run(["cat", SWAPS], deadline=Deadline.after(_SECONDS))
    return order_finding(checked(result, where=target.address).text, where=target.address)


def order_finding(text: str, *, where: str) -> Finding:
    """By /proc/swaps, no device is used while one with a higher priority has room.

    Not observable with one device, with several of one priority, and while nothing is in swap. TargetError for a text
    that cannot be parsed.
    """
    rows = sorted((_row(line, where) for line in text.splitlines()[1:]), reverse=True)
    used = [(priority, size, in_use) for priority, _, size, in_use in rows]
    first = next(iter(used), (0, 0, 0))
    after = used[1:]
    why = ""
    if not after or any(priority == first[0] for priority, _, _ in after):
        why = "the machine has no two swap devices of different priority: --topology small-swaps has them"
    elif not first[2]:
        why = "nothing is in swap"
    elif first[2] >= first[1]:
        why = "the first device is full"
    shown = ", ".join(f"{name} with priority {priority}: {in_use} KiB" for priority, name, _, in_use in rows)
    holds = all(not in_use for _, _, in_use in after)
    return Finding(
        verdict=Verdict.of(holds, why),
        subject=Subject.of_machine("the swap devices"),
        cgroup="/",
        knob=SWAPS,
        set_by=Setter.KERNEL,
        expected="all on the first by priority",
        observed="" if why else shown,
        reason=_REASON,
        why_not=why,
    )


def _row(line: str, where: str) -> tuple[int, str, int, int]:
    """Priority, name, size and use in KiB."""
    words = line.split()
    if len(words) != _FIELDS or not all(word.lstrip("-").isdigit() for word in words[2:]):
        raise TargetError(f"'{line[:80]}' of {SWAPS} cannot be parsed.", where=where)
    size, used, priority = map(int, words[2:])
    return priority, words[0], size, used


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
