"""The report of cases that were not run because workers ended."""

from types import SimpleNamespace

from memqos.plugin.results.recording import Crashes


def told(*reasons, chosen, missing):
    crashes = Crashes()
    for reason in reasons:
        crashes.add(reason)
    error = crashes.too_many(SimpleNamespace(getoption=lambda *_: "1"), chosen=chosen, missing=missing)
    return error.what if error is not None else ""


def test_after_too_many_crashes_the_missing_cases_are_counted():
    assert told("ended", "ended", chosen=5, missing=3) == "2 workers crashed, and 3 cases were not run."


def test_a_crash_of_all_workers_before_collection_is_not_an_empty_run():
    assert told("ended", "ended", chosen=0, missing=0) == "2 workers crashed, before they collected any case."


def test_workers_that_were_replaced_or_interrupted_are_no_error():
    assert told("ended", chosen=5, missing=3) == ""
    assert told("ended", "ended", chosen=5, missing=0) == ""
    assert told("keyboard-interrupt", "keyboard-interrupt", "ended", chosen=0, missing=0) == ""
