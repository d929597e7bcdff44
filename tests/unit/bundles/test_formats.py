"""Results as an older memqos wrote them: read, compared, and written again as those of today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memqos.bundles.formats import FORMATS, upgraded
from memqos.bundles.reading import read_results
from memqos.bundles.verifying import verify
from memqos.cli.main import run
from memqos.report.bundle import SCHEMA
from tests.documents import misfits
from tests.recorded import TRIXIE, cases_of, copied

FORMAT_1, FORMAT_2 = TRIXIE.with_name("format-1"), TRIXIE.with_name("format-2")


def test_every_format_that_was_is_kept_and_read() -> None:
    kept = {
        json.loads((folder / "bundle.json").read_text())["schema"]
        for folder in TRIXIE.parent.iterdir()
        if folder.is_dir()
    }
    assert kept == set(FORMATS)
    assert FORMATS[-1] == SCHEMA


def test_the_first_format_is_read_with_all_that_it_says() -> None:
    written = json.loads((FORMAT_1 / "bundle.json").read_text())
    results = read_results(FORMAT_1)
    assert [(one.id, one.outcome.value) for one in results.bundle.results] == [
        (one["id"], one["outcome"]) for one in written["results"]
    ]
    told = [(one.subject, one.knob, one.expected) for case in results.bundle.results for one in case.findings]
    assert told == [
        (one["subject"], one["knob"], one["expected"]) for case in written["results"] for one in case["findings"]
    ]
    assert results.bundle.exit_code == written["exit_code"]
    assert "The results are of the older format memqos-bundle/1, which does not say who set what was observed." in (
        results.missing
    )


def test_it_is_written_again_as_one_of_today(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = copied(tmp_path / "old")  # with evidence, which the kept one has not
    for name in ("bundle.json", "findings.jsonl"):
        (old / name).write_text((FORMAT_1 / name).read_text())
    assert run(["report", "upgrade", str(old), "-o", str(tmp_path / "new")]) == 0
    assert "older format memqos-bundle/1" in capsys.readouterr().err
    document = json.loads((tmp_path / "new/bundle.json").read_text())
    assert document["schema"] == SCHEMA
    assert misfits(document, "bundle") == []
    assert all(
        misfits(json.loads(line), "result") == [] for line in (tmp_path / "new/findings.jsonl").read_text().splitlines()
    )
    again = read_results(tmp_path / "new")
    assert again.bundle.results == read_results(old).bundle.results
    assert not any("older format" in one for one in again.missing)
    assert verify(tmp_path / "new").is_whole
    assert sorted(path.name for path in (tmp_path / "new/tests").iterdir()) == sorted(
        path.name for path in (old / "tests").iterdir()
    )


def test_the_second_format_is_read_whole_with_its_reasons(tmp_path: Path) -> None:
    results = read_results(FORMAT_2)

    assert results.missing == (
        "The claims' sentences are those of the memqos that made this report: the run did not keep its own.",
    )
    [case] = results.bundle.results
    assert [one.reason.rule for one in case.findings if one.reason is not None] == [
        "the container is bound to the NUMA zone that the test asks for",
        "every page of a program that starts inside is taken from the zones of cpuset.mems",
    ]


def test_a_bundle_has_each_reason_once_and_findings_name_its_place() -> None:
    """Reasons were half of a bundle: each stood with every finding that it explains."""
    document = read_results(TRIXIE).bundle.to_json()

    findings = [one for case in document["results"] for one in case["findings"] if one["reason"] is not None]
    assert (len(findings), len(document["reasons"])) == (42, 28)
    assert {one["reason"] for one in findings} == set(range(28))
    whole = [one for case in cases_of(TRIXIE) for one in case["findings"] if one["reason"] is not None]
    assert [document["reasons"][one["reason"]] for one in findings] == [one["reason"] for one in whole]


@pytest.mark.parametrize("place", [28, -1])
def test_a_finding_whose_reason_was_lost_is_one_all_the_same(tmp_path: Path, place: int) -> None:
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


def test_a_killed_run_that_is_written_again_says_how_far_it_came(tmp_path: Path) -> None:
    old = copied(tmp_path / "old", killed=True)
    (old / "run.json").write_text(json.dumps({"schema": SCHEMA, "cases": 9}))
    (old / "begun.txt").write_text("a/test_a.py::test_it\n")

    assert run(["report", "upgrade", str(old), "-o", str(tmp_path / "new")]) == 0

    again = read_results(tmp_path / "new").bundle
    assert again.error.endswith("after 4 of its 9 cases, while it ran a/test_a.py::test_it.")
    assert (again.interrupted, again.not_run) == (True, 5)
    assert not (tmp_path / "new" / "begun.txt").exists()


@pytest.mark.parametrize("place", [True, 1.5, "0"])
def test_a_finding_whose_reason_is_no_place_is_no_finding(tmp_path: Path, place: object) -> None:
    folder = copied(tmp_path / "odd")
    document = json.loads((TRIXIE / "bundle.json").read_text())
    document["results"][0]["findings"][0]["reason"] = place
    (folder / "bundle.json").write_text(json.dumps(document))
    (folder / "findings.jsonl").unlink()

    results = read_results(folder)

    assert len(results.bundle.results) == 3
    assert "bundle.json has something else than a case as number 1." in results.missing


def test_an_older_run_and_one_of_today_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "compare", str(FORMAT_1), str(TRIXIE)]) == 0
    assert "older format memqos-bundle/1" in capsys.readouterr().err


@pytest.mark.parametrize("case", [{}, {"findings": 7}, [], None, {"findings": [None]}])
def test_what_is_no_case_of_the_older_format_is_none_of_today(case: object, tmp_path: Path) -> None:
    with pytest.raises((KeyError, TypeError)):
        upgraded(case, "memqos-bundle/1")
    folder = copied(tmp_path / "old")
    (folder / "bundle.json").write_text((FORMAT_1 / "bundle.json").read_text())
    (folder / "findings.jsonl").write_text((FORMAT_1 / "findings.jsonl").read_text() + f"{json.dumps(case)}\n")
    assert any("something else than a case as number 7" in one for one in read_results(folder).missing)


@pytest.mark.parametrize(("folder", "says"), [("full", "is not empty"), ("old/inside", "is in the results themselves")])
def test_nothing_is_written_over(tmp_path: Path, folder: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    copied(tmp_path / "old")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    assert run(["report", "upgrade", str(tmp_path / "old"), "-o", str(tmp_path / folder)]) == 4
    assert says in capsys.readouterr().err
