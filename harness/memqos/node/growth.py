"""How far a program may have come above memory.high, by the kernel's own model, seen in its samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.cgroup.throttle import fastest_growth, sleeps_from, stalls_from
from memqos.model.knob import Bytes, Knob
from memqos.node.conditions import SLACK, Condition, Sample

__all__ = ["Stretch", "furthest", "stall", "stalls"]

_HERTZ = (100, 250, 300, 1000)
"""The jiffies in a second that a kernel can be built with: which of them it was makes a tick of difference."""

_STALLED_BATCHES = 2
"""Batches beyond the point of stall that show it: each of them took the kernel's longest sleep, 2 s."""


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


def stall(high: int) -> int:
    """The usage, in bytes, at which a program above this memory.high has stalled: two of the longest sleeps past."""
    return max(stalls_from(Bytes(high), hz=hz) for hz in _HERTZ) + _STALLED_BATCHES * SLACK


def stalls() -> Condition:
    """The container has come to the point above its planned memory.high where it sleeps 2 s for each 256 KiB."""

    def holds(sample: Sample) -> bool:
        amount, high = sample.number("memory.current"), sample.bound(Knob.MEMORY_HIGH)
        return amount is not None and high is not None and amount >= stall(high)

    def shows(sample: Sample) -> str:
        high = sample.bound(Knob.MEMORY_HIGH)
        planned = "max" if high is None else f"{high}, at which it stalls from {stall(high)} on"
        usage = sample.number("memory.current")
        return f"{'(not there)' if usage is None else usage} beside a planned memory.high of {planned}"

    return Condition("memory.current comes to where it stalls", holds, shows)


def furthest(samples: Sequence[Sample], high: int) -> Stretch | None:
    """The stretch at whose end the program came furthest, measured by what it may have; None if there is none.

    The first sample in which its growth costs sleep begins them all; one task is taken to grow.
    """
    above = min(sleeps_from(Bytes(high), hz=hz) for hz in _HERTZ)
    seen = [(sample.reading.at, usage) for sample in samples if (usage := sample.number("memory.current")) is not None]
    begin = next((index for index, (_, usage) in enumerate(seen) if usage >= above), len(seen))
    stretches = [_stretch(seen[begin], later, high) for later in seen[begin + 1 :]]
    return max(stretches, key=lambda one: one.usage - one.allowed, default=None)


def _stretch(first: tuple[float, int], last: tuple[float, int], high: int) -> Stretch:
    seconds = last[0] - first[0]
    whole = max(1, math.ceil(seconds))
    allowed = max(fastest_growth(first[1], Bytes(high), seconds=whole, hz=hz).usage for hz in _HERTZ)
    return Stretch(start=first[1], usage=last[1], allowed=allowed, seconds=seconds)
