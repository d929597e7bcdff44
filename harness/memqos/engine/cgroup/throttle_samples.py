"""A series of samples of one container above its memory.high, and what its counters say before any judgement.

`high` of memory.events counts 17 for each pass that reclaims nothing (the first try and 16 retries), once for each
cgroup from the task's own upwards that is over its memory.high: mm/memcontrol.c, `mem_cgroup_handle_over_high`
(MAX_RECLAIM_RETRIES), `reclaim_high`. Where a pass reclaims something it tries again without using up a retry, so steps
are then no multiples of 17, and passes are an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memqos.engine.cgroup.throttle import DEFAULT_HZ, Over, delay, sleeps_from
from memqos.model.knob import Bytes

__all__ = ["EVENTS_A_PASS", "Sample", "Setup", "Span", "levels_of", "lives", "spans"]

EVENTS_A_PASS = 17
"""How much `high` rises in a pass that reclaims nothing, for each cgroup that is over its memory.high."""

_MOST_LEVELS = 4
_LEAST_STEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment. at: seconds, rising within a series. usage: memory.current in bytes.

    high_events, max_events, oom_kills: counters of memory.events. anon, file: bytes of memory.stat; majfaults: its
    pgmajfault. None: the series does not have it, or not at this moment. gone: the container's cgroup could not be read
    any more; amounts and counters then mean nothing.
    """

    at: float
    usage: int
    high_events: int
    anon: int | None = None
    file: int | None = None
    majfaults: int | None = None
    max_events: int | None = None
    oom_kills: int | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the series was made with.

    high, limit: memory.high and memory.max; None for max. levels: how many cgroups above each other were over
    memory.high, from 1; two for crun below CRI-O. hz: jiffies in a second. page_size: bytes. resolution: bytes between
    two amounts that the series tells apart, such as 1 MiB where it has whole MiB.
    """

    high: Bytes | None
    limit: Bytes | None
    levels: int = 1
    hz: int = DEFAULT_HZ
    page_size: int = 4096
    resolution: int = 1

    @property
    def floor(self) -> int | None:
        """The least usage at which a batch costs a sleep, in bytes; None without memory.high."""
        return None if self.high is None else sleeps_from(self.high, hz=self.hz, page_size=self.page_size)

    def sleep(self, usage: int) -> float:
        """Seconds that a task sleeps for one batch at this usage, as the kernel asks for them; zero up to the floor."""
        if self.high is None:
            return 0.0
        return delay([Over(usage=usage, high=self.high)], hz=self.hz, page_size=self.page_size) / self.hz

    def over(self, usage: int) -> float:
        """How far a usage is above memory.high, as a part of it; zero below it and without one."""
        if self.high is None or usage <= self.high.count:
            return 0.0
        return (usage - self.high.count) / max(self.high.count, self.page_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What is between two samples. passes: how many there were. sleep: seconds that the model has each one sleep."""

    first: Sample
    last: Sample
    passes: float
    sleep: float

    @property
    def seconds(self) -> float:
        """How long it is; above zero."""
        return self.last.at - self.first.at

    @property
    def grown(self) -> int:
        """Bytes by which memory.current is larger at its end."""
        return self.last.usage - self.first.usage


def lives(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples of one cgroup each: a new one begins where `high` falls, or after the cgroup was gone.

    Samples at which it was gone end a life: the first of them is its last sample.
    """
    found: list[list[Sample]] = []
    for sample in samples:
        last = found[-1][-1] if found else None
        if last is not None and last.gone and sample.gone:
            continue
        if last is None or last.gone or (not sample.gone and sample.high_events < last.high_events):
            found.append([])
        found[-1].append(sample)
    return [one for one in found if not one[0].gone]


def spans(samples: Sequence[Sample], setup: Setup) -> list[Span]:
    """What is between each two samples of one life, without the last one if the cgroup was gone by then."""
    return [
        Span(
            first=first,
            last=last,
            passes=(last.high_events - first.high_events) / (EVENTS_A_PASS * setup.levels),
            sleep=(setup.sleep(first.usage) + setup.sleep(last.usage)) / 2,
        )
        for first, last in pairwise(samples)
        if not last.gone
    ]


def levels_of(samples: Sequence[Sample], setup: Setup) -> int | None:
    """How many levels the steps of `high` fit, from 1 to 4; None where too few steps are multiples of 17.

    A step of 34 may be one pass of two levels or two passes of one: of the numbers that the steps can be divided by,
    the one counts whose passes take about as long as the model says.
    """
    between = [one for one in spans(samples, setup) if one.last.high_events > one.first.high_events]
    steps = [one.last.high_events - one.first.high_events for one in between]
    whole = [step for step in steps if step % EVENTS_A_PASS == 0]
    if len(whole) < _LEAST_STEPS or 3 * len(whole) < len(steps):
        return None
    fitting = list(_fitting(whole))
    asleep = [one for one in spans(samples, setup) if one.sleep]
    slept = sum(one.sleep * one.passes * setup.levels for one in asleep)
    if len(fitting) == 1 or not slept:
        return max(fitting)
    took = sum(one.seconds for one in asleep)
    # Passes of one level each would have slept for `slept` seconds; of several levels they were fewer.
    return min(fitting, key=lambda levels: _unlike(took * levels / slept))


def _fitting(steps: Sequence[int]) -> Iterator[int]:
    """The numbers of levels by which nearly all of these steps are whole passes; 1 is one."""
    for levels in range(1, _MOST_LEVELS + 1):
        if 20 * sum(step % (EVENTS_A_PASS * levels) != 0 for step in steps) <= len(steps):
            yield levels


def _unlike(ratio: float) -> float:
    """How far a measured over a modelled time is from 1, by factors."""
    return max(ratio, 1 / ratio)
