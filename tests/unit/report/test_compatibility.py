"""The compatibility matrix: outcomes by topic, runtimes and Kubernetes release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memqos.cli.main import run
from memqos.report.bundle import Bundle
from memqos.report.markdown import TOPICS, compatibility_markdown, compatibility_of
from memqos.report.outcome import Outcome, TestResult
from tests.documents import misfits
from tests.recorded import TRIXIE


def case(claim: str, outcome: Outcome = Outcome.CONFORMS, *, given: str = "") -> TestResult:
    return TestResult(
        id=f"c/test_c.py::test_it[{given}]", claim=claim, chapter="c", outcome=outcome, seconds=1.0, machine="m",
        runtime="containerd+runc",
    )  # fmt: skip


def of(*results: TestResult) -> Bundle:
    machine: dict[str, Any] = {"id": "m", "runtimes": ["containerd 2.1.4", "runc 1.3.0"]}
    return Bundle(started="", ended="", exit_code=0, machines=(machine,), results=results)


def test_a_kubelet_under_test_has_a_row_of_its_own() -> None:
    """memqos in the kubelet's place says nothing about a kubelet, and must not count for one."""
    imitated = of(case("resize/memory-step-by-step", given="v1.36-tiered"))
    [machine] = imitated.machines
    real = replace(imitated, machines=({**machine, "kubelets": ["v1.36.2"]},))
    assert list(compatibility_of([imitated, real]).rows) == [
        ("containerd 2.1.4 + runc 1.3.0", "1.36"),
        ("containerd 2.1.4 + runc 1.3.0 + kubelet v1.36.2", "1.36"),
    ]


def test_rows_are_runtimes_and_releases_and_cells_are_topics() -> None:
    found = compatibility_of([of(
        case("cri/stats-pressure", Outcome.DEVIATES),
        case("cri/stats-usage"),
        case("resize/memory-step-by-step", given="v1.36-tiered"),
        case("swap/none-means-none", Outcome.KNOWN, given="burstable-v1.28-swap-unset"),
        case("swap/none-means-none", given="burstable-v1.28-swap-unset"),
        case("docker/docker-swap-zero"),
        case("oci/create", given="v1.36"),
        case("swap/limit-is-reached", Outcome.NOT_OBSERVABLE, given="v1.22"),
    )])  # fmt: skip
    runtimes = "containerd 2.1.4 + runc 1.3.0"
    assert list(found.rows) == [(runtimes, "any"), (runtimes, "1.22"), (runtimes, "1.28"), (runtimes, "1.36")]
    assert found.rows[runtimes, "any"]["counter units"] == {
        "cri/stats-pressure": Outcome.DEVIATES, "cri/stats-usage": Outcome.CONFORMS,
    }  # fmt: skip
    assert found.rows[runtimes, "any"]["swap"] == {"docker/docker-swap-zero": Outcome.CONFORMS}
    cells = [line.split(" | ")[1:] for line in compatibility_markdown(found).replace("|  |", "| - |").splitlines()[2:]]
    assert [row[0] for row in cells] == ["any", "1.22", "1.28", "1.36"]
    assert cells[0][1] == "1 of 2 claims conform; deviates: cri/stats-pressure"
    assert cells[0][-1] == "1 of 1 claims conform |"
    assert cells[2][-1] == "0 of 1 claims conform; known: swap/none-means-none |"
    assert not any("conform" in cell for cell in cells[1])


def test_the_document_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "support", str(TRIXIE), "--compatibility", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert misfits(document, "compatibility") == []
    assert document["topics"] == list(TOPICS)
    [row] = [one for one in document["rows"] if one["kubernetes"] == "1.37"]
    assert row["topics"]["throttling"]["claims"] == {"conforms": 2}
    assert run(["report", "support", str(TRIXIE), "--compatibility", "-o", str(tmp_path / "m.md")]) == 0
    assert (tmp_path / "m.md").read_text().startswith("| runtimes | Kubernetes | counter units |")
