"""How a container above its memory.high ended, or whether it could have: an analysis of a series of samples.

The model is `engine.cgroup.throttle`; `throttle_segments` has what it did on the way. A series that stops says nothing
about why. What can be said is whether memory.max was in reach when it stopped: within the time between two samples a
task takes no more than the model lets it take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import ceil

from memqos.engine.cgroup.throttle import CHARGE_BATCH, fastest_growth, least_sleep
from memqos.engine.cgroup.throttle_samples import Sample, Setup, lives, spans
from memqos.engine.cgroup.throttle_segments import Course, Segment, segments
from memqos.model.knob import Bytes

__all__ = ["Analysis", "End", "Ending", "Way", "analyse"]

_RECENT = 10
_SPARE = 2


class Ending(StrEnum):
    """How a series ended.

    KILLED: OOM-killed. OTHERWISE: it ends far from memory.max, and nothing was OOM-killed: something else ended the
    container, or watching stopped. THRASHES: the program stood still and reclaimed its own text to the last sample.
    UNKNOWN: not observable.
    """

    KILLED = "killed"
    OTHERWISE = "ended otherwise"
    THRASHES = "thrashes"
    UNKNOWN = "not observable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How long a task sleeps on a way to memory.max, in seconds. least: if it keeps all 64 pages of each batch."""

    least: Fraction

    @property
    def most(self) -> Fraction:
        """The time if it keeps one page of each batch."""
        return CHARGE_BATCH * self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end. at: seconds, of the last sample. usage: bytes. left: bytes up to memory.max; None without one.

    way: the sleep that was left up to there; None without an end. likely: seconds of it at the pages that the last
    sleeping stretch kept a pass; None if that is not known.
    """

    ending: Ending
    at: float
    usage: int
    left: int | None
    way: Way | None
    likely: Fraction | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One cgroup's life. above: seconds that it was seen above memory.high.

    way: from where it was first seen above memory.high to memory.max, memory.high itself where it was seen below; None
    without both.
    """

    setup: Setup
    samples: tuple[Sample, ...]
    segments: tuple[Segment, ...]
    end: End
    way: Way | None
    above: float

    @property
    def is_too_short(self) -> bool:
        """Whether it was watched above memory.high for less than the least way to memory.max, and not killed."""
        return self.way is not None and 0 < self.above < self.way.least and self.end.ending is not Ending.KILLED


def analyse(samples: Sequence[Sample], setup: Setup, *, ended: bool = False) -> tuple[Analysis, ...]:
    """The analysis of each cgroup that the samples are of, in order; none for fewer than two samples.

    ended: the container is known to have ended after the last sample. ValueError if the times do not rise.
    """
    if any(last.at <= first.at for first, last in pairwise(samples)):
        raise ValueError("the times of a series must rise")
    found = [one for one in lives(samples) if len([sample for sample in one if not sample.gone]) > 1]
    return tuple(_analysed(one, setup, ended=ended and one is found[-1]) for one in found)


def _analysed(samples: Sequence[Sample], setup: Setup, *, ended: bool) -> Analysis:
    between = spans(samples, setup)
    if len(between) > 1 and samples[-1].gone and between[-1].passes * between[-1].sleep > _SPARE * between[-1].seconds:
        # A task that is being killed does not sleep any more.
        between = between[:-1]
    parts = segments(between, setup)
    return Analysis(
        setup=setup,
        samples=tuple(samples),
        segments=tuple(parts),
        end=_end(samples, setup, parts, ended=ended),
        way=_way(setup, samples[0].usage),
        above=sum(one.seconds for one in parts if one.course is not Course.BELOW),
    )


def _way(setup: Setup, usage: int) -> Way | None:
    """The way from a usage, or from memory.high where that is more, to memory.max."""
    if setup.high is None or setup.limit is None:
        return None
    gone = _slept(setup, setup.high, usage)
    return Way(least=max(_slept(setup, setup.high, setup.limit.count) - gone, Fraction(0)))


