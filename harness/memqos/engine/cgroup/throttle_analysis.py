"""How a container above its memory.high ended, or could have ended: an analysis of samples, as text and JSON.

The model is `engine.cgroup.throttle`; `throttle_series` has the stretches before the end. The end of a series does not
show its cause. It does show whether memory.max was in reach: the model bounds a task's growth between two samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from memqos.engine.cgroup.throttle import CHARGE_BATCH, duration, fastest_growth, least_sleep
from memqos.engine.cgroup.throttle_series import Course, Sample, Segment, Setup, lives, segments, spans
from memqos.model.knob import Bytes

__all__ = ["Analysis", "End", "Ending", "Way", "analyse", "analysis_document", "analysis_text"]

_RECENT = 10
_SPARE = 2


class Ending(StrEnum):
    """How a series ended.

    KILLED: OOM-killed. OTHERWISE: it ends far from memory.max without an OOM kill: another cause ended the container,
    or watching stopped. THRASHES: the program made no progress and reclaimed its own text up to the last sample.
    UNKNOWN: not observable.
    """

    KILLED = "killed"
    OTHERWISE = "ended otherwise"
    THRASHES = "thrashes"
    UNKNOWN = "not observable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The sleep of a task up to memory.max, in seconds. least: if it keeps all 64 pages of each batch."""

    least: Fraction

    @property
    def most(self) -> Fraction:
        """The time if it keeps one page of each batch."""
        return CHARGE_BATCH * self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end. at: seconds, of the last sample. usage: bytes. left: bytes up to memory.max; None without one.

    way: the remaining sleep up to memory.max; None without one. likely: its seconds at the pages a pass kept in the
    last sleeping stretch; None if unknown.
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
    """The samples of one cgroup from its creation to its end. above: seconds observed above memory.high.

    way: from the first sample above memory.high (from memory.high itself if an earlier sample is below) to memory.max;
    None without both.
    """

    setup: Setup
    samples: tuple[Sample, ...]
    segments: tuple[Segment, ...]
    end: End
    way: Way | None
    above: float

    @property
    def is_too_short(self) -> bool:
        """Whether it was not killed and was observed above memory.high for less than the least time to memory.max."""
        return self.way is not None and 0 < self.above < self.way.least and self.end.ending is not Ending.KILLED


def analyse(samples: Sequence[Sample], setup: Setup, *, ended: bool = False) -> tuple[Analysis, ...]:
    """The analysis of each cgroup in the samples, in order; none for fewer than two samples.

    ended: the container is known to have ended after the last sample. ValueError if the times do not rise.
    """
    if any(last.at <= first.at for first, last in pairwise(samples)):
        raise ValueError("the times of a series must rise")
    found = [one for one in lives(samples) if len([sample for sample in one if not sample.gone]) > 1]
    return tuple(_analysed(one, setup, ended=ended and one is found[-1]) for one in found)


def _analysed(samples: Sequence[Sample], setup: Setup, *, ended: bool) -> Analysis:
    between = spans(samples, setup)
    if len(between) > 1 and samples[-1].gone and between[-1].passes * between[-1].sleep > _SPARE * between[-1].seconds:
        # A task that is being killed no longer sleeps.
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
    """The sleep from a usage, or from memory.high if that is more, to memory.max."""
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
        return Ending.UNKNOWN, "memory.max is not set: the series does not show what ends the container"
    if is_gone:
        return (Ending.KILLED, _KILLED_UNSEEN) if near else (Ending.OTHERWISE, _ENDED_FAR)
    if parts[-1].course is Course.THRASHES:
        return Ending.THRASHES, "usage was constant up to the last sample, and the kernel does not kill for that"
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
    """Whether the container could reach memory.max between its last sample and the missing next one."""
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


_HEAD = ("", "from s", "to s", "over", "passes", "s/pass", "model", "ratio", "pages/pass", "majfault/s", "verdict")


def analysis_document(found: Sequence[Analysis], notes: Sequence[str] = ()) -> dict[str, Any]:
    """As JSON: memqos_format (1), notes, and runs, one for each cgroup in the series.

    Times are seconds, rounded to milliseconds; amounts bytes; null means unknown or not applicable.
    """
    return {"memqos_format": 1, "notes": list(notes), "runs": [_run(one) for one in found]}


