"""Waiting: how often it is looked, and what a wait that was in vain says."""

from __future__ import annotations

import pytest

from memqos.clock import Deadline, wait
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
