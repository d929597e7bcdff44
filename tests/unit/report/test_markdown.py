"""Results as Markdown, and the compatibility matrix: outcomes by topic, runtimes and Kubernetes release."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memqos.cli.main import run
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.markdown import TOPICS, badge_json, compatibility_markdown, compatibility_of, inline, markdown
from memqos.report.outcome import Outcome, TestResult
from tests.documents import misfits
from tests.recorded import TRIXIE
from tests.unit.report.sample import BUNDLE, result

EVIL = "<script>x</script> @team #1 [a](http://b) | `c`\n# head\n![i](j) ~~k~~ \\| &lt;"


def test_it_has_verdict_chapters_deviations_with_their_command_and_machines():
    text = markdown(BUNDLE, name="nightly", missing=["bundle.json is damaged."])

    assert text.startswith("## ❌ memqos nightly: deviates\n")
    assert "| chapter | conforms | deviates | not observable | machinery | usage | seconds |" in text
    assert "| values | 1 | 1 | 1 | 2 | 0 | 7.5 |" in text
    assert "> bundle.json is damaged." in text
    assert "  - rerun: `memqos run --runtime crun" in text
    assert "<details><summary>Not observable: 1</summary>" in text
    assert "kernel 6.12.107, containerd 1.7.24, crun 1.21" in text


def test_no_text_becomes_markup():
    evil = dataclasses.replace(
        BUNDLE, error=EVIL, machines=({"id": EVIL},),
        results=tuple(dataclasses.replace(one, id=EVIL, chapter=EVIL, reason=EVIL) for one in BUNDLE.results),
    )  # fmt: skip

    text = markdown(evil, name=EVIL)

    assert inline(EVIL) == (
        r"\<script\>x\</script\> \@team \#1 \[a\]\(http://b\) \| \`c\` \# head \!\[i\]\(j\) \~\~k\~\~ \\\| \&lt;"
    )
    assert "<script>" not in "".join(line for line in text.splitlines() if "rerun:" not in line)
    assert {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| ")} == {8}


def test_a_command_is_code_with_any_name():
    evil = dataclasses.replace(BUNDLE, results=(result("``x`` <b>", Outcome.DEVIATES, reason="r"),))

    (line,) = (line for line in markdown(evil).splitlines() if "rerun:" in line)

    assert line.startswith("  - rerun: ``` memqos run ")
    assert line.endswith(" ```")


def test_cut_lists_have_a_count():
    many = dataclasses.replace(BUNDLE, results=tuple(result(str(n), Outcome.DEVIATES, reason="r") for n in range(45)))

    assert "- and 15 more" in markdown(many)


@pytest.mark.parametrize(
    ("code", "message", "color"),
    [
        (ExitCode.CONFORMS, "conforms (2)", "brightgreen"),
        (ExitCode.DEVIATES, "1 of 2 deviate", "red"),
        (ExitCode.NOTHING_OBSERVED, "nothing observed", "lightgrey"),
        (ExitCode.MACHINERY, "machinery", "yellow"),
    ],
)
def test_a_badge_is_one_line(code, message, color):
    text = badge_json(dataclasses.replace(BUNDLE, exit_code=int(code)), label="runc 1.3")

    assert text.count("\n") == 1
    assert json.loads(text) == {"schemaVersion": 1, "label": "runc 1.3", "message": message, "color": color}


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
