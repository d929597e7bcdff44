"""memwatch's output, line by line."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.errors import MachineryError
from memqos.probe.sampler import Appended, Failed, Look, Looked, parse_said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"at":1.5,"lost":0,"cgroup":"/c","why":"event","files":{"memory.current":"7\\n","memory.peak":null}}',
            Look(at=1.5, folder="/c", why="event", files={"memory.current": "7\n", "memory.peak": None}),
        ),
        ('{"at":2,"lost":0,"tail":"a/b","text":"\\u00c3\\u00bc\\n"}', Appended(at=2.0, name="a/b", text="ü\n")),
        ('{"at":2,"lost":0,"tail":"a","text":"\\u00ff"}', Appended(at=2.0, name="a", text="\\xff")),
        ('{"at":3,"lost":0,"looked":4}', Looked(at=3.0, number=4)),
        ('{"at":3,"lost":0,"failed":"to","errno":6,"path":"/f"}', Failed(at=3.0, what="to", path="/f", errno=6)),
    ],
)
def test_each_kind_of_line(line, said):
    assert parse_said(line) == said


def test_dropped_lines_are_reported():
    with pytest.raises(MachineryError, match="2 lines before it were dropped because they were read too late"):
        parse_said('{"at":3,"lost":2,"looked":4}')


@given(st.one_of(st.text(max_size=60), st.from_regex(r'\{"at":[0-9a]{1,3},"lost":[0-9],"(cgroup|tail)":.{0,9}\}')))
def test_any_line_is_read_or_refused(line):
    with contextlib.suppress(MachineryError):
        assert parse_said(line).at >= 0
