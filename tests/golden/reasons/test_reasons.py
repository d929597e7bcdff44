"""What is said about every kind of value, word for word: a change of it is read by whoever relies on `--why`."""

import pytest

from tests.golden.reasons.book import BOOK, book, plan_of
from tests.golden.reasons.nodes import PLANS


def test_the_reasons_are_the_golden_ones():
    assert book() == BOOK.read_text()


@pytest.mark.parametrize("planned", PLANS, ids=lambda planned: planned.title)
def test_reasons_change_no_value(planned):
    with_reasons = plan_of(planned)
    without = plan_of(planned, reasons=False)
    assert [{knob: (one.written, one.value) for knob, one in cgroup.knobs.items()} for cgroup in without.cgroups()] == [
        {knob: (one.written, one.value) for knob, one in cgroup.knobs.items()} for cgroup in with_reasons.cgroups()
    ]
    assert all(one.reason.rule == "" for cgroup in without.cgroups() for one in cgroup.knobs.values())
