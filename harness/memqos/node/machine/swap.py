"""Swap of a node's machine: use of each swap device by priority."""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.plan import Reason, kernel_revision
from memqos.errors import TargetError
from memqos.model.node import CgroupVersion
from memqos.target.base import Target, checked

__all__ = ["order_finding", "swaps_in_order"]

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
