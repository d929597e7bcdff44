"""`memqos run --compare`: two runs, one after the other, and what got worse."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from memqos.cli import run as run_page
from memqos.cli.main import run
from memqos.errors import ExitCode
from tests.recorded import copied, deviating


class Runs:
    """Replaces the two runs of machines: each leaves the recorded results, changed on request."""

    def __init__(self, *, worse: str = "", codes: Mapping[str, int] | None = None) -> None:
        self.asked: list[list[str]] = []
        self.variables: list[set[str]] = []
        self.on_stderr: list[bool] = []
        self.worse = worse
        self.codes = codes or {}

    def __call__(self, words: Sequence[str], *, environment: Mapping[str, str], on_stderr: bool) -> int:
        folder = Path(words[words.index("--results") + 1])
        self.asked.append(list(words))
        self.variables.append(set(environment))
        self.on_stderr.append(on_stderr)
        if (code := self.codes.get(folder.name, 0)) in {0, 1}:
            copied(folder, change=deviating if folder.name in self.worse.split() else None)
        return code


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_page, "check_host", lambda _: None)
    monkeypatch.setattr(run_page, "check_places", lambda _: {})
    (tmp_path / "my-runc").write_text("#!/bin/sh\n")
    return "./my-runc"


@pytest.fixture
def run_twice(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runs]:
    def install(**given: Any) -> Runs:
        runs = Runs(**given)
        monkeypatch.setattr(run_page, "run_alone", runs)
        return runs

    return install


def test_the_machines_own_build_runs_first_and_then_the_brought_one(
    binary: str, run_twice: Callable[..., Runs]
) -> None:
    runs = run_twice()
    words = ["-k", "high", "--runtime-binary", binary, "--compare", "runc.dist", "--results", "r", "throttling"]
    assert run(["run", *words]) == 0
    assert runs.asked == [
        ["--results", "r/runc.dist", "-k", "high", "throttling"],
        ["--results", "r/under-test", "-k", "high", "--runtime-binary", binary, "throttling"],
    ]


@pytest.mark.parametrize(("worse", "code"), [("", 0), ("under-test", 1), ("runc.dist", 0), ("runc.dist under-test", 0)])
def test_only_regressions_fail(
    binary: str, run_twice: Callable[..., Runs], worse: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run_twice(worse=worse)
    assert run(["run", f"--runtime-binary={binary}", "--compare=runc.dist", "--results=r"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert ["claim", "runc.dist", "under-test"] in [line.split() for line in lines]
    assert ("new deviations:" in lines) is bool(code)
    assert json.loads(Path("r/comparison.json").read_text())["new_deviations"] == code


def test_another_runtime_may_be_the_measure(binary: str, run_twice: Callable[..., Runs]) -> None:
    runs = run_twice()
    assert run(["run", "--runtime", "oci:crun", "--compare", "oci:runc", "--results", "r"]) == 0
    assert runs.asked == [
        ["--results", "r/oci-runc", "--runtime", "oci:runc"],
        ["--results", "r/under-test", "--runtime", "oci:crun"],
    ]


def test_what_the_environment_brings_is_not_brought_to_the_other_run(
    binary: str, run_twice: Callable[..., Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMQOS_RUNTIME_BINARY", str(Path(binary).resolve()))
    runs = run_twice()
    assert run(["run", "--compare", "runc.dist", "--results", "r"]) == 0
    assert ["MEMQOS_RUNTIME_BINARY" in names for names in runs.variables] == [False, True]
    assert "MEMQOS_RUNTIME_BINARY" in os.environ


def test_both_runs_have_the_same_cases_whatever_failed_before(binary: str, run_twice: Callable[..., Runs]) -> None:
    runs = run_twice()
    words = ["--last-failed", "--runtime-binary", binary, "--compare", "runc.dist", "--results", "r"]
    assert run(["run", *words]) == 0
    assert ["--last-failed" in asked for asked in runs.asked] == [False, False]


def test_without_a_folder_the_results_are_below_one_of_the_time(binary: str, run_twice: Callable[..., Runs]) -> None:
    run_twice()
    assert run(["run", "--runtime-binary", binary, "--compare", "runc.dist"]) == 0
    [folder] = Path("results").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["comparison.json", "runc.dist", "under-test"]


@pytest.mark.parametrize("name", ["runc.dist", "under-test"])
@pytest.mark.parametrize("code", [ExitCode.MACHINERY, ExitCode.NOTHING_OBSERVED, ExitCode.ENVIRONMENT])
def test_a_run_that_was_not_judged_ends_it(
    binary: str, run_twice: Callable[..., Runs], name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run_twice(codes={name: code})
    assert run(["run", "--runtime-binary", binary, "--compare", "runc.dist", "--results", "r"]) == code
    assert f"the run with {name} was not judged" in capsys.readouterr().err


def test_json_is_the_comparison_alone(
    binary: str, run_twice: Callable[..., Runs], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = run_twice()
    assert run(["run", "--runtime-binary", binary, "--compare", "runc.dist", "--results", "r", "--json"]) == 0
    assert runs.on_stderr == [True, True]
    assert json.loads(capsys.readouterr().out)["same"] > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--compare", "runk.dist"], "there is no runtime 'runk.dist'"),
        (["--compare", "runc.dist"], "is already the runtime under test"),
        (["--compare", "runc"], "is already the runtime under test"),
        (["--compare", "crun.dist", "--runtime", "runc,crun"], "a comparison tests one runtime, not 2"),
    ],
)
def test_impossible_comparisons_are_rejected_before_any_run(
    binary: str, run_twice: Callable[..., Runs], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = run_twice()
    assert run(["run", *words]) == 4
    assert says in capsys.readouterr().err
    assert runs.asked == []


def test_a_runtime_given_by_path_is_left_out_of_the_other_run(binary: str, run_twice: Callable[..., Runs]) -> None:
    Path("runc").write_text("#!/bin/sh\n")
    runs = run_twice()
    assert run(["run", "--runtime", "oci:./runc", "--compare", "runc.dist"]) == 0
    first, second = ([word for word in asked if "runc" in word and "/" not in word[:1]] for asked in runs.asked)
    assert "oci:runc" in first
    assert "oci:./runc" not in first
    assert "oci:./runc" in second
