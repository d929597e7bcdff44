"""A series of samples of a container above its memory.high, and its stretches: it slept, thrashed, or neither.

`high` of memory.events counts 17 for each pass that reclaims nothing (the first try and 16 retries), once for each
cgroup over its memory.high from the task's own upwards: mm/memcontrol.c, `mem_cgroup_handle_over_high`
(MAX_RECLAIM_RETRIES), `reclaim_high`. A pass that reclaims something does not use up a retry, so steps need not be
multiples of 17, and passes are an estimate.

Sleeping and thrashing both count `high` and both last long. They differ in growth: a sleeping task keeps 64 to 1 pages
of each pass, a thrashing task none. So a stretch thrashes if memory does not grow over so many passes that one page
kept in four of them would show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise

from memqos.engine.cgroup.throttle import CHARGE_BATCH, DEFAULT_HZ, Over, delay, sleeps_from
from memqos.model.knob import Bytes

__all__ = ["EVENTS_A_PASS", "Course", "Sample", "Segment", "Setup", "levels_of", "lives", "segments", "spans"]

EVENTS_A_PASS = 17
"""The rise of `high` in a pass that reclaims nothing, for each cgroup over its memory.high."""

_MOST_LEVELS = 4
_LEAST_STEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment. at: seconds, rising within a series. usage: memory.current in bytes.

    high_events, max_events, oom_kills: counters of memory.events. anon, file: bytes of memory.stat; majfaults: its
    pgmajfault. None: missing in the series or at this moment. gone: the container's cgroup was no longer readable;
    amounts and counters are then meaningless.
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
    """The conditions of the series.

    high, limit: memory.high and memory.max; None for max. levels: how many nested cgroups were over memory.high, from
    1; two for crun below CRI-O. hz: jiffies in a second. page_size: bytes. resolution: the least difference of amounts
    in the series in bytes, such as 1 MiB for whole MiB.
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
        """Seconds that the kernel has a task sleep for one batch at this usage; zero up to the floor."""
        if self.high is None:
            return 0.0
        return delay([Over(usage=usage, high=self.high)], hz=self.hz, page_size=self.page_size) / self.hz

    def over(self, usage: int) -> float:
        """The overage of a usage as a fraction of memory.high; zero below it or without one."""
        if self.high is None or usage <= self.high.count:
            return 0.0
        return (usage - self.high.count) / max(self.high.count, self.page_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time between two samples. passes: their number. sleep: seconds of sleep in each, by the model."""

    first: Sample
    last: Sample
    passes: float
    sleep: float

    @property
    def seconds(self) -> float:
        """Its length; above zero."""
        return self.last.at - self.first.at

    @property
    def grown(self) -> int:
        """The growth of memory.current in bytes."""
        return self.last.usage - self.first.usage


def lives(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples by cgroup: a new cgroup begins where `high` falls, or after the last one was gone.

    A cgroup's samples end with the first one at which it was gone.
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
    """The spans between the samples of one cgroup, without the last one if the cgroup was gone by then."""
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
    """The number of levels that the steps of `high` fit, 1 to 4; None if too few steps are multiples of 17.

    A step of 34 may be one pass of two levels or two passes of one: among the divisors of the steps, the one whose
    passes take about the time of the model.
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
    # Passes of one level would have slept for `slept` seconds; with several levels there were fewer passes.
    return min(fitting, key=lambda levels: _unlike(took * levels / slept))


def _fitting(steps: Sequence[int]) -> Iterator[int]:
    """The numbers of levels for which nearly all of these steps are whole passes; always with 1."""
    for levels in range(1, _MOST_LEVELS + 1):
        if 20 * sum(step % (EVENTS_A_PASS * levels) != 0 for step in steps) <= len(steps):
            yield levels


def _unlike(ratio: float) -> float:
    """The factor between a measured and a modelled time, at least 1."""
    return max(ratio, 1 / ratio)


_ANON_PAGES = 16
"""Pages by which anonymous memory may vary without growth: a program's stack and its allocator."""

_LEAST_SECONDS = 5.0
_IDLE_SECONDS = 10.0
_FEWEST_PASSES = 5
_TOO_FAST = 0.8
_ALSO_WAITS = 1.5
_FAULTS_A_SECOND = 1.0


class Course(StrEnum):
    """What a container did during a stretch.

    BELOW: not above memory.high, or without one. IDLE: above it without charges. RECLAIMS: the excess was reclaimed, or
    is too small for a sleep. SLEEPS, THRASHES: see the module's docstring. UNKNOWN: not observable.
    """

    BELOW = "below memory.high"
    IDLE = "idle"
    RECLAIMS = "reclaims"
    SLEEPS = "sleeps"
    THRASHES = "thrashes"
    UNKNOWN = "not observable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of one course. start, end: seconds; first, last: memory.current there, in bytes.

    over: the mean overage of its passes as a fraction of memory.high. passes: their number. kept: pages by which
    memory.current grew in each; seconds_a_pass: measured seconds of each; model: seconds of sleep in each by the model;
    ratio: measured over model. Each of these is None with fewer than five passes or without a due sleep. majfaults:
    pgmajfault a second; None if the series lacks it. why: the grounds of the verdict.
    """

    course: Course
    start: float
    end: float
    first: int
    last: int
    over: float
    passes: float
    kept: float | None
    seconds_a_pass: float | None
    model: float | None
    ratio: float | None
    majfaults: float | None
    why: str

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.end - self.start


def segments(between: Sequence[Span], setup: Setup) -> list[Segment]:
    """The stretches of one cgroup, in order and without gaps.

    A stretch of sleep ends where the modelled sleep of a pass has doubled or halved.
    """
    flat = _flat(between, setup)
    found: list[tuple[Course, list[Span]]] = []
    at = 0
    for first, last in [*flat, (len(between), len(between))]:
        found += _other(between[at:first], setup)
        if first < last:
            found.append((Course.THRASHES, list(between[first:last])))
        at = last
    return [_segment(course, part, setup) for course, part in found]


# ---- no growth


def _flat(between: Sequence[Span], setup: Setup) -> list[tuple[int, int]]:
    """The stretches without growth while passes continue, each a range of spans.

    By anonymous memory if every sample has it, else by memory.current.
    """
    if setup.high is None or not between:
        return []
    samples = [between[0].first, *(one.last for one in between)]
    anon = [one.anon for one in samples if one.anon is not None]
    known = len(anon) == len(samples)
    amounts = anon if known else [one.usage for one in samples]
    band = _ANON_PAGES * setup.page_size if known else _usage_band(setup, setup.high.count)
    fewest = 4 * band // setup.page_size
    passes = [0.0]
    for one in between:
        passes.append(passes[-1] + one.passes)
    found: list[tuple[int, int]] = []
    for first, last in _windows(amounts, band):
        if passes[last] - passes[first] < fewest or samples[last].at - samples[first].at < _LEAST_SECONDS:
            continue
        goes_on = bool(found) and found[-1][1] == first
        found.append((found.pop()[0] if goes_on else first, last))
    return found


def _usage_band(setup: Setup, high: int) -> int:
    """Bytes by which memory.current may vary without growth.

    They allow for batches charged ahead on several CPUs, for program text that is reclaimed and read again, and for the
    series' resolution.
    """
    coarse = 2 * setup.resolution if setup.resolution > 1 else 0
    return 4 * CHARGE_BATCH * setup.page_size + coarse + high // 4096


def _windows(amounts: Sequence[int], band: int) -> Iterator[tuple[int, int]]:
    """The longest non-overlapping stretches of samples whose amounts are within a band, first to last."""
    low: deque[int] = deque()
    high: deque[int] = deque()
    first = 0
    for at, amount in enumerate(amounts):
        while low and amounts[low[-1]] >= amount:
            low.pop()
        while high and amounts[high[-1]] <= amount:
            high.pop()
        low.append(at)
        high.append(at)
        if amounts[high[0]] - amounts[low[0]] > band:
            if at - 1 > first:
                yield first, at - 1
            first = at - 1
            low, high = _from(amounts, first, at)
            if amounts[high[0]] - amounts[low[0]] > band:
                first = at
                low, high = deque([at]), deque([at])
    if len(amounts) - 1 > first:
        yield first, len(amounts) - 1


def _from(amounts: Sequence[int], first: int, at: int) -> tuple[deque[int], deque[int]]:
    """The indices of the least and the largest amount, from which the window continues."""
    if amounts[first] >= amounts[at]:
        return deque([at]), deque([first, at])
    return deque([first, at]), deque([at])


# ---- everything else


def _other(between: Sequence[Span], setup: Setup) -> list[tuple[Course, list[Span]]]:
    """Stretches with growth: by course, and sleep by the modelled sleep of a pass."""
    labelled = _idle_marked([(*_label(one, setup), one) for one in between])
    found: list[tuple[Course, int, list[Span]]] = []
    for (course, octave), group in groupby(labelled, key=lambda one: one[:2]):
        part = [one for *_, one in group]
        if found and _is_one(found[-1][0], found[-1][2], course, part):
            found[-1] = (found[-1][0], octave, [*found[-1][2], *part])
        else:
            found.append((course, octave, part))
    return [(course, part) for course, _, part in found]


def _is_one(before: Course, first: Sequence[Span], after: Course, then: Sequence[Span]) -> bool:
    """Whether two adjacent stretches are too short to separate, as when usage goes up and down."""
    if {before, after} - {Course.SLEEPS, Course.RECLAIMS}:
        return False
    if before is after:
        return _few(first) or _few(then)
    return _few(then) and sum(one.seconds for one in then) < _LEAST_SECONDS


def _few(part: Sequence[Span]) -> bool:
    return sum(one.passes for one in part) < _FEWEST_PASSES


def _label(one: Span, setup: Setup) -> tuple[Course, int]:
    if setup.high is None or (one.passes <= 0 and min(one.first.usage, one.last.usage) <= setup.high.count):
        return Course.BELOW, 0
    if not one.sleep or one.grown > CHARGE_BATCH * setup.page_size * max(one.passes, 0) + setup.resolution:
        # Growth beyond the batches of its passes means that usage was below the floor for part of the time.
        return Course.RECLAIMS, 0
    return Course.SLEEPS, (int(one.sleep * 100)).bit_length()


def _idle_marked(labelled: Sequence[tuple[Course, int, Span]]) -> list[tuple[Course, int, Span]]:
    """Marks as idle the stretches above memory.high without a charge for longer than any sleep."""
    found: list[tuple[Course, int, Span]] = []
    for quiet, group in groupby(labelled, key=lambda one: one[0] is not Course.BELOW and one[2].passes <= 0):
        part = list(group)
        if quiet and sum(one.seconds for *_, one in part) > _IDLE_SECONDS:
            part = [(Course.IDLE, 0, one) for *_, one in part]
        found += part
    return found


def _segment(course: Course, part: Sequence[Span], setup: Setup) -> Segment:
    first, last = part[0].first, part[-1].last
    passes = sum(one.passes for one in part)
    seconds = last.at - first.at
    many = passes >= _FEWEST_PASSES
    slept = sum(one.passes * one.sleep for one in part)
    over = (
        sum(one.passes * (setup.over(one.first.usage) + setup.over(one.last.usage)) / 2 for one in part) / passes
        if passes > 0
        else setup.over((first.usage + last.usage) // 2)
    )
    faults = (
        None
        if first.majfaults is None or last.majfaults is None
        else max(0, last.majfaults - first.majfaults) / seconds
    )
    ratio = seconds / slept if many and slept else None
    judged, why = _judged(course, part, setup, ratio=ratio, faults=faults)
    return Segment(
        course=judged,
        start=first.at,
        end=last.at,
        first=first.usage,
        last=last.usage,
        over=over,
        passes=passes,
        kept=(last.usage - first.usage) / setup.page_size / passes if many else None,
        seconds_a_pass=seconds / passes if many else None,
        model=slept / passes if many and slept else None,
        ratio=ratio,
        majfaults=faults,
        why=why,
    )


def _judged(
    course: Course, part: Sequence[Span], setup: Setup, *, ratio: float | None, faults: float | None
) -> tuple[Course, str]:
    """The course and its grounds."""
    match course:
        case Course.BELOW:
            return course, "memory.high is not exceeded"
        case Course.IDLE:
            return course, "above memory.high without a pass: nothing is charged, so nothing sleeps"
        case Course.RECLAIMS:
            return course, "the excess over memory.high is too small for a sleep, or is reclaimed"
        case Course.THRASHES:
            return _still(part, setup, faults)
        case _:
            return _asleep(ratio)


def _asleep(ratio: float | None) -> tuple[Course, str]:
    if ratio is None:
        return Course.SLEEPS, f"fewer than {_FEWEST_PASSES} passes: too few to compare with the model"
    if ratio < _TOO_FAST:
        return Course.UNKNOWN, (
            f"a pass takes {ratio:.2f} of the sleep that the model gives one task: several tasks sleep in parallel, "
            "or memory.high, the levels or HZ differ from the series"
        )
    if ratio > _ALSO_WAITS:
        return Course.SLEEPS, f"each pass takes {ratio:.2f} of its sleep: the program also works or waits"
    return Course.SLEEPS, f"each pass takes {ratio:.2f} of the sleep that the kernel imposes"


def _still(part: Sequence[Span], setup: Setup, faults: float | None) -> tuple[Course, str]:
    """No growth while passes continue: text thrashes, page cache is reclaimed, or the series cannot show which."""
    samples = [part[0].first, *(one.last for one in part)]
    floor = setup.floor or 0
    mean = sum(one.usage for one in samples) / len(samples)
    if mean < floor:
        return Course.RECLAIMS, "usage is constant above memory.high where no sleep is due: page cache is reclaimed"
    if faults is None:
        return Course.THRASHES, (
            "an interpretation: usage is constant while passes continue; the series has no pgmajfault to confirm it"
        )
    if faults < _FAULTS_A_SECOND:
        return (
            Course.UNKNOWN,
            "usage is constant while passes continue, and pgmajfault does not grow: program text is not read again",
        )
    anon = [one.anon for one in samples if one.anon is not None]
    if len(anon) == len(samples):
        moved = max(anon) - min(anon)
        stands = "to the byte" if not moved else f"within {moved} bytes"
        return Course.THRASHES, f"anon is constant {stands} while pgmajfault grows by {faults:.1f} a second"
    return Course.THRASHES, f"usage is constant while pgmajfault grows by {faults:.1f} a second"
