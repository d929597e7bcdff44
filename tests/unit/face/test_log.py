"""A log: one line per event, a heartbeat with running and remaining cases, folding parts, no control characters."""

import datetime
import threading

import pytest

from memqos.face.run_face import GitHub, GitLab, NoService, Tone
from memqos.face.screens import LogScreen
from memqos.face.tally import Tally
from memqos.face.text import Output
from memqos.report.outcome import Outcome
from tests.clocks import HandClock
from tests.unit.face.made import in_memory

CASES = {"a/test_a.py::one": "a", "a/test_a.py::two": "a", "b/test_b.py::three": "b"}
TIMES = dict.fromkeys(CASES, 60.0)


def log(service=None, *, folds=True, **options):
    stream, output = in_memory()
    wall = lambda: datetime.datetime.fromtimestamp(1000, tz=datetime.UTC)  # noqa: E731
    return stream, LogScreen(output, service or NoService(), folds=folds, wall=wall, **options)


def test_events_have_a_dot_and_failures_do_not():
    stream, screen = log()
    screen.say(["memqos 1"])
    screen.say(["boots"], Tone.STEP)
    screen.say(["memory.high deviates", "  expected 1"], Tone.WRONG)
    assert stream.getvalue() == "memqos 1\n· boots\nmemory.high deviates\n  expected 1\n"


def test_a_log_in_another_encoding_has_only_its_characters(tmp_path):
    with (tmp_path / "log").open("w", encoding="ascii") as stream:
        output = Output(stream)
        LogScreen(output, NoService(), folds=True).say(["boots é"], Tone.STEP)
        output.close()
    assert (tmp_path / "log").read_bytes() == b"- boots \\xe9\n"


def test_the_heartbeat_has_running_cases_and_the_time_left():
    clock = HandClock(130.0)
    tally = Tally(CASES, expected=TIMES, began=70.0)
    tally.ends("", "a/test_a.py::one", Outcome.DEVIATES, seconds=60.0)
    tally.starts("", "a/test_a.py::two", now=118.0)
    tally.does("", "boots a machine")
    _, screen = log(clock=clock, every=3600)
    screen.open(lambda: tally)
    try:
        assert screen.heartbeat() == [
            "1 of 3, 1 deviates, 1 min elapsed, about 2 min left",
            "  two, 12 s: boots a machine",
        ]
    finally:
        screen.close()


def test_the_heartbeat_names_several_workers():
    tally = Tally(CASES, expected={}, began=0.0, workers=2)
    tally.starts("gw0", "a/test_a.py::one", now=0.0)
    tally.starts("gw1", "b/test_b.py::three", now=5.0)
    _, screen = log(clock=HandClock(10.0), every=3600)
    screen.open(lambda: tally)
    try:
        assert screen.heartbeat() == ["0 of 3, 10 s elapsed", "  [gw0] one, 10 s", "  [gw1] three, 5 s"]
    finally:
        screen.close()


def test_the_heartbeat_ends_with_the_run():
    stream, screen = log(every=0.01)
    beaten = threading.Event()

    def tally():
        beaten.set()
        return Tally(CASES, expected={}, began=0.0)

    screen.open(tally)
    assert beaten.wait(30)
    screen.close()
    said = stream.getvalue()
    assert said.startswith("· 0 of 3, ")
    screen.close()
    assert stream.getvalue() == said


def test_a_row_is_a_folding_part_and_one_line_below_it():
    stream, screen = log(GitHub(None))
    tally = Tally(CASES, expected={}, began=0.0)
    screen.row_begins(tally.starts("", "a/test_a.py::one", now=0.0))
    screen.say(["boots"], Tone.STEP)
    tally.ends("", "a/test_a.py::one", Outcome.CONFORMS, seconds=30.0)
    screen.row_ends(tally.ends("", "a/test_a.py::two", Outcome.NOT_OBSERVABLE, seconds=31.0))
    assert stream.getvalue() == (
        "::group::a (2 cases)\n· boots\n::endgroup::\na: 1 conforms, 1 not observable, in 1 min\n"
    )


def test_an_unfinished_part_is_closed_by_the_next_and_by_the_end():
    stream, screen = log(GitHub(None))
    tally = Tally(CASES, expected={}, began=0.0)
    screen.row_begins(tally.rows["a"])
    screen.row_begins(tally.rows["b"])
    screen.close()
    assert stream.getvalue() == "::group::a (2 cases)\n::endgroup::\n::group::b (1 case)\n::endgroup::\n"


def test_gitlabs_parts_have_the_time():
    stream, screen = log(GitLab())
    screen.row_begins(Tally(CASES, expected={}, began=0.0).rows["b"])
    screen.close()
    assert "section_start:1000:b[" in stream.getvalue()
    assert "section_end:1000:b\r" in stream.getvalue()


def test_rows_that_run_at_the_same_time_do_not_fold():
    stream, screen = log(GitHub(None), folds=False)
    screen.row_begins(Tally(CASES, expected={}, began=0.0).rows["b"])
    screen.close()
    assert stream.getvalue() == ""


class Gone:
    """A closed reader."""

    encoding = "utf-8"

    def __init__(self):
        self.tried = 0

    def fileno(self):
        raise OSError

    def flush(self):
        pass

    def write(self, text):
        self.tried += len(text) > 0
        raise BrokenPipeError


def test_a_closed_reader_raises_once_and_ends_the_output():
    stream = Gone()
    output = Output(stream)
    with pytest.raises(BrokenPipeError):
        output.write("one")
    output.write("two")
    assert stream.tried == 1
