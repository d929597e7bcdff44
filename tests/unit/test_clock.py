"""Waiting: how often it is looked, and what a wait that was in vain says."""

from __future__ import annotations

import contextlib

import pytest

from memqos.clock import WAITS, Deadline, Waits, wait, wait_or_last
from memqos.errors import DeadlineError


class HandClock:
    """Goes only while somebody sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.parametrize(
    ("every", "slept"),
    [
        ({}, [0.025, 0.05, 0.1, 0.2, 0.2, 0.2]),
        ({"every": 0.1}, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]),
        ({"every": 0.0}, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ],
    ids=["unsaid", "said", "at once"],
)
def test_what_is_nearly_there_is_not_waited_for_long(every: dict[str, float], slept: list[float]) -> None:
    clock = HandClock()
    looks = iter([False] * 6 + [True])

    assert wait("it is there", lambda: next(looks), deadline=Deadline.after(60, clock), **every)

    assert clock.slept == slept


def test_the_last_look_is_at_the_deadline() -> None:
    clock = HandClock()
    with pytest.raises(DeadlineError, match=r"waited 0\.4 s for 'it is there'; the last observation was False"):
        wait("it is there", lambda: False, deadline=Deadline.after(0.4, clock))
    assert clock.slept == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.025])


@pytest.mark.parametrize(("takes", "rests"), [(0.01, 0.03), (0.25, 0.75), (9.0, 1.0)])
def test_observations_take_a_quarter_of_the_time_at_most_unless_their_pace_is_given(takes: float, rests: float) -> None:
    clock = HandClock()

    def look() -> bool:
        clock.sleep(takes)
        return len(clock.slept) > 2

    wait("it is there", look, deadline=Deadline.after(60, clock))
    assert clock.slept == pytest.approx([takes, rests, takes])

    clock = HandClock()
    wait("it is there", look, deadline=Deadline.after(60, clock), every=0.5)
    assert clock.slept == pytest.approx([takes, 0.5, takes])


def test_what_was_waited_for_is_known_with_its_seconds_even_if_it_did_not_come() -> None:
    WAITS.take()
    looks = iter([False, False, True])
    wait("it is there", lambda: next(looks), deadline=Deadline.after(60, HandClock()))
    with pytest.raises(DeadlineError):
        wait("it is gone", lambda: False, deadline=Deadline.after(0.4, HandClock()))
    wait("it is here", lambda: True, deadline=Deadline.after(60, HandClock()))

    assert list(WAITS.take().items()) == [("it is gone", pytest.approx(0.4)), ("it is there", pytest.approx(0.075))]
    assert WAITS.take() == {}


def test_threads_that_wait_for_the_same_at_the_same_time_count_once() -> None:
    waits = Waits()
    for began, ended in ((0.0, 4.0), (1.0, 2.0), (3.0, 6.0), (10.0, 11.0), (12.0, 12.0)):
        waits.add("the runtime answers", began=began, ended=ended)
    assert waits.take() == {"the runtime answers": 7.0}


def test_a_wait_counts_though_it_ends_in_an_error() -> None:
    waits, clock = Waits(), HandClock()
    with contextlib.suppress(KeyError), waits.during("it ends", clock):
        clock.sleep(3)
        raise KeyError
    assert waits.take() == {"it ends": 3.0}


@pytest.mark.parametrize(("good", "found"), [(2, 2), (99, 4)], ids=["in time", "never"])
def test_a_finding_takes_the_observation_after_the_deadline_instead_of_an_error(good: int, found: int) -> None:
    clock, looks = HandClock(), iter(range(99))
    deadline = Deadline.after(0.5, clock)
    seen = wait_or_last("it is good", lambda: next(looks), until=lambda n: n == good, every=0.2, deadline=deadline)
    assert seen == found
