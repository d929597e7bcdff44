import contextlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.errors import MachineryError
from memqos.workload import report
from memqos.workload.report import (
    ContainerLog,
    Done,
    ErrorLine,
    ExitLine,
    Held,
    Started,
    StepLine,
    parse_report,
)

START = '{"event":"start","ms":0.009,"pid":19346,"page_size":4096,"lock_errno":0}\n'
STEP = '{"event":"step","ms":1.2,"command":1,"verb":"anon","id":1,"bytes":1048576,"of":3145728,"max_us":4}\n'
DONE = '{"event":"done","ms":2,"command":1,"verb":"anon","id":1,"bytes":3145728}\n'


def test_every_kind_of_line() -> None:
    text = (
        START
        + STEP
        + DONE
        + '{"event":"done","ms":3.5,"command":2,"verb":"touch","id":0,"bytes":8,"wrong_pages":1,"max_us":106}\n'
        + '{"event":"error","ms":4.0,"command":3,"what":"mmap","errno":12,"error":"Cannot allocate memory"}\n'
        + '{"event":"held","ms":5.0,"command":4,"regions":1,"bytes":8,"resident":4022272}\n'
        + '{"event":"step","ms":6.0,"command":5,"verb":"hold"}\n'
        + '{"event":"exit","ms":7.0,"command":6,"code":3}\n'
    )
    lines = parse_report(text, source="log")
    steps = [isinstance(line, StepLine) for line in lines]
    assert [report.STEP in line for line in text.splitlines()] == steps
    assert [report.STEP in json.dumps({"log": line}) for line in text.splitlines()] == steps
    assert lines == (
        Started(ms=0.009, pid=19346, page_size=4096, lock_errno=0),
        StepLine(ms=1.2, command=1, verb="anon", region=1, bytes=1048576, of=3145728, max_us=4),
        Done(ms=2, command=1, verb="anon", region=1, bytes=3145728),
        Done(ms=3.5, command=2, verb="touch", region=0, bytes=8, wrong_pages=1, max_us=106),
        ErrorLine(ms=4.0, command=3, what="mmap", errno=12, error="Cannot allocate memory"),
        Held(ms=5.0, command=4, regions=1, bytes=8, resident=4022272),
        StepLine(ms=6.0, command=5, verb="hold"),
        ExitLine(ms=7.0, command=6, code=3),
    )


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "nonsense",
        "[]",
        "7",
        "{}",
        '{"event":"party","ms":1}',
        '{"event":"start","ms":1}',
        '{"event":"start","ms":"1","pid":1,"page_size":4096,"lock_errno":0}',
        '{"event":"start","ms":1,"pid":true,"page_size":4096,"lock_errno":0}',
        '{"event":"start","ms":1,"pid":1,"page_size":4096,"lock_errno":0,"extra":1}',
        '{"event":"exit","ms":1,"command":1,"code":1.5}',
        "[" * 100_000,
    ],
)
def test_a_malformed_line_is_named(bad: str) -> None:
    with pytest.raises(MachineryError, match="not a report of the workload") as caught:
        parse_report(f"{START}{bad}\n{DONE}", source="/var/log/app.log")
    assert caught.value.where == "/var/log/app.log:2"
    assert caught.value.data["line"] == 2
    assert len(str(caught.value)) < 500


def test_a_line_without_its_end_is_waited_for_only_while_the_workload_lives() -> None:
    assert len(parse_report(START + STEP[:20], source="log", live=True)) == 1
    with pytest.raises(MachineryError, match="cut off"):
        parse_report(START + STEP[:20], source="log")


def report_in(log: str) -> tuple[report.ReportLine, ...]:
    """The report in a whole log."""
    whole = ContainerLog("log")
    whole.grows(log)
    return whole.report


def test_a_containers_log() -> None:
    stamp = "2026-11-21T04:11:42.338000000Z"
    log = (
        f"{stamp} stdout F {START}"
        f"{stamp} stderr F memload: something\n"
        f"{stamp} stdout P {STEP[:30]}\n"
        f"{stamp} stdout F {STEP[30:]}"
    )
    lines = report_in(log)
    assert [type(line) for line in lines] == [Started, StepLine]


def docker(text: str, stream: str = "stdout") -> str:
    return json.dumps({"log": text, "stream": stream, "time": "2026-11-21T04:11:42.338Z"}) + "\n"


CRI = (
    f"2026 stdout F {START}2026 stderr F memload: something\n2026 stdout P {STEP[:30]}\n"
    f"2026 stdout P {STEP[30:60]}\n2026 stdout F {STEP[60:]}2026 stdout F {DONE}"
)
DOCKER = docker(START) + docker("memload: something\n", "stderr") + docker(STEP[:30]) + docker(STEP[30:]) + docker(DONE)


@given(st.sampled_from([CRI, DOCKER]), st.lists(st.integers(min_value=0, max_value=len(CRI))))
def test_a_log_gives_the_same_report_however_it_grows(log: str, cuts: list[int]) -> None:
    growing = ContainerLog("log")
    places = [0, *sorted(cuts), len(log)]
    for begin, end in itertools.pairwise(places):
        growing.grows(log[begin:end])
        assert growing.report == report_in(log[:end])
    assert [type(line) for line in growing.report] == [Started, StepLine, Done]


@pytest.mark.parametrize(
    ("first", "then", "where"),
    [
        (f"2026 stdout F {START}2026 std", f"out F {DONE}hello\n", "app.log:3"),
        (f"2026 stdout F {START}", "2026 stdout P {}\n2026 stdout F []\n", "app.log:2"),
    ],
)
def test_a_line_of_a_log_that_grew_is_named_by_its_number(first: str, then: str, where: str) -> None:
    log = ContainerLog("app.log")
    log.grows(first)
    with pytest.raises(MachineryError) as caught:
        log.grows(then)
    assert caught.value.where == where


def test_a_truncated_log_line_is_not_reported_yet() -> None:
    for text in (f"2026 stdout F {START}2026 stdout P {STEP[:30]}\n", docker(START) + docker(STEP[:30])):
        assert len(report_in(text)) == 1


def test_a_malformed_container_log_is_named() -> None:
    with pytest.raises(MachineryError, match="not a line of a container's log") as caught:
        ContainerLog("app.log").grows("2026 stdout F {}\nhello\n")
    assert caught.value.where == "app.log:2"


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(MachineryError):
        parse_report(text, source="log", live=True)
    with contextlib.suppress(MachineryError):
        report_in(text)
