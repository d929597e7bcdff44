"""How long a container's programs waited above memory.high, and the findings that can be made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb

from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.throttle_series import EVENTS_A_PASS
from memqos.engine.subject import subject_of
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.conditions import stat_of
from memqos.node.behaviour.entering import ENTRY, Entering, modelled_sleep, unseen
from memqos.node.behaviour.growth import Used, furthest, looks_at, slowed
from memqos.node.behaviour.oom import OomJudged
from memqos.workload.report import ReportLine, StepLine

__all__ = ["Throttled"]

THREAD_US = 1_000_000
"""What one thread waits that sleeps for its charges, in µs: half of the longest sleep, and more than a CPU is busy."""


def waits_of(report: tuple[ReportLine, ...]) -> dict[int, float]:
    """How long each of a program's threads waited at least, in µs, by its number: its longest wait of each step."""
    waits: dict[int, float] = {}
    for line in report:
        if isinstance(line, StepLine) and line.thread:
            waits[line.thread] = waits.get(line.thread, 0.0) + line.max_us
    return waits


STILL = 16 << 10
"""Bytes that anonymous memory may move by and yet stand still: four pages of 4 KiB, for STILL_FAULTS major faults."""

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
            if still and abs(look[0] - still[0][0]) > STILL:
                break
            still.append(look)
        expected = f"anon that stands still while pgmajfault grows by at least {STILL_FAULTS}"
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
        least = modelled_sleep(high, entry)
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
        far = furthest(looks, high, threads=threads)
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
