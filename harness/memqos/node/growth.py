"""How far a program may have come above memory.high, by the kernel's own model, seen in its samples. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.cgroup.throttle import fastest_growth, sleeps_from
from memqos.model.knob import Bytes
from memqos.node.conditions import Sample

__all__ = ["Stretch", "furthest", "slowed"]

_HERTZ = (100, 250, 300, 1000)
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
    above = min(sleeps_from(Bytes(high), hz=hz) for hz in _HERTZ)
    for index, sample in enumerate(samples):
        if (sample.number("memory.current") or 0) >= above:
            return samples[index:]
    return ()


def furthest(samples: Sequence[Sample], high: int) -> Stretch | None:
    """The stretch at whose end the program came furthest, measured by what it may have; None if there is none.

    One task is taken to grow.
    """
    seen = [
        (sample.reading.at, usage)
        for sample in slowed(samples, high)
        if (usage := sample.number("memory.current")) is not None
    ]
    stretches = [_stretch(seen[0], later, high) for later in seen[1:]]
    return max(stretches, key=lambda one: one.usage - one.allowed, default=None)


def _stretch(first: tuple[float, int], last: tuple[float, int], high: int) -> Stretch:
    seconds = last[0] - first[0]
    allowed = _allowed(first[1], high, max(1, math.ceil(seconds)))
    return Stretch(start=first[1], usage=last[1], allowed=allowed, seconds=seconds)


@functools.cache
def _allowed(start: int, high: int, seconds: int) -> int:
    """There are far more samples than seconds."""
    return max(fastest_growth(start, Bytes(high), seconds=seconds, hz=hz).usage for hz in _HERTZ)
