"""Expected durations of cases: their own earlier ones, or those of the same cases on other systems."""

from types import SimpleNamespace

import pytest

from memqos.plugin.collection.workers import SHARES
from memqos.plugin.keys import ATTRIBUTE, SETTINGS_KEY
from memqos.plugin.results.durations import DurationRecorder, expected_durations, keep_durations, stored_durations
from memqos.report.outcome import Outcome, Phase, TestResult

DOWN = "requests/test_requests.py::test_request[update-down"


def test_a_cases_own_duration_wins_over_other_systems():
    found = expected_durations([f"{DOWN}]"], {f"{DOWN}]": 3.0, f"{DOWN}-bookworm]": 40.0})

    assert found.seconds == {f"{DOWN}]": 3.0}
    assert found.elsewhere == 0


@pytest.mark.parametrize(
    "other",
    [
        "-bookworm]", "-containerd+crun]", "-oci:crun]", "-crio+runc]", "-cri+special]", "-cgroupfs]",
        "-trixie-docker+runc-systemd]", "-round12]",
    ],
)  # fmt: skip
def test_a_case_that_ran_only_on_another_system_is_expected_to_take_as_long(other):
    found = expected_durations([f"{DOWN}]", f"{DOWN}-forky-containerd+runc]"], {f"{DOWN}{other}": 40.0})

    assert found.seconds == {f"{DOWN}]": 40.0, f"{DOWN}-forky-containerd+runc]": 40.0}
    assert found.elsewhere == 2


def test_of_several_systems_the_median_counts():
    before = {f"{DOWN}-bookworm]": 40.0, f"{DOWN}-forky]": 6.0, f"{DOWN}-trixie]": 5.0}

    assert expected_durations([f"{DOWN}]"], before).seconds == {f"{DOWN}]": 6.0}


def test_a_system_is_recognized_at_the_start_and_the_end_of_an_id():
    before = {"a/test_a.py::test_it[bookworm]": 4.0, "a/test_a.py::test_one[v1.36-bookworm-0.4]": 5.0}

    found = expected_durations(["a/test_a.py::test_it", "a/test_a.py::test_one[v1.36-0.4]"], before)

    assert found.seconds == {"a/test_a.py::test_it": 4.0, "a/test_a.py::test_one[v1.36-0.4]": 5.0}


@pytest.mark.parametrize("other", ["update-low]", "v1.36-update-down]", "update-down-pods+system]", "update-down-0.4]"])
def test_another_case_gives_no_estimate(other):
    case = f"{DOWN}]"

    found = expected_durations([case], {case.replace("update-down]", other): 40.0, case.replace("requests", "x"): 4.0})

    assert (found.seconds, found.elsewhere) == ({}, 0)


POPULATION = "values/test_values.py[v1.36]"
FIRST, SECOND, OTHER = (f"values/test_values.py::test_it[{name}]" for name in ("v1.36-one", "v1.36-two", "v1.37-one"))


def test_what_cases_share_is_expected_once_whichever_of_them_are_chosen():
    """For one population only the second case was expected to take the tenth of a second of its own reading."""
    before = {FIRST: 0.5, SECOND: 0.1, OTHER: 2.0, POPULATION: 30.0}
    shared_by = {FIRST: POPULATION, SECOND: POPULATION}

    assert expected_durations([SECOND], before, shared_by=shared_by).seconds == {SECOND: 30.1}
    both = expected_durations([FIRST, SECOND, OTHER], before, shared_by=shared_by)
    assert both.seconds == {FIRST: 30.5, SECOND: 0.1, OTHER: 2.0}


def test_what_cases_share_is_added_to_the_first_of_which_something_is_known():
    shared_by = {FIRST: POPULATION, SECOND: POPULATION}

    found = expected_durations([FIRST, SECOND], {SECOND: 0.1, POPULATION: 30.0}, shared_by=shared_by)

    assert found.seconds == {SECOND: 30.1}


def test_what_was_shared_only_on_another_system_counts_as_well():
    before = {SECOND: 0.1, "values/test_values.py[v1.36-bookworm]": 30.0}

    found = expected_durations([SECOND], before, shared_by={SECOND: POPULATION})

    assert (found.seconds, found.elsewhere) == ({SECOND: 30.1}, 0)


def result(case, seconds, outcome=Outcome.CONFORMS):
    return TestResult(id=case, claim="", chapter="values", outcome=outcome, seconds=seconds, machine="main-0")


