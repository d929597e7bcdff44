"""A second program in a container, as by exec: how long it sleeps for its memory, seen and by the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.cgroup.throttle import CHARGE_BATCH, Over, delay, least_wait
from memqos.model.knob import Bytes
from memqos.node.behaviour.growth import HERTZ
from memqos.workload.command import Anon
from memqos.workload.report import Done

__all__ = ["ENTRY", "Entering", "modelled_sleep", "patience", "unseen"]

ENTRY = Anon(size=4 << 20, within=5)
"""What a program takes that is started in a container to look around, as a shell is, or what it has by then.

So many batches of charges that it has to pay for some itself, whatever another program leaves it (`least_wait`). At the
cap each of them may cost 2 s, which need not be waited for to the end.
"""

_SLEPT = 2.5
"""Seconds, half of its time: what one slept at least that the model has sleep for longer than it goes on."""


_START_SECONDS = 30.0
"""What a runtime takes at most to start a program where nothing sleeps, under emulation on a busy host."""
_RUNTIME = 4 << 20
"""Bytes that the runtime's own program is charged for in the container, until the second program runs in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entering:
    """A second program in a container that was to take ENTRY.

    usage: bytes in use in the container when it was asked for. said: what it said when it had enough; None of one that
    never did, as one that is killed. waited: after how many seconds nothing was waited for any more, 0 if it ended.
    """

    usage: int
    said: Done | None
    waited: float = 0.0

    @property
    def slept(self) -> float | None:
        """Seconds that it neither ran nor waited for a CPU; None where it is unknown."""
        return None if self.said is None or self.said.slept_ms is None else self.said.slept_ms / 1000

    def __str__(self) -> str:
        """How long it slept, of how long, and for how much."""
        if self.said is None and self.waited:
            return f"did not finish within {self.waited:.0f} s (the runtime's own program is slowed too)"
        if self.said is None:
            return "did not finish"
        slept = "?" if self.slept is None else f"{self.slept:.3f} s"
        return f"slept {slept} of {self.said.ms / 1000:.3f} s for {self.said.bytes} bytes"


def modelled_sleep(high: int, entry: Entering) -> float:
    """Seconds that it sleeps at least, whatever the kernel's ticks, and as far as it is waited for."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(_SLEPT, *(float(least_wait(over, ENTRY.size, hz=hz)) for hz in HERTZ))


def patience(high: int | None, usage: int, *, page_size: int) -> float:
    """Seconds to wait for a program that takes ENTRY in a container with this memory.high, None without one.

    The time to start it, its own, a last sleep, and by the model what the runtime's own program sleeps for its memory.
    """
    asleep = 0.0
    if high is not None:
        # Sleeps become longer on the way: so much more is in use at its end, whatever else the container takes.
        over = [Over(usage=usage + _RUNTIME + ENTRY.size, high=Bytes(high))]
        batches = -(-_RUNTIME // (CHARGE_BATCH * page_size)) + 1
        asleep = max(batches * delay(over, hz=hz, page_size=page_size) / hz for hz in HERTZ)
    return _START_SECONDS + (ENTRY.within or 0) + asleep


def unseen(entry: Entering, undisturbed: Entering, least: float) -> str:
    """Why it cannot be told whether it slept `least` seconds for its memory; "" if it can.

    undisturbed: the same program where nothing is above memory.high.
    """
    for one, where in ((entry, "where something is above memory.high"), (undisturbed, "where nothing is")):
        if one.said is None:
            return f"the program {one} {where}"
        if one.slept is None:
            return "this kernel does not report how long a program waited for a CPU (/proc/PID/schedstat)"
    if (undisturbed.slept or 0.0) >= least:
        return f"the same program {undisturbed} where nothing is above memory.high, no less than {least:.3f} s"
    return ""
