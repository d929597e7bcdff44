"""The tally of a run: finished and running cases, and the remaining time from earlier runs or this one."""

import pytest

from memqos.face.tally import Tally, far, span
from memqos.report.outcome import Outcome

CASES = {"a::1": "a", "a::2": "a", "b::1": "b"}


def tally(expected=(), workers=1):
    return Tally(CASES, expected=dict(expected), began=100.0, workers=workers)


def test_the_time_left_is_the_earlier_time_less_the_elapsed():
    accounts = tally({"a::1": 10.0, "a::2": 20.0, "b::1": 30.0})
    assert accounts.left(100.0) == 60.0

    accounts.starts("", "a::1", now=100.0)
    assert accounts.left(104.0) == 56.0
    assert accounts.left(1000.0) == 50.0

    accounts.ends("", "a::1", Outcome.CONFORMS, seconds=9.0)
    assert accounts.left(109.0) == 50.0


def test_cases_run_in_parallel_up_to_their_number():
    times = {"a::1": 10.0, "a::2": 20.0, "b::1": 30.0}
    assert tally(times, workers=2).left(100.0) == 30.0
    assert tally(times, workers=100).left(100.0) == 20.0


def test_a_case_that_never_ran_has_the_mean_of_its_row_then_of_all():
    accounts = tally()
    assert (accounts.left(100.0), accounts.unknown) == (None, 3)

    accounts.starts("", "a::1", now=100.0)
    accounts.ends("", "a::1", Outcome.CONFORMS, seconds=4.0)
    assert accounts.left(104.0) == 4.0 + 4.0

    accounts.ends("", "b::1", Outcome.CONFORMS, seconds=8.0)
    assert accounts.left(112.0) == 4.0


def test_with_some_known_times_the_others_have_their_mean():
    assert tally({"a::1": 10.0, "b::1": 30.0}).left(100.0) == 10.0 + 30.0 + 20.0


def test_a_faster_host_than_before_leaves_less_time():
    accounts = tally({"a::1": 80.0, "a::2": 20.0, "b::1": 30.0})
    accounts.ends("", "a::1", Outcome.CONFORMS, seconds=40.0)
    assert accounts.left(140.0) == 10.0 + 15.0


def test_a_case_that_did_nothing_says_nothing_about_the_pace():
    accounts = tally({"a::1": 80.0, "a::2": 20.0, "b::1": 30.0})
    accounts.ends("", "a::1", Outcome.NOT_OBSERVABLE, seconds=0.1)
    assert accounts.left(101.0) == 20.0 + 30.0


def test_a_case_longer_than_before_has_no_known_time_left():
    accounts = tally({"a::1": 10.0, "a::2": 20.0, "b::1": 30.0})
    for case in ("a::1", "a::2"):
        accounts.ends("", case, Outcome.CONFORMS, seconds=1.0)
    accounts.starts("", "b::1", now=102.0)

    assert far(accounts, 131.0) == "2 of 3, 31 s elapsed, about 1 s left"
    assert far(accounts, 132.0) == "2 of 3, 32 s elapsed, longer than expected"
    accounts.ends("", "b::1", Outcome.CONFORMS, seconds=99.0)
    assert far(accounts, 200.0) == "3 of 3, 2 min elapsed, about 0 s left"


def test_times_of_other_cases_do_not_count():
    assert tally({"elsewhere::1": 30.0}).left(100.0) is None


def test_nothing_left_is_no_time():
    accounts = tally()
    for case in CASES:
        accounts.ends("", case, Outcome.CONFORMS, seconds=1.0)
    assert accounts.left(200.0) == 0.0


def test_a_row_begins_with_its_first_case_and_ends_with_its_last():
    accounts = tally()
    assert accounts.starts("gw0", "a::1", now=100.0).name == "a"
    assert accounts.ends("gw0", "a::1", Outcome.DEVIATES, seconds=1.0) is None
    assert accounts.starts("gw0", "a::2", now=101.0) is None
    over = accounts.ends("gw0", "a::2", Outcome.CONFORMS, seconds=2.0)
    assert (over.name, over.done, over.total, over.seconds) == ("a", 2, 2, 3.0)
    assert (accounts.all.done, accounts.all.counts[Outcome.DEVIATES]) == (2, 1)


def test_each_worker_has_its_case():
    accounts = tally()
    accounts.starts("gw0", "a::1", now=100.0)
    accounts.starts("gw1", "b::1", now=101.0)
    accounts.does("gw1", "boots")
    assert [(one.name, one.case, one.step) for one in accounts.running()] == [
        ("gw0", "a::1", ""),
        ("gw1", "b::1", "boots"),
    ]

    accounts.ends("gw1", "b::1", Outcome.CONFORMS, seconds=1.0)
    assert [one.name for one in accounts.running()] == ["gw0"]
    assert accounts.workers["gw1"].step == ""


def test_an_unknown_case_does_not_count():
    accounts = tally()
    assert accounts.starts("", "x::1", now=100.0) is None
    assert accounts.ends("", "x::1", Outcome.CONFORMS, seconds=1.0) is None
    assert accounts.all.done == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (3540, "59 min"), (3600, "1 h"), (4800, "1 h 20 min"), (7199, "2 h")],
)
def test_the_text_of_durations(seconds, said):
    assert span(seconds) == said


@pytest.mark.parametrize(("seconds", "said"), [(59.6, "1 min"), (3599, "1 h")])
def test_a_time_is_rounded_before_its_unit_is_chosen(seconds, said):
    assert span(seconds) == said


def test_a_row_begins_once_though_its_first_case_is_run_again():
    accounts = tally()
    assert accounts.starts("", "a::1", now=100.0).name == "a"
    assert accounts.starts("", "a::1", now=101.0) is None
    assert accounts.starts("", "b::1", now=102.0).name == "b"
    assert accounts.starts("", "elsewhere::1", now=103.0) is None
