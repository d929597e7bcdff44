"""What a run makes small at its end: what conforms, and what is like something that is kept as it is."""

import dataclasses

import pytest

from memqos.plugin.publishing import publish
from memqos.report.outcome import Outcome
from tests.unit.report.sample import BUNDLE, result


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_of_cases_with_one_cause_the_first_keeps_its_evidence_as_it_is(tmp_path):
    cases = [
        result(name, Outcome.DEVIATES, reason=reason, folder=f"tests/{name}")
        for name, reason in [("first", "lost"), ("second", "lost"), ("other", "drifted"), ("third", "lost")]
    ]
    for case in cases:
        (tmp_path / case.folder).mkdir(parents=True)
        for name in ("cgroups.txt", "plan.json"):
            (tmp_path / case.folder / name).write_text("memory.high max\n" * 1000)

    publish(dataclasses.replace(BUNDLE, results=tuple(cases)), tmp_path)

    kept = {case.folder: sorted(file.name for file in (tmp_path / case.folder).iterdir()) for case in cases}
    whole, small = ["cgroups.txt", "plan.json"], ["cgroups.txt.gz", "plan.json.gz"]
    assert kept == {"tests/first": whole, "tests/second": small, "tests/other": whole, "tests/third": small}
