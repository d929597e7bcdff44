import pytest

from memqos.clock import Deadline
from memqos.enactor.base import Patience
from memqos.errors import DeadlineError
from tests.clocks import HandClock


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def patience(clock):
    return Patience(longest=180, clock=clock)


def hang(patience: Patience, clock: HandClock) -> float:
    """An attempt that uses up its time; its duration."""
    deadline: Deadline = patience.deadline()
    clock.sleep(deadline.remaining)
    patience.failed(DeadlineError("waited."), deadline)
    return deadline.elapsed


def come_up(patience: Patience, clock: HandClock, *, seconds: float) -> None:
    deadline = patience.deadline()
    clock.sleep(seconds)
    patience.succeeded(deadline)


def test_three_that_hang_take_five_minutes_and_not_nine(patience, clock):
    assert [hang(patience, clock) for _ in range(3)] == [180, 60, 60]
    assert patience.enough is not None


def test_the_first_one_gets_all_of_the_time_however_quick_those_before_it_were(patience, clock):
    come_up(patience, clock, seconds=1)
    assert hang(patience, clock) == 180


def test_where_attempts_are_slow_one_after_a_hang_gets_ten_times_as_long(patience, clock):
    come_up(patience, clock, seconds=9)
    hang(patience, clock)
    assert hang(patience, clock) == 90


def test_it_is_never_longer_than_the_first(patience, clock):
    come_up(patience, clock, seconds=100)
    hang(patience, clock)
    assert hang(patience, clock) == 180


def test_a_hang_between_others_that_come_up_is_remembered(patience, clock):
    hang(patience, clock)
    come_up(patience, clock, seconds=2)
    assert hang(patience, clock) == 60


def test_a_failure_before_its_deadline_is_no_hang(patience, clock):
    patience.failed(DeadlineError("waited."), patience.deadline())
    assert patience.deadline().remaining == 180
