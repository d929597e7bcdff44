"""The texts about values and refusals, word for word: users and programs rely on them, so a change needs a review."""

from itertools import zip_longest

import pytest

from tests.golden.reasons.books import BOOKS, FOLDER, paragraphs
from tests.golden.reasons.nodes import PLANS
from tests.golden.reasons.plans import plan_of


@pytest.mark.parametrize("name", BOOKS)
def test_the_texts_are_golden(name):
    for said, golden in zip_longest(paragraphs(name), (FOLDER / name).read_text().removesuffix("\n").split("\n\n")):
        assert said == golden


# Without programs: Python writes compiled files next to them while another process collects the tests.
GOLDEN = sorted(path for path in FOLDER.parent.rglob("*.*") if path.suffix not in {".py", ".pyc"})


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_files_can_be_reviewed(path):
    """No line too long for a review page, and no file of thousands of lines."""
    lines = path.read_text().splitlines() if path.suffix in {".txt", ".json", ".xml"} else []
    assert [line for line in lines if len(line) > 190] == []
    assert len(lines) < 2000


@pytest.mark.parametrize("planned", PLANS, ids=lambda planned: planned.title)
def test_reasons_change_no_value(planned):
    with_reasons = plan_of(planned)
    without = plan_of(planned, reasons=False)
    assert [{knob: (one.written, one.value) for knob, one in cgroup.knobs.items()} for cgroup in without.cgroups()] == [
        {knob: (one.written, one.value) for knob, one in cgroup.knobs.items()} for cgroup in with_reasons.cgroups()
    ]
    assert all(one.reason.rule == "" for cgroup in without.cgroups() for one in cgroup.knobs.values())
