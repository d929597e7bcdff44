"""How far a program may have come above memory.high, by the kernel's own model, seen in its samples. Pure.

A second program in a container, as by exec: how long it sleeps for its memory, seen and by the model. Pure.

How long a container's programs waited above memory.high, and the findings that can be made of it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise
from math import comb

from memqos.engine.answer.finding import Finding, subject_of
from memqos.engine.cgroup.throttle import CHARGE_BATCH, Over, delay, fastest_growth, least_wait, sleeps_from
from memqos.engine.cgroup.throttle_series import EVENTS_A_PASS
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.conditions import Sample, stat_of
from memqos.node.behaviour.oom import OomJudged
from memqos.workload.command import Anon
from memqos.workload.report import Done, ReportLine, StepLine

__all__ = ["ENTRY", "Entering", "Throttled", "furthest", "looks_at", "patience", "unseen"]

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
    return tuple(
        dropwhile(lambda sample: (sample.number("memory.current") or 0) < _above(high, sample.page_size), samples)
    )


def looks_at(samples: Sequence[Sample], *, pod: bool = False) -> list[Used]:
    """What the container used, or its pod, in each sample that tells."""
    seen = [
        (one.reading.at, one.pod_number("memory.current") if pod else one.number("memory.current")) for one in samples
    ]
    return [(at, usage) for at, usage in seen if usage is not None]


def furthest(looks: Sequence[Used], high: int, *, page_size: int, threads: int = 1) -> Stretch | None:
    """The stretch at whose end the program came furthest, measured by what it may have; None if there is none.

    page_size: bytes of a page of the machine. threads: how many tasks grow.
    """
    above = _above(high, page_size)
    seen = list(dropwhile(lambda look: look[1] < above, looks))
    stretches = [_stretch(seen[0], later, high, threads, page_size) for later in seen[1:]]
    return max(stretches, key=lambda one: one.usage - one.allowed, default=None)


@functools.cache
def _above(high: int, page_size: int) -> int:
    return min(sleeps_from(Bytes(high), hz=hz, page_size=page_size) for hz in HERTZ)


def _stretch(first: Used, last: Used, high: int, threads: int, page_size: int) -> Stretch:
    seconds = last[0] - first[0]
    allowed = _allowed(first[1], high, max(1, math.ceil(seconds)), threads, page_size)
    return Stretch(start=first[1], usage=last[1], allowed=allowed, seconds=seconds)


@functools.cache
def _allowed(start: int, high: int, seconds: int, threads: int, page_size: int) -> int:
    """There are far more samples than seconds."""
    return max(
        fastest_growth(start, Bytes(high), seconds=seconds, hz=hz, threads=threads, page_size=page_size).usage
        for hz in HERTZ
    )


ENTRY = Anon(size=4 << 20, within=5)
"""What a program takes that is started in a container to look around, as a shell is, or what it has by then.

With pages of 4 KiB these are 16 batches of charges, so that it has to pay for some itself, whatever another program
leaves it (`least_wait`); with pages of 64 KiB it is one, of which it pays for the last page. At the cap each of them
may cost 2 s, which need not be waited for to the end.
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


def modelled_sleep(high: int, entry: Entering, *, page_size: int) -> float:
    """Seconds that it sleeps at least, whatever the kernel's ticks, and as far as it is waited for."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(_SLEPT, *(float(least_wait(over, ENTRY.size, hz=hz, page_size=page_size)) for hz in HERTZ))


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


THREAD_US = 1_000_000
"""What one thread waits that sleeps for its charges, in µs: half of the longest sleep, and more than a CPU is busy."""


def waits_of(report: tuple[ReportLine, ...]) -> dict[int, float]:
    """How long each of a program's threads waited at least, in µs, by its number: its longest wait of each step."""
    waits: dict[int, float] = {}
    for line in report:
        if isinstance(line, StepLine) and line.thread:
            waits[line.thread] = waits.get(line.thread, 0.0) + line.max_us
    return waits


STILL = 4
"""Pages by which anonymous memory may change and still count as constant, for STILL_FAULTS major faults."""

STILL_FAULTS = 15
"""So many major faults are no accident: a program that starts has a few, and one that has its text has none."""

LEAST_VALUES = 40

CHANCE = 0.001
"""The largest chance at which values that leave one remainder so often are no coincidence."""

OTHER_STEPS = tuple(number for number in range(2, 41) if number % EVENTS_A_PASS)


