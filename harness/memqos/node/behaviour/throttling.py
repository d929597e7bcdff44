"""Findings about a container above memory.high: how fast it grows, how long its tasks sleep. Pure.

Also a second program in the container (exec): how long it slept for its charges, against the kernel's model.
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
from memqos.node.behaviour.conditions import SMALL_PAGE, Sample, stat_of, waits_of
from memqos.node.behaviour.oom import OomKills
from memqos.node.behaviour.preconditions import Observed
from memqos.workload.command import Anon
from memqos.workload.report import Done

__all__ = ["ENTRY", "SecondProgram", "Throttling", "furthest", "looks_at", "patience", "unseen"]

Used = tuple[float, int]
"""Seconds of the machine's clock, and memory.current in bytes then."""

HERTZ = (100, 250, 300, 1000)
"""CONFIG_HZ values that a kernel can be built with; the choice changes a sleep by up to one tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From the first sample in which the program is throttled to a later one.

    start, usage: memory.current in bytes at the begin and the end. allowed: the most that the model allows at the end.
    seconds: its length.
    """

    start: int
    usage: int
    allowed: int
    seconds: float


def slowed(samples: Sequence[Sample], high: int) -> Sequence[Sample]:
    """The samples from the first one in which the container's growth is throttled."""
    return tuple(
        dropwhile(lambda sample: (sample.number("memory.current") or 0) < _above(high, sample.page_size), samples)
    )


