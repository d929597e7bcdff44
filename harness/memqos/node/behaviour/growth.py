"""How far a program may have come above memory.high, by the kernel's own model, seen in its samples. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from memqos.engine.cgroup.throttle import (
    Over,
    fastest_growth,
    least_wait,
    sleeps_from,
)
from memqos.model.knob import Bytes
from memqos.node.behaviour.conditions import Sample

__all__ = [
    "ENTRY",
    "ENTRY_SECONDS",
    "Entering",
    "Stretch",
    "furthest",
    "looks_at",
    "modelled_wait",
    "shown",
    "slowed",
    "unseen",
]

Used = tuple[float, int]
"""Seconds of the machine's clock, and memory.current in bytes then."""

_HERTZ = (100, 250, 300, 1000)
"""The jiffies in a second that a kernel can be built with: which of them it was makes a tick of difference."""


ENTRY = 4 << 20
"""Bytes that a program takes that somebody starts in a container to look around, as a shell does.

So many batches of charges that what it waits for at least is plainly more than it takes where nothing is short.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From the first sample of a program that sleeps for its growth to a later one.

    start, usage, allowed: memory.current in bytes at its begin and end, and what the model lets it be at most at its
    end. seconds: its length.
    """

    start: int
    usage: int
    allowed: int
    seconds: float


def slowed(samples: Sequence[Sample], high: int) -> Sequence[Sample]:
    """The samples of a container's memory from the first on in which its growth costs sleep."""
    above = _above(high)
    return tuple(dropwhile(lambda sample: (sample.number("memory.current") or 0) < above, samples))


def looks_at(samples: Sequence[Sample], *, pod: bool = False) -> list[Used]:
    """What the container used, or its pod, in each sample that tells."""
    seen = [
        (one.reading.at, one.pod_number("memory.current") if pod else one.number("memory.current")) for one in samples
    ]
    return [(at, usage) for at, usage in seen if usage is not None]


def furthest(looks: Sequence[Used], high: int, *, threads: int = 1) -> Stretch | None:
    """The stretch at whose end the program came furthest, measured by what it may have; None if there is none.

    threads: how many tasks grow.
    """
    above = _above(high)
    seen = list(dropwhile(lambda look: look[1] < above, looks))
    stretches = [_stretch(seen[0], later, high, threads) for later in seen[1:]]
    return max(stretches, key=lambda one: one.usage - one.allowed, default=None)


def modelled_wait(high: int, entry: Entering) -> float:
    """Seconds that a second program sleeps at least, whatever the kernel's ticks."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(float(least_wait(over, entry.size, hz=hz)) for hz in _HERTZ)


def shown(entry: Entering) -> str:
    """How long it slept, of how long it took; or that it was given up."""
    if not entry.is_done:
        return f"was not done after {entry.seconds:.1f} s"
    return f"slept {_asleep(entry)} of {entry.seconds:.3f} s"


def unseen(entry: Entering, undisturbed: Entering, least: float) -> str:
    """Why it cannot be told whether it slept `least` seconds for its memory; "" if it can.

    undisturbed: the same program where nothing is above memory.high.
    """
    if not (entry.is_done or entry.is_late):
        return f"the program ended after {entry.seconds:.1f} s without what it wanted, as one that is killed does"
    if not undisturbed.is_done:
        return f"the same program {shown(undisturbed)} where nothing is above memory.high"
    if undisturbed.slept is None or (entry.is_done and entry.slept is None):
        return "this kernel does not tell how long a program waited for a CPU (/proc/PID/schedstat)"
    if undisturbed.slept >= least:
        return f"the same program {shown(undisturbed)} where nothing is above memory.high, no less than {least:.3f} s"
    return ""


def _asleep(entry: Entering) -> str:
    return "?" if entry.slept is None else f"{entry.slept:.3f} s"


def _above(high: int) -> int:
    return min(sleeps_from(Bytes(high), hz=hz) for hz in _HERTZ)


def _stretch(first: Used, last: Used, high: int, threads: int) -> Stretch:
    seconds = last[0] - first[0]
    allowed = _allowed(first[1], high, max(1, math.ceil(seconds)), threads)
    return Stretch(start=first[1], usage=last[1], allowed=allowed, seconds=seconds)


@functools.cache
def _allowed(start: int, high: int, seconds: int, threads: int) -> int:
    """There are far more samples than seconds."""
    return max(fastest_growth(start, Bytes(high), seconds=seconds, hz=hz, threads=threads).usage for hz in _HERTZ)
