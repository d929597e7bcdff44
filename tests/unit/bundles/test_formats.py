"""The format of bundles: each reason once, by index; a bundle of another format is rejected with a clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memqos.bundles.reading import read_results
from memqos.cli.main import run
from memqos.report.bundle import SCHEMA
from tests.recorded import TRIXIE, cases_of, copied


def test_a_bundle_has_each_reason_once_and_findings_name_its_place() -> None:
    """Reasons were half of a bundle: each was repeated with every finding that it explains."""
    document = read_results(TRIXIE).bundle.to_json()

    findings = [one for case in document["results"] for one in case["findings"] if one["reason"] is not None]
    assert (len(findings), len(document["reasons"])) == (42, 28)
    assert {one["reason"] for one in findings} == set(range(28))
    whole = [one for case in cases_of(TRIXIE) for one in case["findings"] if one["reason"] is not None]
    assert [document["reasons"][one["reason"]] for one in findings] == [one["reason"] for one in whole]


@pytest.mark.parametrize("place", [28, -1])
def test_a_finding_without_its_reason_still_counts(tmp_path: Path, place: int) -> None:
    document = json.loads((TRIXIE / "bundle.json").read_text())
    document["results"][0]["findings"][0]["reason"] = place
    (tmp_path / "bundle.json").write_text(json.dumps(document))

    results = read_results(tmp_path)

    assert len(results.bundle.results) == 4
    assert results.bundle.results[0].findings[0].reason is None
    assert "bundle.json has lost the reasons of 1 finding." in results.missing


@pytest.mark.parametrize("reasons", [None, {"0": {}}, "", []])
def test_a_bundle_without_its_reasons_has_its_cases(tmp_path: Path, reasons: object) -> None:
    document = json.loads((TRIXIE / "bundle.json").read_text())
    (tmp_path / "bundle.json").write_text(json.dumps({**document, "reasons": reasons}))

    results = read_results(tmp_path)

    assert len(results.bundle.results) == 4
    assert "bundle.json has lost the reasons of 42 findings." in results.missing


def test_a_merged_killed_run_has_its_progress(tmp_path: Path) -> None:
    old = copied(tmp_path / "old", killed=True)
    (old / "run.json").write_text(json.dumps({"schema": SCHEMA, "cases": 9}))
    (old / "begun.txt").write_text("a/test_a.py::test_it\n")

    assert run(["report", "merge", str(old), "-o", str(tmp_path / "new")]) == 0

    again = read_results(tmp_path / "new").bundle
    assert again.error.endswith("after 4 of its 9 cases, while it ran a/test_a.py::test_it.")
    assert (again.interrupted, again.not_run) == (True, 5)
    assert not (tmp_path / "new" / "begun.txt").exists()


@pytest.mark.parametrize("place", [True, 1.5, "0"])
def test_a_finding_with_an_invalid_reason_index_is_no_finding(tmp_path: Path, place: object) -> None:
    folder = copied(tmp_path / "odd")
    document = json.loads((TRIXIE / "bundle.json").read_text())
    document["results"][0]["findings"][0]["reason"] = place
    (folder / "bundle.json").write_text(json.dumps(document))
    (folder / "findings.jsonl").unlink()

    results = read_results(folder)

    assert len(results.bundle.results) == 3
    assert "bundle.json has malformed cases at number 1." in results.missing


@pytest.mark.parametrize("name", ["bundle.json", "run.json"])
@pytest.mark.parametrize(
    ("schema", "next_step"),
    [
        ("memqos-bundle/1", "Run the cases again with this memqos."),
        ("memqos-bundle/2", "Run the cases again with this memqos."),
        ("memqos-bundle/4", "Use the memqos that wrote them, or a newer one."),
        ("bundle", "Name the folder that a run wrote."),
        (3, "Name the folder that a run wrote."),
    ],
)
def test_a_bundle_of_another_format_is_refused_with_the_next_step(
    tmp_path: Path, name: str, schema: object, next_step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(tmp_path / "old", killed=name == "run.json")
    (folder / name).write_text(json.dumps({"schema": schema}))

    assert run(["report", "show", str(folder)]) == 4

    told = f"the results have the format '{schema}', but this memqos reads only memqos-bundle/3."
    err = capsys.readouterr().err
    assert told in err
    assert next_step in err