def lived(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples up to the first one in which none of its processes is left, which is included."""
    ends = (at for at, one in enumerate(samples, start=1) if _is_past(one))
    return samples[: next(ends, len(samples))]


def _is_past(sample: Sample) -> bool:
    # By its cgroup alone: the runtime's status may be from later, if the first answer took long.
    return sample.number("memory.current") is None or "populated 0" in (sample.text("cgroup.events") or "")


def looks_at(samples: Sequence[Sample], *, pod: bool = False) -> list[Used]:
    """memory.current of the container, or of its pod, in each sample that has it."""
    seen = [
        (one.reading.at, one.pod_number("memory.current") if pod else one.number("memory.current")) for one in samples
    ]
    return [(at, usage) for at, usage in seen if usage is not None]


def furthest(looks: Sequence[Used], high: int, *, page_size: int, threads: int = 1) -> Stretch | None:
    """The stretch at whose end usage was most above what the model allows; None without two throttled samples.

    page_size: the machine's page size in bytes. threads: how many tasks allocate.
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
    """Cached by whole seconds: there are far more samples than seconds."""
    return max(
        fastest_growth(start, Bytes(high), seconds=seconds, hz=hz, threads=threads, page_size=page_size).usage
        for hz in HERTZ
    )


ENTRY = Anon(size=4 << 20, within=5)
"""What a second program, such as a debugging shell, allocates; it reports what it has after 5 seconds.

With 4 KiB pages these are 16 batches of charges, so it pays for some itself, whatever another program leaves it
(`least_wait`); with 64 KiB pages it is one batch, and it pays for the last page. At the cap each batch may cost 2 s;
the time limit cuts that short.
"""

_SLEPT = 2.5
"""Seconds, half of ENTRY's time limit: the least sleep expected where the model's sleep exceeds that limit."""

_START_SECONDS = 30.0
"""The longest that a runtime takes to start an unthrottled program under emulation on a busy host."""
_RUNTIME = 4 << 20
"""Bytes that the runtime's own process is charged in the container before it execs the second program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondProgram:
    """A second program in a container, which allocates ENTRY.

    usage: bytes in use in the container when it was started. said: its final report; None if it sent none, as when it
    is killed. waited: seconds until the wait for it was given up, 0 if it ended.
    """

    usage: int
    said: Done | None
    waited: float = 0.0

    @property
    def slept(self) -> float | None:
        """Seconds that it neither ran nor waited for a CPU; None if unknown."""
        return None if self.said is None or self.said.slept_ms is None else self.said.slept_ms / 1000

    def __str__(self) -> str:
        """Its sleep, its run time and the bytes it allocated."""
        if self.said is None and self.waited:
            return f"did not finish within {self.waited:.0f} s (the runtime's own program is slowed too)"
        if self.said is None:
            return "did not finish"
        slept = "?" if self.slept is None else f"{self.slept:.3f} s"
        return f"slept {slept} of {self.said.ms / 1000:.3f} s for {self.said.bytes} bytes"


def modelled_sleep(high: int, entry: SecondProgram, *, page_size: int) -> float:
    """The least sleep in seconds, for any CONFIG_HZ, up to the time limit of ENTRY."""
    over = Over(usage=entry.usage, high=Bytes(high))
    return min(_SLEPT, *(float(least_wait(over, ENTRY.size, hz=hz, page_size=page_size)) for hz in HERTZ))


def patience(high: int | None, usage: int, *, page_size: int) -> float:
    """Seconds to wait for a program that allocates ENTRY. high: the container's memory.high, None without one.

    The sum of its start, its own time limit, a last sleep, and the modelled sleep of the runtime's own process.
    """
    asleep = 0.0
    if high is not None:
        # Sleeps grow with usage, so this takes the usage at the end.
        over = [Over(usage=usage + _RUNTIME + ENTRY.size, high=Bytes(high))]
        batches = -(-_RUNTIME // (CHARGE_BATCH * page_size)) + 1
        asleep = max(batches * delay(over, hz=hz, page_size=page_size) / hz for hz in HERTZ)
    return _START_SECONDS + (ENTRY.within or 0) + asleep


def unseen(entry: SecondProgram, undisturbed: SecondProgram, least: float) -> str:
    """Why its sleep of `least` seconds for its charges is not observable; "" if it is.

    undisturbed: the same program in a container below memory.high.
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
"""µs that a throttled thread waits at least: half of the longest sleep, and more than a busy CPU accounts for."""

STILL = 4
"""Pages by which anonymous memory may change and still count as constant, for STILL_FAULTS major faults."""

STILL_FAULTS = 15
"""The least number of major faults that count as thrashing: a starting program has a few, a resident one none."""

REREAD = "workingset_refault_file"
"""The row of memory.stat that counts pages of files read again soon after they were reclaimed."""

LEAST_VALUES = 40

CHANCE = 0.001
"""The significance level: values share a remainder by coincidence with at most this probability."""

OTHER_STEPS = tuple(number for number in range(2, 41) if number % EVENTS_A_PASS)


@dataclass(frozen=True)
class Throttling:
    """Findings from memory.current, memory.pressure and memory.stat of a container above memory.high."""

    observed: Observed

    def waits(self) -> Finding:
        """Tasks of its pod waited for memory for more than half of the time that it ran and was throttled."""
        high = self.observed.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self.observed.unbounded("memory.pressure", Knob.MEMORY_HIGH, key="some total")
        looks = [(one.reading.at, stalled) for one in lived(slowed(self.observed.samples, high))
                 if (stalled := one.counter("memory.pressure", "some total")) is not None]  # fmt: skip
        seconds = looks[-1][0] - looks[0][0] if looks else 0.0
        why = "" if seconds else "no two samples show it far enough above memory.high to be throttled"
        waited = (looks[-1][1] - looks[0][1]) / 1e6 if looks else 0.0
        expected = f"more than half of {seconds:.1f} s above memory.high"
        return self.observed.finding(
            "memory.pressure", expected, f"{waited:.1f} s", waited > seconds / 2, key="some total", why_not=why
        )

    def grows_as_delayed(self) -> Finding:
        """Above memory.high it never grew faster than its threads' sleeps allow; not observable from one sample."""
        return self._delayed(
            looks_at(self.observed.samples),
            self.observed.samples[0].bound(Knob.MEMORY_HIGH),
            threads=self.observed.threads,
        )

    def reaches_limit(self) -> str:
        """Why the sleeps above memory.high may end in memory.max by the last sample; "" if they may not.

        A sleep of at most 2 s pays for a batch of 64 pages, which are 4 MiB where a page has 64 KiB.
        """
        first = self.observed.samples[0]
        high, limit = first.bound(Knob.MEMORY_HIGH), first.bound(Knob.MEMORY_MAX)
        above = slowed(self.observed.samples, high) if high is not None else ()
        if high is None or limit is None or high >= limit:
            return ""
        before = len(self.observed.samples) - max(len(above), 1) - 1
        seconds = self.observed.samples[-1].reading.at - self.observed.samples[max(0, before)].reading.at
        allowed = _allowed(high, high, max(1, math.ceil(seconds)), self.observed.threads, first.page_size)
        if allowed < limit:
            return ""
        batch = CHARGE_BATCH * first.page_size
        return f"each sleep above memory.high {high} lets {batch} bytes pass, so memory.max {limit} is soon reached"

    def each_thread_waits(self) -> Finding:
        """Each of the program's threads waited at least a second by its own clock.

        Not observable with one thread, before any of them has taken memory, and if the container ended at a memory.max
        that the model lets it reach by then.
        """
        waits = waits_of(self.observed.samples[-1].report)
        waited = [waits.get(number, 0.0) / 1e6 for number in range(1, self.observed.threads + 1)]
        expected = f"at least {THREAD_US / 1e6:.1f} s for each of {self.observed.threads} threads"
        shown = ", ".join(f"{seconds:.1f} s" for seconds in waited)
        holds = min(waited) * 1e6 >= THREAD_US
        why = "" if waits else "none of its threads has taken memory yet"
        if self.observed.threads == 1:
            why = "the program has one thread"
        elif not holds and self.observed.samples[-1].status.exit_code is not None:
            why = why or self.reaches_limit()
        return self.observed.finding("memory.pressure", expected, shown, holds, key="threads", why_not=why)

    def thrashes_its_text(self) -> Finding:
        """At the end, above memory.high, anonymous memory stayed constant while pgmajfault kept growing.

        Read from memory.stat over the last samples in which anon moved by no more than STILL pages. With pages larger
        than 4 KiB a fault reads so much of the text that the program gets on between two passes: if the text was read
        again, too few faults are not observable.
        """
        rows = [
            (stat_of(one, "anon"), stat_of(one, "pgmajfault"), stat_of(one, REREAD) or 0)
            for one in self.observed.samples
        ]
        looks = [(anon, faulted, read) for anon, faulted, read in rows if anon is not None and faulted is not None]
        still: list[tuple[int, int, int]] = []
        for look in reversed(looks):
            if still and abs(look[0] - still[0][0]) > STILL * self.observed.samples[0].page_size:
                break
            still.append(look)
        expected = f"anon constant while pgmajfault grows by at least {STILL_FAULTS}"
        if not still:
            return self.observed.finding("memory.stat", expected, None, holds=False, key="pgmajfault")
        grown = still[0][1] - still[-1][1]
        low, high = min(anon for anon, *_ in still), max(anon for anon, *_ in still)
        observed = f"anon from {low} to {high} while pgmajfault grew by {grown}"
        holds = grown >= STILL_FAULTS
        read, size, why = still[0][2] - still[-1][2], self.observed.samples[0].page_size, ""
        if not holds and size > SMALL_PAGE and read >= STILL_FAULTS:
            why = f"{grown} major faults read {read} pages of {size} bytes again: it got on by {high - low} bytes"
        return self.observed.finding("memory.stat", expected, observed, holds, key="pgmajfault", why_not=why)

    def counts_passes(self) -> Finding:
        """The `high` event count pauses at values that are multiples of 17 apart.

        It grows by one for each reclaim attempt, and a task sleeps after 17 of them. Samples are taken at any moment,
        so some fall within a pass, and one successful reclaim shifts all later values. The test therefore asks whether
        more values than chance explains share one remainder modulo 17. It deviates if they do so only modulo another
        number; it is not observable if they do so modulo none, or with fewer than 40 values.
        """
        counts = [count for one in self.observed.samples if (count := one.counter("memory.events", "high"))]
        values = [count for before, count in pairwise([0, *counts]) if count != before]
        by_17 = _by_chance(values, EVENTS_A_PASS)
        others = [number for number in OTHER_STEPS if _by_chance(values, number) <= CHANCE / len(OTHER_STEPS)]
        holds = by_17 <= CHANCE
        why = "" if holds or others else "the samples fell within passes: no remainder is more frequent than the others"
        if len(values) < LEAST_VALUES:
            why = f"only {len(values)} of {LEAST_VALUES} values of high were seen"
        steps = EVENTS_A_PASS if holds else max(others, default=0)
        observed = f"multiples of {steps} apart, of {len(values)} values"
        return self.observed.finding(
            "memory.events", f"multiples of {EVENTS_A_PASS} apart", observed, holds, key="passes", why_not=why
        )

    def is_entered_slowly(self, entry: SecondProgram, *, undisturbed: SecondProgram) -> Finding:
        """A second program slept at least as long as the model says, and not in a container below memory.high.

        Not observable if the program in the other container slept as long, one of them did not finish, the model
        expects no sleep, something was killed, or the kernel does not report how long a program waited for a CPU.
        """
        high = self.observed.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self.observed.unbounded("memory.pressure", Knob.MEMORY_HIGH, key="entry")
        least = modelled_sleep(high, entry, page_size=self.observed.samples[0].page_size)
        why = (
            unseen(entry, undisturbed, least)
            if least
            else f"the model expects no sleep at {entry.usage} of {high} bytes"
        )
        if OomKills(self.observed).anything_killed():
            why = "a process in its pod was killed meanwhile, and the runtime's own process is charged there too"
        observed = f"{entry}; below memory.high it {undisturbed}"
        expected = f"at least {least:.3f} s asleep for {ENTRY.size} bytes"
        holds = (entry.slept or 0.0) >= least
        return self.observed.finding("memory.pressure", expected, observed, holds, key="entry", why_not=why)

    def pod_grows_as_delayed(self) -> Finding:
        """`grows_as_delayed` for its pod and the pod's own memory.high, which throttles all its containers."""
        pod = self.observed.rests_on.pod
        expected = pod.cgroup.knobs.get(Knob.MEMORY_HIGH)
        high = expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None
        found = self._delayed(looks_at(self.observed.samples, pod=True), high, threads=len(pod.containers))
        return replace(found, subject=subject_of(pod.cgroup, pod), cgroup=str(self.observed.samples[-1].pod))

    def _delayed(self, looks: Sequence[Used], high: int | None, *, threads: int) -> Finding:
        if high is None:
            return self.observed.unbounded("memory.current", Knob.MEMORY_HIGH)
        far = furthest(looks, high, threads=threads, page_size=self.observed.samples[0].page_size)
        if far is None:
            why = f"fewer than two samples show it far enough above memory.high {high} to be throttled"
            return self.observed.finding(
                "memory.current", "no faster than the sleeps allow", None, holds=False, why_not=why
            )
        expected = f"at most {far.allowed}, {far.seconds:.1f} s after {far.start}"
        return self.observed.finding("memory.current", expected, far.usage, far.usage <= far.allowed)


def _by_chance(values: Sequence[int], number: int) -> float:
    """The probability that at least this many of the values share a remainder modulo this number."""
    most = max(Counter(value % number for value in values).values(), default=0)
    part, count = 1 / number, len(values)
    tail = sum(comb(count, one) * part**one * (1 - part) ** (count - one) for one in range(most, count + 1))
    return min(1.0, number * tail)
