import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.cgroupfs import parse
from memqos.errors import CgroupFileError
from memqos.model.reading import FileText, NoFile, Pressure, PressureLine, Unreadable

EVENTS = "low 0\nhigh 720\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n"
PRESSURE = (
    "some avg10=79.90 avg60=0.00 avg300=100.00 total=18446744073709551615\n"
    "full avg10=0.12 avg60=0.00 avg300=0.00 total=7\n"
)


def test_counters_keep_keys_of_later_kernels() -> None:
    assert parse.counters(EVENTS + "sock_throttled 4\n", path="p")["sock_throttled"] == 4
    assert parse.counters(EVENTS, path="p")["high"] == 720


def test_a_counter_that_this_kernel_does_not_have() -> None:
    with pytest.raises(CgroupFileError, match="without 'sock_throttled'"):
        parse.entry(parse.counters(EVENTS, path="p"), "sock_throttled", path="p")


def test_pressure() -> None:
    assert parse.pressure(PRESSURE, path="p") == Pressure(
        some=PressureLine(avg10=79.9, avg60=0.0, avg300=100.0, total=18446744073709551615),
        full=PressureLine(avg10=0.12, avg60=0.0, avg300=0.0, total=7),
    )


def test_memory_by_numa_node() -> None:
    text = "anon N0=0 N1=41943040\nfile N0=4096 N1=0\nworkingset_refault_anon N0=1 N1=2\n"
    assert parse.numa_stat(text, path="p")["anon"] == {0: 0, 1: 41943040}


@pytest.mark.parametrize(("text", "value"), [("0\n", 0), ("18446744073709551615\n", 2**64 - 1), ("4096", 4096)])
def test_a_number(text: str, value: int) -> None:
    assert parse.number(text, path="p") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NoFile.NO_FILE, "the file does not exist"),
        (Unreadable("Operation not supported"), "Operation not supported"),
        (None, "it was not read"),
    ],
)
def test_what_was_not_observed_is_no_text(text: FileText | None, why: str) -> None:
    with pytest.raises(CgroupFileError, match=why):
        parse.present(text, path="/a/memory.current")


HOSTILE_NUMBERS = [
    "",
    "\n",
    "-1\n",
    "+1\n",
    "1 \n",
    "1\n2\n",
    "0x10\n",
    "1_000\n",
    "١٢\n",
    "18446744073709551616\n",
    "9" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE_NUMBERS)
def test_a_malformed_number(text: str) -> None:
    with pytest.raises(CgroupFileError):
        parse.number(text, path="p")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("low 0\nhigh 7", 2),
        ("low 0\nhigh\n", 2),
        ("low 0\nlow 0\n", 2),
        ("low 0\n\n", 2),
        ("low -1\n", 1),
        (" 1\n", 1),
        ("low 1 2\n", 1),
        ("low ٣\n", 1),
        ("low\t1\n", 1),
    ],
)
def test_counters_that_are_none_name_the_line(text: str, line: int) -> None:
    with pytest.raises(CgroupFileError) as caught:
        parse.counters(text, path="/sys/fs/cgroup/a/memory.events")
    assert caught.value.data["line"] == line
    assert caught.value.where == f"/sys/fs/cgroup/a/memory.events:{line}"


@pytest.mark.parametrize(
    "text",
    [
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        PRESSURE + PRESSURE,
        PRESSURE.replace("79.90", "nan"),
        PRESSURE.replace("79.90", "-1.00"),
        PRESSURE.replace("total=7", "total=-7"),
        PRESSURE.replace("total=7", "total"),
        PRESSURE.replace("avg60=0.00 ", ""),
        PRESSURE.replace("full", "some"),
        PRESSURE[:-1],
    ],
)
def test_malformed_pressure(text: str) -> None:
    with pytest.raises(CgroupFileError):
        parse.pressure(text, path="p")


@pytest.mark.parametrize(
    "text", ["anon\n", "anon N0\n", "anon N0=1 N0=2\n", "anon N-1=1\n", "anon N0=1\nanon N0=1\n", "N0=1\n"]
)
def test_numa_nodes_that_are_none(text: str) -> None:
    with pytest.raises(CgroupFileError):
        parse.numa_stat(text, path="p")


def test_a_long_text_is_shortened_in_the_message_and_kept_whole() -> None:
    with pytest.raises(CgroupFileError) as caught:
        parse.number("x" * 10_000, path="p")
    assert len(str(caught.value)) < 400
    assert caught.value.data["text"] == "x" * 10_000


PARSERS: list[Callable[..., object]] = [
    parse.number,
    parse.counters,
    parse.numa_stat,
    parse.pressure,
]


@given(st.sampled_from(PARSERS), st.text(alphabet=st.sampled_from("low 0123N=.-max\n\0٣")))
def test_any_text_is_parsed_or_refused(parser: Callable[..., object], text: str) -> None:
    with contextlib.suppress(CgroupFileError):
        parser(text, path="p")
