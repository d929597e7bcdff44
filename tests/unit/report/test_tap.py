"""TAP of a bundle against a reviewed golden, and read back like a consumer."""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from memqos.engine.answer.finding import Verdict
from memqos.known import EVIDENCE
from memqos.report.bundle import Bundle
from memqos.report.ci_results import VERSIONS, tap_text
from memqos.report.outcome import Outcome
from tests.unit.report.sample import BUNDLE, finding, result

GOLDEN = Path(__file__).parents[2] / "golden" / "report" / "results.tap"
KNOWN = result(
    "known", Outcome.KNOWN, findings=(finding(Verdict.KNOWN, evidence={EVIDENCE: "runc#1 (vm/known.toml)"}),)
)


def points(text):
    """Each test point's line, with the content of its YAML block."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        if re.match(r"(not )?ok ", line):
            found.append((line, {}))
        elif line == "  ---":
            block = []
            while (inner := next(lines)) != "  ...":
                assert inner.startswith("  ") or not inner
                block.append(inner[2:])
            found[-1] = (found[-1][0], yaml.safe_load("\n".join(block)))
    return found


def with_results(*results, **changes):
    return dataclasses.replace(BUNDLE, results=results, **changes)


def test_a_bundle_is_its_golden():
    assert tap_text(BUNDLE) == GOLDEN.read_text()


def test_outcomes_are_ok_not_ok_skip_and_todo():
    text = tap_text(with_results(*BUNDLE.results, KNOWN))

    found = [line.split(" - ")[0] for line, _ in points(text)]
    assert found == ["ok 1", "not ok 2", "ok 3", "not ok 4", "not ok 5", "not ok 6", "not ok 7"]
    assert "1..7" in text.splitlines()
    skipped, known = points(text)[2][0], points(text)[6][0]
    assert skipped.endswith(" # SKIP container app: the file is missing")
    assert " # TODO memory.high of container app of pod default/web is max, expected 63750144" in known
    assert known.endswith("runc#1 (vm/known.toml)")


def test_a_block_has_the_deciding_findings():
    block = points(tap_text(BUNDLE))[1][1]

    assert block["severity"] == "fail"
    assert block["duration_ms"] == 1500
    assert [one["verdict"] for one in block["findings"]] == ["deviates"]
    assert block["findings"][0]["expected"] == "63750144"
    assert block["text"].splitlines()[1] == "  cgroup   /kubepods.slice"
    assert points(tap_text(BUNDLE))[0][1] == {}


def test_an_empty_file_is_an_observation():
    case = result("e", Outcome.DEVIATES, reason="r", findings=(finding(Verdict.DEVIATES, observed=""),))

    assert points(tap_text(with_results(case)))[0][1]["findings"][0]["observed"] == ""


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("a # TODO b\nok 2 - c", "a # TODO b ok 2 - c"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("tab\tand ümlaut \u2028", "tab and ümlaut"),
    ],
)
def test_a_machines_text_makes_no_line(reason, shown):
    case = result("x", Outcome.NOT_OBSERVABLE, reason=reason)

    text = tap_text(with_results(case))

    assert points(text)[0][0] == f"ok 1 - values/test_values.py::test_pod[x] # SKIP {shown}"
    assert len(points(text)) == 1


def test_a_name_is_not_read_as_a_directive():
    text = tap_text(with_results(result("a # SKIP \\ b", Outcome.DEVIATES, reason="r")))

    assert points(text)[0][0] == "not ok 1 - values/test_values.py::test_pod[a \\# SKIP \\\\ b]"


@pytest.mark.parametrize("said", ["  begins with spaces\nsecond", "a\n\n  b\t#c: d\n", "---\n...\nok 1", "x: |\n- y"])
def test_any_text_is_read_back(said):
    case = result("x", Outcome.MACHINERY, reason="r", text=said, error_code=3)

    assert points(tap_text(with_results(case)))[0][1]["text"].strip("\n") == said.strip("\n")


def test_errors_outside_of_cases_are_a_point_and_an_interrupt_bails_out():
    text = tap_text(with_results(error="QEMU is missing\nmore", inconsistencies=("it lies",), interrupted=True))

    assert text.splitlines()[:2] == ["TAP version 14", "1..1"]
    assert points(text)[0][0] == "not ok 1 - the run"
    assert points(text)[0][1]["message"] == "QEMU is missing"
    assert "it lies" in points(text)[0][1]["text"]
    assert text.splitlines()[-1] == "Bail out! the run was interrupted, 2 cases were not run"


def test_a_run_without_cases_has_an_empty_plan():
    empty = Bundle(started="2026-01-02T03:04:05+00:00", ended="2026-01-02T03:04:05+00:00", exit_code=5)

    assert tap_text(empty).splitlines()[1] == "1..0 # SKIP no case was run"


def test_known_deviations_that_are_gone_are_comments():
    assert "# known deviation that did not occur: runc 1" in tap_text(with_results(known_gone=("runc 1",)))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_in_the_first_line_alone(version):
    first, _, rest = tap_text(BUNDLE, version=version).partition("\n")

    assert first == f"TAP version {version}"
    assert rest == tap_text(BUNDLE).partition("\n")[2]


def test_perls_prove_reads_version_13(tmp_path):
    prove = shutil.which("prove")
    if prove is None:
        pytest.skip("no prove on this host")
    whole = tmp_path / "whole.tap"
    whole.write_text(tap_text(with_results(*BUNDLE.results, KNOWN), version=13))

    read = subprocess.run([prove, "--exec", "cat", whole], capture_output=True, text=True, check=False)

    assert "Parse errors" not in read.stdout
    assert re.search(r"Tests: 7 Failed: 4\)", read.stdout)