def test_what_is_shared_is_kept_apart_from_the_cases_that_came_first_and_last(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    around = {FIRST: 29.0, SECOND: 1.0}

    keep_durations([result(FIRST, 29.5), result(SECOND, 1.25)], around=around, shared={POPULATION: 30.0}, is_whole=True)

    assert stored_durations() == {FIRST: 0.5, SECOND: 0.25, POPULATION: 30.0}


def test_a_partial_run_does_not_store_shared_durations(tmp_path, monkeypatch):
    """It creates only the pods of its own cases."""
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    for seconds, is_whole in ((30.0, True), (4.0, False)):
        around, shared = {FIRST: seconds}, {POPULATION: seconds}
        keep_durations([result(FIRST, seconds + 0.5)], around=around, shared=shared, is_whole=is_whole)

    assert stored_durations() == {FIRST: 0.5, POPULATION: 30.0}


def test_one_slow_run_does_not_change_the_estimate(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    told = []
    for seconds in (3.0, 40.0, 3.5, 41.0, 42.0):
        keep_durations([result(OTHER, seconds)], around={}, shared={}, is_whole=True)
        told.append(stored_durations()[OTHER])

    assert told == [3.0, 3.0, 3.5, 40.0, 41.0], "three runs are kept, and the lower median of them told"


def test_what_is_not_observable_is_expected_to_take_as_long_again_until_it_is_observed(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    told = []
    for seconds, outcome in (
        (0.5, Outcome.MACHINERY),
        (0.1, Outcome.NOT_OBSERVABLE),
        (8.0, Outcome.CONFORMS),
        (9.0, Outcome.CONFORMS),
        (0.2, Outcome.NOT_OBSERVABLE),
    ):
        keep_durations([result(OTHER, seconds, outcome)], around={}, shared={}, is_whole=True)
        told.append(stored_durations().get(OTHER))

    assert told == [None, 0.1, 0.1, 8.0, 8.0]


@pytest.mark.parametrize(
    ("around", "expected"),
    [({FIRST: 29.0}, 29.5), ({FIRST: 90.0}, 30.5), ({}, 0.5), ({SECOND: 29.0}, 0.5)],
    ids=["as before", "three times as long", "nothing", "another case was first"],
)
def test_the_first_case_is_expected_to_take_what_is_shared_at_most_as_long_as_before(
    around, expected, tmp_path, monkeypatch
):
    """Another case may have been first then."""
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    keep_durations([result(FIRST, 30.5)], around={FIRST: 30.0}, shared={POPULATION: 30.0}, is_whole=True)
    times = DurationRecorder(SimpleNamespace(stash={SETTINGS_KEY: SimpleNamespace(kubelet_binary=None)}))
    report = pytest.CollectReport(nodeid="", outcome="passed", longrepr=None, result=None)
    setattr(report, SHARES, {FIRST: POPULATION, SECOND: POPULATION})
    times.pytest_collectreport(report)
    for case, seconds in around.items():
        setup = pytest.TestReport(case, ("", 0, ""), {}, "passed", None, "setup", duration=seconds)
        setattr(setup, ATTRIBUTE, Phase(outcome=None, chapter="values"))
        times.pytest_runtest_logreport(setup)

    assert times.before(FIRST, among=[FIRST, SECOND, OTHER]) == expected
    assert times.before(OTHER, among=[FIRST, SECOND, OTHER]) is None


def test_what_an_older_memqos_kept_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    (tmp_path / "durations.json").write_text('{"schema": "memqos-durations/1", "seconds": {"a": 3, "b": -1, "c": []}}')

    assert stored_durations() == {"a": 3.0}


def test_a_real_kubelet_s_durations_are_kept_apart(tmp_path, monkeypatch):
    """Without one its claims are not observable at once: the next run with one was expected to take a second."""
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path))
    option = SimpleNamespace(keyword="", markexpr="")
    told = {}
    for kubelet, seconds in ((None, 0.1), ("./kubelet", 40.0)):
        settings = SimpleNamespace(kubelet_binary=kubelet)
        config = SimpleNamespace(stash={SETTINGS_KEY: settings}, option=option, args=[])
        DurationRecorder(config).keep([result(OTHER, seconds)])
        told[kubelet] = (
            DurationRecorder(config).expected([OTHER]).seconds,
            DurationRecorder(config).before(OTHER, among=[OTHER]),
        )

    assert told == {None: ({OTHER: 0.1}, 0.1), "./kubelet": ({OTHER: 40.0}, 40.0)}
