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
from tests.recorded import TRIXIE, copied

FORMAT_1 = TRIXIE.with_name("format-1")


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
