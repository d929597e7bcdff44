"""The text before the first case: the number of cases, the machines, and the expected time with its basis."""

import pytest

from memqos.face.screens import outlook
from memqos.face.tally import Tally

CASES = {"a::1": "a", "a::2": "a", "b::1": "b"}
TIMES = {"a::1": 60.0, "a::2": 90.0, "b::1": 30.0}
COUNTED = "3 cases in 2 chapters on trixie; "


def said(times, *, elsewhere=0, workers=1):
    accounts = Tally(CASES, expected=times, began=0.0, workers=workers)
    [line] = outlook(accounts, chapters=2, machines=["trixie"], workers=workers, elsewhere=elsewhere)
    return line


@pytest.mark.parametrize(
    ("times", "elsewhere", "time"),
    [
        (TIMES, 0, "about 3 min"),
        (TIMES, 3, "about 3 min, estimated from other systems: none of them ran on this one before"),
        (TIMES, 2, "about 3 min; 2 ran only on other systems before"),
        ({"a::1": 60.0}, 0, "about 3 min; 2 never ran here before"),
        ({"a::1": 60.0, "a::2": 90.0}, 1, "about 4 min; 1 never ran here before and 1 only on other systems"),
        ({"a::1": 60.0, "a::2": 90.0}, 2, "about 4 min; 1 never ran here before and 2 only on other systems"),
        ({}, 0, "its duration is not known yet"),
    ],
)
def test_the_time_has_its_basis(times, elsewhere, time):
    assert said(times, elsewhere=elsewhere) == COUNTED + time


def test_several_at_a_time_take_less():
    assert said(TIMES, workers=2) == "3 cases in 2 chapters on trixie, 2 at a time; about 2 min"


def test_no_case_to_run():
    accounts = Tally({}, expected={}, began=0.0)
    assert outlook(accounts, chapters=0, machines=["trixie"], workers=1, elsewhere=0) == ["no case to run"]
