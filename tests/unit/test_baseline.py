"""Accepted deviations: what fits, until when, and what is no entry."""

import datetime

import pytest

from memqos.engine.answer.finding import Subject, Verdict
from memqos.errors import ManifestError, UsageError
from memqos.known import accepted_or_not, baseline_text, load_baseline
from tests.unit.report.sample import finding

DAY = datetime.date(2026, 12, 31)
ENTRY = """
[[accepted]]
claim = "values/pod"
knob = "memory.high"
subject = "container app of pod default/*"
observed = "max"
until = 2026-12-31
reason = "our runc issue 7"
"""


@pytest.fixture
def loaded(tmp_path):
    def load(text):
        file = tmp_path / "baseline.toml"
        file.write_text(text)
        return load_baseline(file)

    return load


def test_an_accepted_deviation_is_known_until_its_day_is_over(loaded):
    accepted = loaded(ENTRY)
    deviating = finding(Verdict.DEVIATES)
    known = accepted_or_not(deviating, "values/pod", accepted, today=DAY)
    assert (known.verdict, known.evidence) == (
        Verdict.KNOWN,
        {"known": "accepted until 2026-12-31: our runc issue 7"},
    )

    late = accepted_or_not(deviating, "values/pod", accepted, today=DAY + datetime.timedelta(days=1))
    assert (late.verdict, late.evidence) == (
        Verdict.DEVIATES,
        {"baseline": "accepted until 2026-12-31, which is over: our runc issue 7"},
    )


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("values/other", {}),
        ("values/pod", {"knob": "memory.max"}),
        ("values/pod", {"subject": "pod default/web"}),
        ("values/pod", {"observed": "4096"}),
    ],
    ids=["claim", "knob", "subject", "observed"],
)
def test_an_entry_hides_nothing_else(loaded, claim, changes):
    other = finding(Verdict.DEVIATES, **changes)
    assert accepted_or_not(other, claim, loaded(ENTRY), today=DAY) is other


def test_what_conforms_stays_as_it_is(loaded):
    good = finding(Verdict.CONFORMS, observed="max")
    assert accepted_or_not(good, "values/pod", loaded(ENTRY), today=DAY) is good


def test_without_a_subject_and_a_value_it_is_any(loaded):
    text = "\n".join(line for line in ENTRY.splitlines() if not line.startswith(("subject", "observed")))
    other = finding(Verdict.DEVIATES, subject=Subject.of_machine("pod [x]\nof two lines"), observed="1")
    assert accepted_or_not(other, "values/pod", loaded(text), today=DAY).verdict is Verdict.KNOWN


def test_of_an_entry_that_is_over_and_one_that_is_not_the_second_counts(loaded):
    both = ENTRY.replace("2026-12-31", "2020-01-01") + ENTRY
    assert accepted_or_not(finding(Verdict.DEVIATES), "values/pod", loaded(both), today=DAY).verdict is Verdict.KNOWN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accepted = 3", "a baseline has tables"),
        ("[other]\na = 1", "a baseline has tables"),
        ("[[accepted]]\nclaim = 1", "'claim' must be a string"),
        (ENTRY.replace("2026-12-31", '"2026-12-31"'), "'until' must be a day such as 2027-01-31, without quotes"),
        (ENTRY.replace("2026-12-31", "2026-12-31T10:00:00"), "'until' must be a day"),
        (ENTRY.replace("until = 2026-12-31\n", ""), "missing required field 'until'"),
        (
            ENTRY.replace("reason", "raison"),
            "unknown field 'raison'. Known: claim, knob, until, reason, ",
        ),
        (ENTRY.replace("our runc issue 7", ""), "'reason' must be a string that is not empty, not ''"),
        ("[[accepted]", "the file is not TOML"),
        ("a = " + "[" * 5000, "the nesting is deeper than memqos reads"),
        ("a = 1" + "0" * 5000, "the file is not TOML"),
        (ENTRY + ENTRY.replace('"max"', "3"), "baseline.toml:14: accepted[1]: 'observed' must be a string, not 3."),
        ("accepted = [1]", "baseline.toml:1: accepted[0]: it must be a table, not 1"),
    ],
)
def test_what_is_no_entry_is_told(loaded, text, says):
    with pytest.raises(ManifestError, match=r"baseline\.toml") as raised:
        loaded(text)
    assert says in str(raised.value)


def test_a_baseline_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_baseline(tmp_path / "none.toml")


def test_what_is_written_of_a_run_accepts_it_once_each(loaded):
    strange = finding(Verdict.DEVIATES, subject='pod "a\\b"\x7f\x1b')
    text = baseline_text(
        [("values/pod", finding(Verdict.DEVIATES)), ("values/pod", finding(Verdict.DEVIATES)), ("a/b", strange)],
        until=DAY,
        reason='it is "known"',
    )
    accepted = loaded(text)
    assert len(accepted) == 2
    assert accepted_or_not(finding(Verdict.DEVIATES), "values/pod", accepted, today=DAY).verdict is Verdict.KNOWN
    assert accepted_or_not(strange, "a/b", accepted, today=DAY).verdict is Verdict.KNOWN
