"""A second program in a container, as by exec: how long it sleeps for its memory, seen and by the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.cgroup.throttle import Over, least_wait
from memqos.model.knob import Bytes
from memqos.node.behaviour.growth import HERTZ

__all__ = ["ENTRY", "ENTRY_SECONDS", "Entering", "modelled_wait", "unseen"]

ENTRY = 4 << 20
"""Bytes that a program takes that somebody starts in a container to look around, as a shell does.

So many batches of charges that it has to pay for some itself, whatever another program leaves it (`least_wait`).
"""

ENTRY_SECONDS = 5.0
"""After which it is given up: at the cap each of its batches may cost 2 s, which nobody need see to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entering:
    """A second program in a container, from its own start to its end.

    size: bytes that it took. seconds: how long that took, by its own clock; of one that was not done, how long it had
    been waited for. slept: of these, how long it neither ran nor waited for a CPU; None of one that was not done, and
    where the kernel does not tell. is_late: it was given up; one that is neither done nor late has ended for another
    reason. usage: of the container when it was asked for.
    """

    size: int
    seconds: float
    is_done: bool
    usage: int
    slept: float | None = None
    is_late: bool = False

    def __str__(self) -> str:
        """How long it slept, of how long it took; or that it was not done."""
        if not self.is_done:
            return f"was not done after {self.seconds:.1f} s"
        slept = "?" if self.slept is None else f"{self.slept:.3f} s"
        return f"slept {slept} of {self.seconds:.3f} s"


def modelled_wait(high: int, entry: Entering) -> float:
    """Seconds that a second program sleeps at least, whatever the kernel's ticks."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(float(least_wait(over, entry.size, hz=hz)) for hz in HERTZ)


def unseen(entry: Entering, undisturbed: Entering, least: float) -> str:
    """Why it cannot be told whether it slept `least` seconds for its memory; "" if it can.

    undisturbed: the same program where nothing is above memory.high.
    """
    if not (entry.is_done or entry.is_late):
        return f"the program ended after {entry.seconds:.1f} s without what it wanted, as one that is killed does"
    if not undisturbed.is_done:
        return f"the same program {undisturbed} where nothing is above memory.high"
    if undisturbed.slept is None or (entry.is_done and entry.slept is None):
        return "this kernel does not tell how long a program waited for a CPU (/proc/PID/schedstat)"
    if undisturbed.slept >= least:
        return f"the same program {undisturbed} where nothing is above memory.high, no less than {least:.3f} s"
    return ""