def _slept(setup: Setup, high: Bytes, usage: int) -> Fraction:
    return least_sleep(high, usage, hz=setup.hz, page_size=setup.page_size)


def _end(samples: Sequence[Sample], setup: Setup, parts: Sequence[Segment], *, ended: bool) -> End:
    seen = [one for one in samples if not one.gone]
    last, is_gone = seen[-1], ended or samples[-1].gone
    left = None if setup.limit is None else max(setup.limit.count - last.usage, 0)
    way = _way(setup, last.usage)
    ending, why = _ending(samples, setup, parts, is_gone=is_gone)
    return End(
        ending=ending,
        at=last.at,
        usage=last.usage,
        left=left,
        way=way,
        likely=None if way is None or ending is Ending.THRASHES else _likely(way, parts),
        why=why,
    )


def _likely(way: Way, parts: Sequence[Segment]) -> Fraction | None:
    kept = [one.kept for one in parts if one.course is Course.SLEEPS and one.kept is not None]
    if not kept:
        return None
    pages = min(max(Fraction(kept[-1]).limit_denominator(1000), Fraction(1)), Fraction(CHARGE_BATCH))
    return way.least * CHARGE_BATCH / pages


def _ending(samples: Sequence[Sample], setup: Setup, parts: Sequence[Segment], *, is_gone: bool) -> tuple[Ending, str]:
    seen = [one for one in samples if not one.gone]
    near = _is_near(samples, setup)
    if _rose([one.oom_kills for one in seen]):
        return Ending.KILLED, _killed(at_max=near or setup.limit is None or _rose([one.max_events for one in seen]))
    if setup.limit is None:
        return Ending.UNKNOWN, "there is no memory.max: what ends the container is not in the series"
    if is_gone:
        return (Ending.KILLED, _KILLED_UNSEEN) if near else (Ending.OTHERWISE, _ENDED_FAR)
    if parts[-1].course is Course.THRASHES:
        return Ending.THRASHES, "it stood still to the last sample, and nothing is killed for that"
    return (Ending.UNKNOWN, _STOPS_NEAR) if near else (Ending.OTHERWISE, _STOPS_FAR)


_KILLED_UNSEEN = "the container ended when memory.max was in reach, and no sample shows another reason"
_ENDED_FAR = "the container ended when memory.max was out of reach: nothing was OOM-killed there"
_STOPS_NEAR = "the series stops when memory.max was in reach: if the container ended there, it was OOM-killed"
_STOPS_FAR = (
    "the series stops when memory.max was out of reach: nothing was OOM-killed. If the container ended there, "
    "something else ended it"
)


def _killed(*, at_max: bool) -> str:
    if at_max:
        return "oom_kill rose at memory.max"
    return "oom_kill rose far below memory.max: a limit above it, or the node, ran out of memory"


def _rose(counts: Sequence[int | None]) -> bool:
    known = [one for one in counts if one is not None]
    return len(known) > 1 and known[-1] > known[0]


def _is_near(samples: Sequence[Sample], setup: Setup) -> bool:
    """Whether the container could come to memory.max between its last sample and the next one that is not there."""
    seen = [one for one in samples if not one.gone]
    if setup.limit is None or len(seen) < _SPARE:
        return False
    recent = seen[-_RECENT - 1 :]
    gaps = sorted(last.at - first.at for first, last in pairwise(recent))
    gap = gaps[len(gaps) // 2]
    if samples[-1].gone:
        gap = max(gap, samples[-1].at - seen[-1].at)
    rate = max(max(0, last.usage - first.usage) / (last.at - first.at) for first, last in pairwise(seen))
    usage, limit, floor = seen[-1].usage, setup.limit.count, setup.floor
    freely = usage + ceil(_SPARE * rate * gap)
    if setup.high is None or floor is None:
        return freely >= limit
    if usage < floor and freely < min(floor, limit):
        return False
    start = max(usage, min(freely, floor))
    grown = fastest_growth(start, setup.high, seconds=ceil(gap), hz=setup.hz, page_size=setup.page_size)
    return grown.usage + setup.resolution >= limit