def _run(one: Analysis) -> dict[str, Any]:
    end = one.end
    return {
        "setup": _setup(one.setup),
        "samples": len(one.samples),
        "verdict": end.ending.value,
        "why": end.why,
        "end": {
            "at": round(end.at, 3),
            "usage": end.usage,
            "left": end.left,
            "leastMilliseconds": None if end.way is None else int(end.way.least * 1000),
            "mostMilliseconds": None if end.way is None else int(end.way.most * 1000),
            "likelyMilliseconds": None if end.likely is None else int(end.likely * 1000),
        },
        "secondsAboveHigh": round(one.above, 3),
        "leastMilliseconds": None if one.way is None else int(one.way.least * 1000),
        "mostMilliseconds": None if one.way is None else int(one.way.most * 1000),
        "watchedLongEnough": not one.is_too_short,
        "segments": [_segment(part) for part in one.segments],
    }


def _setup(setup: Setup) -> dict[str, Any]:
    return {
        "high": None if setup.high is None else setup.high.count,
        "max": None if setup.limit is None else setup.limit.count,
        "levels": setup.levels,
        "hz": setup.hz,
        "pageSize": setup.page_size,
    }


def _segment(part: Segment) -> dict[str, Any]:
    return {
        "verdict": part.course.value,
        "from": round(part.start, 3),
        "to": round(part.end, 3),
        "firstUsage": part.first,
        "lastUsage": part.last,
        "over": round(part.over, 6),
        "passes": round(part.passes, 2),
        "secondsAPass": _rounded(part.seconds_a_pass),
        "modelSecondsAPass": _rounded(part.model),
        "ratio": _rounded(part.ratio),
        "pagesAPass": _rounded(part.kept),
        "majfaultsASecond": _rounded(part.majfaults),
        "why": part.why,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def analysis_text(found: Sequence[Analysis], notes: Sequence[str] = ()) -> str:
    """As text: the setup, a table of stretches with their grounds, the end, and the time observed."""
    if not found:
        return "Fewer than two samples of a container: no verdict."
    parts = [*(f"note: {one}" for one in notes)]
    for number, one in enumerate(found, 1):
        title = f"cgroup {number} of {len(found)}: " if len(found) > 1 else ""
        parts += ["", *_told(one, title)] if parts else _told(one, title)
    return "\n".join(parts)


def _told(one: Analysis, title: str) -> Iterator[str]:
    setup = one.setup
    high = "max" if setup.high is None else setup.high.count
    limit = "max" if setup.limit is None else setup.limit.count
    levels = "1 level" if setup.levels == 1 else f"{setup.levels} levels"
    yield (
        f"{title}{len(one.samples)} samples; memory.high {high}, memory.max {limit}; "
        f"{levels}, HZ {setup.hz}, pages of {setup.page_size} bytes"
    )
    yield ""
    rows = [_HEAD, *(_row(number, part) for number, part in enumerate(one.segments, 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *cells, verdict = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{'  '.join(cells)}  {verdict.strip()}"
    reasons = [
        f"{number}: {part.why}" for number, part in enumerate(one.segments, 1) if part.course is not Course.BELOW
    ]
    yield from ["", *reasons] if reasons else []
    yield ""
    yield from _ended(one)


def _high(one: Analysis) -> int:
    return 0 if one.setup.high is None else one.setup.high.count


def _row(number: int, part: Segment) -> tuple[str, ...]:
    return (
        str(number),
        f"{part.start:.1f}",
        f"{part.end:.1f}",
        f"{100 * part.over:.2f} %" if part.over else "-",
        f"{part.passes:.0f}" if part.passes else "-",
        _shown(part.seconds_a_pass, 4),
        _shown(part.model, 4),
        _shown(part.ratio, 2),
        _shown(part.kept, 2),
        _shown(part.majfaults, 1),
        part.course.value,
    )


def _shown(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _ended(one: Analysis) -> Iterator[str]:
    end = one.end
    yield f"{end.ending.value}: {end.why}."
    if end.left is not None and end.way is not None:
        left = f"  At {end.at:.1f} s it used {end.usage} bytes, {end.left} below memory.max"
        yield (
            f"{left}: {_slept_text(end.way)}{_likely_text(end)}."
            if end.way.least
            else f"{left}: no sleep is left up to there."
        )
    if one.way is None or not one.above:
        return
    begin = one.samples[0].usage
    start = "memory.high" if _high(one) >= begin else f"{begin} bytes"
    watched = f"it was observed above memory.high for {one.above:.1f} s"
    yield f"  From {start} to memory.max it is {_slept_text(one.way)}; {watched}."
    if one.is_too_short:
        yield "  No kill at memory.max can be seen within that time: none was seen, and one may still come."
    elif end.ending is Ending.OTHERWISE and one.above < one.way.most:
        yield "  That is less than the longest way takes: none was seen, and one may still come."


def _slept_text(way: Way) -> str:
    return f"{duration(way.least)} to {duration(way.most)} of sleep"


def _likely_text(end: End) -> str:
    return "" if end.likely is None else f"; {duration(end.likely)} at the pages a pass of its last stretch"
