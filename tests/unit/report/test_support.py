"""Claims by runtimes and their versions, from several runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from memqos.cli.main import run
from memqos.report.bundle import Bundle
from memqos.report.markdown import support_badges, support_lines, support_markdown, support_of
from memqos.report.outcome import Outcome, TestResult
from tests.documents import misfits
from tests.recorded import TRIXIE, copied


def machine(number: int, *runtimes: str, runtime: str = "containerd+runc") -> dict[str, Any]:
    return {"id": f"main-{number}", "runtime": runtime, "runtimes": list(runtimes)}


def case(claim: str, outcome: Outcome = Outcome.CONFORMS, number: int = 0) -> TestResult:
    return TestResult(
        id=f"{claim}::test", claim=claim, chapter="c", outcome=outcome, seconds=1.0, machine=f"main-{number}",
        runtime="containerd+runc",
    )  # fmt: skip


def of(*results: TestResult, version: str = "1.1.15") -> Bundle:
    machines = (machine(0, "containerd 1.7.24", f"runc {version}"),)
    return Bundle(started="", ended="", exit_code=0, machines=machines, results=results)


OLD, NEW = "containerd 1.7.24 + runc 1.1.15", "containerd 1.7.24 + runc 1.3.6"


def test_versions_are_columns_and_claims_are_rows() -> None:
    support = support_of(
        [of(case("c/a"), case("c/b")), of(case("c/a", Outcome.DEVIATES), case("c/d"), version="1.3.6")]
    )
    assert support.columns == (OLD, NEW)
    assert [(row.claim, row.cells) for row in support.rows] == [
        ("c/a", {OLD: {"conforms": 1}, NEW: {"deviates": 1}}),
        ("c/b", {OLD: {"conforms": 1}}),
        ("c/d", {NEW: {"conforms": 1}}),
    ]


def test_cases_of_the_same_versions_count_together() -> None:
    support = support_of([of(case("c/a")), of(case("c/a", Outcome.NOT_OBSERVABLE))])
    assert [row.cells for row in support.rows] == [{OLD: {"conforms": 1, "not observable": 1}}]


def test_cases_without_a_runtime_are_left_out() -> None:
    none = dataclasses.replace(case("c/a"), machine="", runtime="")
    assert support_of([of(none, dataclasses.replace(case(""), claim=""))]).rows == ()


def test_a_runtime_that_is_driven_directly_is_another_column() -> None:
    bundle = dataclasses.replace(of(case("c/a")), machines=(machine(0, "runc 1.1.15", runtime="oci:runc"),))
    assert support_of([bundle]).columns == ("oci:runc 1.1.15",)


def test_a_run_with_a_name_is_the_column_of_that_name() -> None:
    support = support_of([("runc.dist", of(case("c/a"))), ("my-runc", of(case("c/a")))])
    assert support.columns == ("runc.dist", "my-runc")


def test_markdown_sums_up() -> None:
    text = support_markdown(
        support_of([of(case("c/a"), case("c/b")), of(case("c/a", Outcome.DEVIATES), version="1.3.6")])
    )
    assert text == (
        f"| claim | {OLD.replace('+', chr(92) + '+')} | {NEW.replace('+', chr(92) + '+')} |\n"
        "| --- | ---: | ---: |\n"
        "| c/a | ✅ 1 | ❌ deviates 1 |\n"
        "| c/b | ✅ 1 | - |\n"
        "| **claims that conform** | 2 of 2 | 0 of 1 |\n"
    )


def test_a_terminal_shows_only_differing_claims() -> None:
    found = support_of([("old", of(case("c/a"), case("c/b"))), ("new", of(case("c/a", Outcome.DEVIATES), case("c/b")))])
    assert list(support_lines(found)) == [
        "claim                old         new",
        "c/a                  conforms 1  deviates 1",
        "claims that conform  2 of 2      1 of 2",
    ]


def test_every_version_has_a_badge() -> None:
    runs = [
        of(case("c/a")),
        of(case("c/a", Outcome.DEVIATES), version="1.3.6"),
        of(case("c/a", Outcome.MACHINERY), version="9"),
    ]
    found = {name: json.loads(text) for name, text in support_badges(support_of(runs)).items()}
    assert [(name, one["message"], one["color"]) for name, one in found.items()] == [
        ("containerd-1.7.24-+-runc-1.1.15.json", "conforms (1 claims)", "brightgreen"),
        ("containerd-1.7.24-+-runc-1.3.6.json", "1 of 1 claims deviate", "red"),
        ("containerd-1.7.24-+-runc-9.json", "nothing observed", "lightgrey"),
    ]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/", "", "<script>"])
def test_a_badge_stays_in_its_folder_with_any_runtime_name(name: str) -> None:
    bundle = dataclasses.replace(of(case("c/a")), machines=(machine(0, name),))
    [file] = support_badges(support_of([bundle]))
    assert "/" not in file
    assert not file.startswith(".")


def test_the_command_writes_table_badges_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = copied(tmp_path / "other")
    (other / "bundle.json").write_text((other / "bundle.json").read_text().replace("1.1.15+ds1", "9.9"))
    assert run(["report", "support", str(TRIXIE), str(other), "--badges", str(tmp_path / "badges")]) == 0
    assert "runc 9.9" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "badges").iterdir()) == [
        "containerd-1.7.24-ds1-+-runc-1.1.15+ds1.json",
        "containerd-1.7.24-ds1-+-runc-9.9.json",
    ]
    assert run(["report", "support", str(TRIXIE), "--json"]) == 0
    assert misfits(json.loads(capsys.readouterr().out), "support") == []


def test_missing_parts_of_a_run_have_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "support", str(copied(tmp_path / "killed", killed=True))]) == 0
    assert "killed: No complete bundle.json" in capsys.readouterr().err
