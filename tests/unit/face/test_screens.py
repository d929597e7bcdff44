"""A screen on a terminal, and the text before the first case: cases, machines, and the expected time with its basis."""

import fcntl
import os
import pty
import re
import struct
import termios

import pyte
import pytest

from memqos.face.run_face import Tone
from memqos.face.screens import LiveScreen, outlook
from memqos.face.tally import Tally
from memqos.face.text import Output
from memqos.report.outcome import Outcome
from tests.clocks import HandClock

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


LONG = "a line that is longer than the terminal is wide, and so is wrapped at a word"


class Terminal:
    """A pseudo-terminal, its output, and the emulator's screen."""

    def __init__(self, columns, lines):
        self.there, here = pty.openpty()
        self.stream = os.fdopen(here, "w", encoding="utf-8")
        self.resize(columns, lines)
        self.raw = b""

    def resize(self, columns, lines):
        fcntl.ioctl(self.there, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.size = columns, lines

    def shown(self):
        os.set_blocking(self.there, False)
        while True:
            try:
                self.raw += os.read(self.there, 1 << 16)
            except BlockingIOError:
                break
        self.screen = pyte.Screen(*self.size)
        pyte.ByteStream(self.screen).feed(self.raw)
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def close(self):
        self.stream.close()
        os.close(self.there)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    opened = []

    def make(columns, lines):
        opened.append(Terminal(columns, lines))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def some_run(workers=1):
    cases = {f"values/test_values.py::test_pod[{n}]": "values" for n in range(4)}
    cases |= {f"numa/test_numa.py::test_zone[{n}]": "numa" for n in range(2)}
    tally = Tally(cases, expected=dict.fromkeys(cases, 30.0), began=0.0, workers=workers)
    names = ["gw0", "gw1"] if workers > 1 else [""]
    for number, outcome in enumerate((Outcome.CONFORMS, Outcome.DEVIATES)):
        worker = names[number % len(names)]
        tally.starts(worker, f"values/test_values.py::test_pod[{number}]", now=number * 30.0)
        tally.ends(worker, f"values/test_values.py::test_pod[{number}]", outcome, seconds=30.0)
    tally.starts(names[0], "values/test_values.py::test_pod[2]", now=60.0)
    tally.does(names[0], "kubelet v1.36: 17 pods")
    return tally


def shown_on(one, tally):
    output = Output(one.stream)
    screen = LiveScreen(output, clock=HandClock(70.0))
    screen.say([LONG], Tone.STEP)
    screen.open(lambda: tally)
    try:
        return screen, one.shown()
    finally:
        screen.close()
        one.after = one.shown()
        output.close()


def test_eighty_columns(terminal):
    one = terminal(80, 24)
    _, lines = shown_on(one, some_run())
    assert lines == [
        LONG,
        "values ━━━━━━━━━━────────── 2/4 1 conforms 1 deviates",
        "numa   ──────────────────── 0/2",
        "10 s test_pod[2]: kubelet v1.36: 17 pods",
        "2 of 6, 1 deviates, 1 min elapsed, about 2 min left",
    ]


def test_forty_columns_are_enough(terminal):
    one = terminal(40, 24)
    _, lines = shown_on(one, some_run())
    assert lines == [
        "a line that is longer than the terminal",
        "is wide, and so is wrapped at a word",
        "values 2/4 1+ 1x",
        "numa   0/2",
        "10 s test_pod[2]: kubelet v1.36: 17 pods",
        "2 of 6, 1 deviates, 1 min elapsed, abou…",
    ]


def test_a_row_a_worker(terminal):
    _, lines = shown_on(terminal(80, 24), some_run(workers=2))
    assert lines[1:] == [
        "all ━━━━━━────────────── 2/6 1 conforms 1 deviates",
        "gw0 1 conforms 10 s test_pod[2]: kubelet v1.36: 17 pods",
        "gw1 1 deviates waits",
        "2 of 6, 1 deviates, 1 min elapsed, about 55 s left",
    ]


def test_more_rows_than_lines_show_unfinished_ones_and_a_count(terminal):
    cases = {f"c{n}/test.py::test": f"c{n}" for n in range(30)}
    tally = Tally(cases, expected={}, began=0.0)
    for n in range(10):
        tally.ends("", f"c{n}/test.py::test", Outcome.CONFORMS, seconds=1.0)
    tally.starts("", "c10/test.py::test", now=65.0)
    one = terminal(80, 12)
    _, lines = shown_on(one, tally)
    assert len(lines) <= 12
    assert [line.split()[0] for line in lines[1:7]] == ["c10", "c11", "c12", "c13", "c14", "c15"]
    assert lines[-3:] == ["and 24 more", "5 s test", "10 of 30, 1 min elapsed, about 19 s left"]


def test_the_lowest_terminal_shows_the_running_row(terminal):
    _, lines = shown_on(terminal(60, 5), some_run())
    assert [line.split()[0] for line in lines[-4:]] == ["values", "and", "10", "2"]


@pytest.mark.parametrize(("columns", "lines"), [(1, 1), (3, 2), (10, 3), (1000, 300)])
def test_any_size_works(terminal, columns, lines):
    one = terminal(columns, lines)
    shown_on(one, some_run())
    assert not one.screen.cursor.hidden


def test_rows_are_removed_and_the_cursor_is_shown(terminal):
    one = terminal(80, 24)
    shown_on(one, some_run())
    assert one.after == [LONG]
    assert not one.screen.cursor.hidden


def test_lines_go_above_the_rows_in_the_windows_width(terminal):
    one = terminal(100, 24)
    output = Output(one.stream)
    screen = LiveScreen(output, clock=HandClock(70.0))
    screen.open(some_run)
    assert one.shown()[0] == "values ━━━━━━━━━━────────── 2/4 1 conforms 1 deviates"
    one.resize(40, 24)
    one.raw = b""
    screen.say(["memory.high deviates", "  expected 1, observed max"], Tone.WRONG)
    lines = one.shown()
    screen.close()
    output.close()
    assert lines[:3] == ["memory.high deviates", "  expected 1, observed max", "values 2/4 1+ 1x"]
    assert max(map(len, lines)) <= 40


def test_no_color_has_no_colour(terminal, monkeypatch):
    coloured, plain = terminal(80, 24), terminal(80, 24)
    shown_on(coloured, some_run())
    monkeypatch.setenv("NO_COLOR", "1")
    shown_on(plain, some_run())
    colour = re.compile(rb"\x1b\[[0-9;]*3[0-7][;m]")
    assert colour.search(coloured.raw)
    assert not colour.search(plain.raw)


def test_a_terminal_without_unicode_gets_other_bars(terminal):
    one = terminal(80, 24)
    one.stream.reconfigure(encoding="ascii", errors="backslashreplace")
    _, lines = shown_on(one, some_run())
    assert lines[1] == "values ##########---------- 2/4 1 conforms 1 deviates"
