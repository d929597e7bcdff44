"""How far a program may have come above memory.high, by the kernel's own model, seen in its samples. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from memqos.engine.cgroup.throttle import fastest_growth, sleeps_from
from memqos.model.knob import Bytes
from memqos.node.behaviour.conditions import Sample

__all__ = ["HERTZ", "Stretch", "furthest", "looks_at", "slowed"]

Used = tuple[float, int]
"""Seconds of the machine's clock, and memory.current in bytes then."""

HERTZ = (100, 250, 300, 1000)
"""The jiffies in a second that a kernel can be built with: which of them it was makes a tick of difference."""


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


def _above(high: int) -> int:
    return min(sleeps_from(Bytes(high), hz=hz) for hz in HERTZ)


def _stretch(first: Used, last: Used, high: int, threads: int) -> Stretch:
    seconds = last[0] - first[0]
    allowed = _allowed(first[1], high, max(1, math.ceil(seconds)), threads)
    return Stretch(start=first[1], usage=last[1], allowed=allowed, seconds=seconds)


@functools.cache
def _allowed(start: int, high: int, seconds: int, threads: int) -> int:
    """There are far more samples than seconds."""
    return max(fastest_growth(start, Bytes(high), seconds=seconds, hz=hz, threads=threads).usage for hz in HERTZ)