@dataclass(frozen=True, kw_only=True)
class Throttled(OomJudged):
    """What memory.current and memory.pressure tell of a container above memory.high."""

    def waits(self) -> Finding:
        """For most of the time since its growth costs sleep, tasks of its pod waited for memory."""
        high = self.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self._unbounded("memory.pressure", Knob.MEMORY_HIGH, key="some total")
        looks = [(one.reading.at, stalled) for one in slowed(self.samples, high)
                 if (stalled := one.counter("memory.pressure", "some total")) is not None]  # fmt: skip
        seconds = looks[-1][0] - looks[0][0] if looks else 0.0
        why = "" if seconds else "no two samples show it above memory.high by so much that it sleeps"
        waited = (looks[-1][1] - looks[0][1]) / 1e6 if looks else 0.0
        expected = f"more than half of {seconds:.1f} s above memory.high"
        return self._finding(
            "memory.pressure", expected, f"{waited:.1f} s", waited > seconds / 2, key="some total", why_not=why
        )

    def grows_as_delayed(self) -> Finding:
        """Above memory.high it never grew faster than the sleeps of its threads allow; not observable of one sample."""
        return self._delayed(looks_at(self.samples), self.samples[0].bound(Knob.MEMORY_HIGH), threads=self.threads)

    def each_thread_waits(self) -> Finding:
        """Each of the program's threads waited for a second in all, by its own clock; not observable of one thread."""
        waits = waits_of(self.samples[-1].report)
        waited = [waits.get(number, 0.0) / 1e6 for number in range(1, self.threads + 1)]
        why = "" if self.threads > 1 else "the program has one thread"
        expected = f"at least {THREAD_US / 1e6:.1f} s for each of {self.threads} threads"
        shown = ", ".join(f"{seconds:.1f} s" for seconds in waited)
        holds = min(waited) * 1e6 >= THREAD_US
        return self._finding("memory.pressure", expected, shown, holds, key="threads", why_not=why)

    def thrashes_its_text(self) -> Finding:
        """Anonymous memory stood still at the last, above memory.high, while pgmajfault went on.

        Measured by memory.stat, from the first sample on from which anon moved by no more than STILL.
        """
        rows = [(stat_of(one, "anon"), stat_of(one, "pgmajfault")) for one in self.samples]
        looks = [(anon, faulted) for anon, faulted in rows if anon is not None and faulted is not None]
        still: list[tuple[int, int]] = []
        for look in reversed(looks):
            if still and abs(look[0] - still[0][0]) > STILL * self.samples[0].page_size:
                break
            still.append(look)
        expected = f"anon constant while pgmajfault grows by at least {STILL_FAULTS}"
        if not still:
            return self._finding("memory.stat", expected, None, holds=False, key="pgmajfault")
        grown = still[0][1] - still[-1][1]
        low, high = min(anon for anon, _ in still), max(anon for anon, _ in still)
        observed = f"anon from {low} to {high} while pgmajfault grew by {grown}"
        return self._finding("memory.stat", expected, observed, grown >= STILL_FAULTS, key="pgmajfault")

    def counts_passes(self) -> Finding:
        """`high` rests at values that are whole multiples of 17 apart, whatever it was when it began.

        It goes up once for each try to reclaim, and a task sleeps after 17 of them. Looks come at any moment, so they
        see values within a pass too, and what was reclaimed once moves all that come after. So more of the values must
        leave one remainder by 17 than chance makes. It deviates where they do so by another number alone, and is not
        observable where they do by none, and of fewer than 40 values.
        """
        counts = [count for one in self.samples if (count := one.counter("memory.events", "high"))]
        values = [count for before, count in pairwise([0, *counts]) if count != before]
        by_17 = _by_chance(values, EVENTS_A_PASS)
        others = [number for number in OTHER_STEPS if _by_chance(values, number) <= CHANCE / len(OTHER_STEPS)]
        holds = by_17 <= CHANCE
        why = "" if holds or others else "the looks came within passes: the values leave no remainder more often"
        if len(values) < LEAST_VALUES:
            why = f"only {len(values)} of {LEAST_VALUES} values of high were seen"
        steps = EVENTS_A_PASS if holds else max(others, default=0)
        observed = f"multiples of {steps} apart, of {len(values)} values"
        return self._finding(
            "memory.events", f"multiples of {EVENTS_A_PASS} apart", observed, holds, key="passes", why_not=why
        )

    def is_entered_slowly(self, entry: Entering, *, undisturbed: Entering) -> Finding:
        """A second program slept at least as long as the model says, and a container below memory.high kept none so.

        Not observable where that one slept as long, either did not come to its end, the model has it sleep for nothing,
        something was killed, or the kernel does not tell how long a program waited for a CPU.
        """
        high = self.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self._unbounded("memory.pressure", Knob.MEMORY_HIGH, key="entry")
        least = modelled_sleep(high, entry, page_size=self.samples[0].page_size)
        why = unseen(entry, undisturbed, least) if least else f"nothing sleeps at {entry.usage} of {high} bytes"
        if self.anything_killed():
            why = "something was killed in its pod meanwhile: the runtime's own program is charged there, too"
        observed = f"{entry}, beside one that {undisturbed} undisturbed"
        expected = f"at least {least:.3f} s asleep for {ENTRY.size} bytes"
        holds = (entry.slept or 0.0) >= least
        return self._finding("memory.pressure", expected, observed, holds, key="entry", why_not=why)

    def pod_grows_as_delayed(self) -> Finding:
        """The same of its pod and the pod's own memory.high, below which the programs of all its containers sleep."""
        pod = self.rests_on.pod
        expected = pod.cgroup.knobs.get(Knob.MEMORY_HIGH)
        high = expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None
        found = self._delayed(looks_at(self.samples, pod=True), high, threads=len(pod.containers))
        return replace(found, subject=subject_of(pod.cgroup, pod), cgroup=str(self.samples[-1].pod))

    def _delayed(self, looks: Sequence[Used], high: int | None, *, threads: int) -> Finding:
        if high is None:
            return self._unbounded("memory.current", Knob.MEMORY_HIGH)
        far = furthest(looks, high, threads=threads, page_size=self.samples[0].page_size)
        if far is None:
            why = f"fewer than two samples show it above memory.high {high} by so much that it sleeps"
            return self._finding("memory.current", "no faster than the sleeps allow", None, holds=False, why_not=why)
        expected = f"at most {far.allowed}, {far.seconds:.1f} s after {far.start}"
        return self._finding("memory.current", expected, far.usage, far.usage <= far.allowed)


def _by_chance(values: Sequence[int], number: int) -> float:
    """The chance that so many of these values leave the same remainder by this number, or more."""
    most = max(Counter(value % number for value in values).values(), default=0)
    part, count = 1 / number, len(values)
    tail = sum(comb(count, one) * part**one * (1 - part) ** (count - one) for one in range(most, count + 1))
    return min(1.0, number * tail)
