"""The files of a run for TestGrid and Spyglass."""

from __future__ import annotations

import dataclasses
import json

import pytest

from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.ci_results import finished_json, started_json

RUN = Bundle(
    started="2026-11-22T10:00:00+00:00",
    ended="2026-11-22T10:05:30+00:00",
    exit_code=0,
    machines=({"id": "main-0", "runtimes": ["containerd 1.7.24", "runc 1.1.15"]},),
)


def test_a_run_begins_and_ends_at_a_second() -> None:
    assert json.loads(started_json(RUN)) == {"timestamp": 1795341600}
    assert json.loads(finished_json(RUN)) == {
        "timestamp": 1795341930,
        "passed": True,
        "result": "SUCCESS",
        "metadata": {
            "verdict": "conforms (0 cases observed, 0 deviate; 0 findings about containerd+runc, 0 deviate)",
            "main-0": "containerd 1.7.24, runc 1.1.15",
        },
    }


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (ExitCode.DEVIATES, "FAILURE"),
        (ExitCode.MACHINERY, "FAILURE"),
        (ExitCode.NOTHING_OBSERVED, "FAILURE"),
        (ExitCode.INTERRUPTED, "ABORTED"),
    ],
)
def test_only_conforming_runs_have_passed(code: int, result: str) -> None:
    found = json.loads(finished_json(dataclasses.replace(RUN, exit_code=int(code))))
    assert (found["passed"], found["result"]) == (False, result)


def test_a_killed_run_has_no_end() -> None:
    assert finished_json(dataclasses.replace(RUN, ended="")) == ""
    assert started_json(dataclasses.replace(RUN, started="")) == ""
