"""Time for the whole package: instants, deadlines, and waiting for a named condition.

What was waited for, and how long (`WAITS`), so that a slow case can name it.

This is the only module that imports `time`, so a test can put a clock of its own in its place.
"""

from __future__ import annotations

import contextlib
import datetime
import reprlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from memqos.errors import DeadlineError

__all__ = ["SYSTEM_CLOCK", "WAITS", "Clock", "Deadline", "SystemClock", "Waits", "utc_now", "wait", "wait_or_last"]

T = TypeVar("T")

SOON, SELDOM = 0.025, 0.2
"""Seconds between the first two observations of a wait that says nothing else, and between its later ones."""

REST, LONGEST_REST = 3.0, 1.0
"""How many times the length of an observation passes before the next one, and at most how many seconds.

An observation takes CPU time of the machine that it observes: a runtime that is asked without a pause hears of the end
of a container later.
"""

_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 200


class Clock(Protocol):
    """What the package asks of time."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; the zero has no meaning."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let at least this many seconds pass."""
        ...


class SystemClock:
    """The host's own monotonic clock."""

    def now(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep; a negative duration counts as zero."""
        time.sleep(max(0.0, seconds))


SYSTEM_CLOCK = SystemClock()


def utc_now() -> datetime.datetime:
    """The wall clock in UTC, for names of folders and for reports; never for measuring."""
    return datetime.datetime.now(tz=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment by which something must have happened; pass it down instead of a number of seconds."""

    at: float
    started: float
    clock: Clock = field(default=SYSTEM_CLOCK, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> Deadline:
        """The deadline this many seconds (>= 0) from now."""
        now = clock.now()
        return cls(at=now + seconds, started=now, clock=clock)

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - self.clock.now())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining == 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was set."""
        return self.clock.now() - self.started

    def sooner(self, seconds: float) -> Deadline:
        """This deadline or one this many seconds from now, whichever comes first."""
        now = self.clock.now()
        return Deadline(at=min(self.at, now + seconds), started=now, clock=self.clock)


class Waits:
    """How long each named condition was waited for. Threads that wait for the same at the same time count once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[str, list[tuple[float, float]]] = {}

    def add(self, condition: str, *, began: float, ended: float) -> None:
        """Add one wait, in seconds of the same clock; one of no length is ignored."""
        if ended > began:
            with self._lock:
                self._spans.setdefault(condition, []).append((began, ended))

    @contextlib.contextmanager
    def during(self, condition: str, clock: Clock = SYSTEM_CLOCK) -> Iterator[None]:
        """Add the time of this context, also if it ends with an error."""
        began = clock.now()
        try:
            yield
        finally:
            self.add(condition, began=began, ended=clock.now())

    def take(self) -> Mapping[str, float]:
        """Seconds by condition since the last call, longest first."""
        with self._lock:
            spans, self._spans = self._spans, {}
        seconds = {condition: _covered(several) for condition, several in spans.items()}
        return dict(sorted(seconds.items(), key=lambda one: -one[1]))


def _covered(spans: list[tuple[float, float]]) -> float:
    """The length of what these spans cover together."""
    covered, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        covered += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return covered


WAITS = Waits()
"""Of this process. The plugin takes them after each phase of a test."""


def wait(
    condition: str,
    observe: Callable[[], T],
    *,
    deadline: Deadline,
    until: Callable[[T], bool] = bool,
    every: float | None = None,
    shown: Callable[[T], str] | None = None,
) -> T:
    """Observe until `until` holds, and return that observation.

    condition: what is waited for, as it will be read in the error ("sshd answers").
    observe: takes one observation; its own errors pass through.
    every: seconds between observations; None is soon at first, since much of what is waited for is nearly there, and
    then every 0.2 s, or after three times as long as the observation took. The last one is made at the deadline, not
    before it.
    shown: the last observation in words, for the error; None for a short form of its repr.

    Raises DeadlineError naming the condition, the last observation and the elapsed time.
    """
    with WAITS.during(condition, deadline.clock):
        return _observed(condition, observe, deadline=deadline, until=until, every=every, shown=shown)


def wait_or_last(
    condition: str,
    observe: Callable[[], T],
    *,
    deadline: Deadline,
    until: Callable[[T], bool] = bool,
    every: float | None = None,
) -> T:
    """The same for a finding: what is observed after the deadline, instead of an error."""
    try:
        return wait(condition, observe, deadline=deadline, until=until, every=every)
    except DeadlineError:
        return observe()


def _observed(
    condition: str,
    observe: Callable[[], T],
    *,
    deadline: Deadline,
    until: Callable[[T], bool],
    every: float | None,
    shown: Callable[[T], str] | None,
) -> T:
    pause = SOON if every is None else every
    while True:
        last_try = deadline.expired
        began = deadline.clock.now()
        seen = observe()
        rest = min(REST * (deadline.clock.now() - began), LONGEST_REST) if every is None else 0.0
        if until(seen):
            return seen
        if last_try:
            last = (shown or _SHORT.repr)(seen)
            raise DeadlineError(
                f"waited {deadline.elapsed:.1f} s for '{condition}'; the last observation was {last}.",
                data={"condition": condition, "last": seen, "elapsed": deadline.elapsed},
            )
        deadline.clock.sleep(min(max(pause, rest), deadline.remaining))
        pause = min(2 * pause, SELDOM) if every is None else every
