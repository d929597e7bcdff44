"""A second program in a container, as by exec: how long it sleeps for its memory, seen and by the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.cgroup.throttle import Over, least_wait
from memqos.model.knob import Bytes
from memqos.node.behaviour.growth import HERTZ
from memqos.workload.command import Anon
from memqos.workload.report import Done

__all__ = ["ENTRY", "Entering", "modelled_sleep", "unseen"]

ENTRY = Anon(size=4 << 20, within=5)
"""What a program takes that somebody starts in a container to look around, as a shell does, or what it has by then.

So many batches of charges that it has to pay for some itself, whatever another program leaves it (`least_wait`). At the
cap each of them may cost 2 s, which nobody need see to its end.
"""

_SLEPT = 2.5
"""Seconds, half of its time: what one slept at least that the model has sleep for longer than it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entering:
    """A second program in a container that was to take ENTRY.

    usage: bytes in use in the container when it was asked for. said: what it said when it had enough; None of one that
    never did, as one that is killed.
    """

    usage: int
    said: Done | None

    @property
    def slept(self) -> float | None:
        """Seconds that it neither ran nor waited for a CPU; None where nobody told."""
        return None if self.said is None or self.said.slept_ms is None else self.said.slept_ms / 1000

    def __str__(self) -> str:
        """How long it slept, of how long, and for how much."""
        if self.said is None:
            return "did not come to its end"
        slept = "?" if self.slept is None else f"{self.slept:.3f} s"
        return f"slept {slept} of {self.said.ms / 1000:.3f} s for {self.said.bytes} bytes"


def modelled_sleep(high: int, entry: Entering) -> float:
    """Seconds that it sleeps at least, whatever the kernel's ticks, and as far as it is waited for."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(_SLEPT, *(float(least_wait(over, ENTRY.size, hz=hz)) for hz in HERTZ))


def unseen(entry: Entering, undisturbed: Entering, least: float) -> str:
    """Why it cannot be told whether it slept `least` seconds for its memory; "" if it can.

    undisturbed: the same program where nothing is above memory.high.
    """
    for one, where in ((entry, "where something is above memory.high"), (undisturbed, "where nothing is")):
        if one.said is None:
            return f"the program {one} {where}"
        if one.slept is None:
            return "this kernel does not tell how long a program waited for a CPU (/proc/PID/schedstat)"
    if (undisturbed.slept or 0.0) >= least:
        return f"the same program {undisturbed} where nothing is above memory.high, no less than {least:.3f} s"
    return ""
