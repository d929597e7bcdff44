"""--time-budget: started cases are finished, the others count as not run."""

import json

import pytest

pytest_plugins = ["pytester"]

SLOW = """
from memqos.plugin import entry

class Clock:
    def now(self):
        return Clock.at

Clock.at = entry.SYSTEM_CLOCK.now()
entry.SYSTEM_CLOCK = Clock()

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(6))
def test_it(qos_evidence, number):
    Clock.at += 60
    qos_evidence.settle(finding("deviates" if number == DEVIATES else "conforms"))
"""


def bundle(pytester):
    return json.loads((pytester.path / "out/bundle.json").read_text())


@pytest.mark.parametrize(("deviating", "code"), [("None", 2), ("1", 1), ("5", 2)])
def test_no_test_is_begun_after_the_time_and_the_rest_is_not_run(suite, run, pytester, deviating, code):
    suite(SLOW.replace("DEVIATES", deviating))

    result = run("--memqos-time-budget=3m")

    written = bundle(pytester)
    assert result.ret == written["exit_code"] == code
    assert len(written["results"]) == 3
    assert written["counts"]["not_run"] == 3
    assert written["interrupted"] is True
    result.stdout.fnmatch_lines(["*: the time budget of 3m is used up; the remaining cases were not run"])
    result.stdout.fnmatch_lines(["verdict: *, 3 not run; *"])


def test_a_run_that_ends_within_its_budget_is_complete(suite, run, pytester):
    suite(SLOW.replace("DEVIATES", "None"))

    assert run("--memqos-time-budget=6m").ret == 0
    assert bundle(pytester)["interrupted"] is False


def test_each_worker_keeps_to_the_time_of_the_run(suite, run, pytester):
    suite(SLOW.replace("DEVIATES", "None"))

    result = run("--memqos-time-budget=2m", "-n", "2", "--dist=load")

    written = bundle(pytester)
    assert result.ret == 2
    assert 2 <= len(written["results"]) < 6
    assert written["counts"]["not_run"] == 6 - len(written["results"])


def test_a_time_without_a_unit_is_refused(suite, run):
    suite(SLOW)
    result = run("--memqos-time-budget=20")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--memqos-time-budget: '20' is not a time, such as 90s, 20m or 1h30m.*"])
