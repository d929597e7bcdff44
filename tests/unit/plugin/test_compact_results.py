"""How a run compacts its results at the end: what conforms, and what equals something kept."""

import dataclasses

import pytest

from memqos.plugin.results.ending import publish
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


def test_evidence_of_conforming_cases_is_compressed_and_logs_are_not(tmp_path):
    outcomes = (Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE)
    cases = [result(outcome.value, outcome, folder=f"tests/{outcome.value}") for outcome in outcomes]
    for case in cases:
        (tmp_path / case.folder).mkdir(parents=True)
        for name in ("cgroups.txt", "plan.json"):
            (tmp_path / case.folder / name).write_text("memory.high max\n" * 1000)

    publish(dataclasses.replace(BUNDLE, results=tuple(cases)), tmp_path)

    kept = [sorted(file.name for file in (tmp_path / case.folder).iterdir()) for case in cases]
    assert kept == [["cgroups.txt", "plan.json.gz"]] * 3
