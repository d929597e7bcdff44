"""A bundle that contradicts its own cases and findings is reported as such, in every verb."""

import json

import pytest

from memqos.bundles.comparing import compare
from memqos.bundles.files import BUNDLE, FINDINGS, seal
from memqos.bundles.reading import read_results
from memqos.cli.main import run
from memqos.errors import ExitCode
from memqos.page.building import overview
from memqos.report.ci_results import finished_json, junit_xml
from memqos.report.markdown import badge_json, markdown
from memqos.report.outcome import Outcome
from memqos.report.summary import summary_lines
from memqos.report.verdict import verdict_line
from tests.documents import misfits
from tests.recorded import TRIXIE, cases_of, copied, deviating, of_these

CONTRADICTS = "verdict: the results contradict themselves"


def edited(folder, change, *, lines=True):
    """Edit bundle.json, and with `lines` the cases of findings.jsonl like those of the bundle."""
    bundle = json.loads((folder / BUNDLE).read_text())
    change(bundle)
    (folder / BUNDLE).write_text(json.dumps(bundle))
    if lines:
        (folder / FINDINGS).write_text("".join(f"{json.dumps(case)}\n" for case in bundle["results"]))
    return folder


def green_code(bundle):
    bundle["exit_code"] = 0


def outcomes_alone(bundle):
    for case in bundle["results"]:
        case["outcome"] = "conforms"
    green_code(bundle)


def outcomes_and_counts(bundle):
    outcomes_alone(bundle)
    bundle["counts"]["tests"] |= {"conforms": len(bundle["results"]), "deviates": 0}


def outcomes_and_no_counts(bundle):
    outcomes_alone(bundle)
    del bundle["counts"]


def verdicts_without_counts(bundle):
    outcomes_alone(bundle)
    for case in bundle["results"]:
        for finding in case["findings"]:
            finding["verdict"] = "conforms"


def case_removed(bundle):
    bundle["results"] = [case for case in bundle["results"] if case["outcome"] == "conforms"]
    green_code(bundle)


def not_observable(bundle):
    for case in bundle["results"]:
        case["outcome"] = "not observable" if case["outcome"] == "deviates" else case["outcome"]
    green_code(bundle)


def error_told(bundle):
    cases = bundle["results"]
    outcomes_alone(bundle)
    for case in cases:
        case["findings"] = [one for one in case["findings"] if one["verdict"] == "conforms"]
    bundle.update(of_these(bundle, cases))
    bundle["error"] = "the machine went away"


EDITS = [
    green_code, outcomes_alone, outcomes_and_counts, outcomes_and_no_counts, verdicts_without_counts, case_removed,
    not_observable, error_told,
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda one: one.__name__)
def test_no_edit_makes_a_deviating_run_green(tmp_path, edit):
    results = read_results(edited(copied(tmp_path / "r", change=deviating), edit))
    bundle = results.bundle

    assert bundle.inconsistencies
    assert bundle.exit_code != ExitCode.CONFORMS
    assert verdict_line(bundle).startswith(CONTRADICTS)
    assert CONTRADICTS in "\n".join(summary_lines(bundle, results_folder="r"))
    assert json.loads(badge_json(bundle))["color"] in {"yellow", "red"}
    assert json.loads(badge_json(bundle))["message"] == "the results contradict themselves"
    assert not markdown(bundle).startswith("## ✅")
    assert "the results contradict themselves" in junit_xml(bundle)
    assert json.loads(finished_json(bundle))["passed"] is False
    assert overview(results)["tone"] != "good"
    assert overview(results)["inconsistencies"] == bundle.inconsistencies
    assert misfits(bundle.to_json(), "bundle") == []


def test_the_findings_decide_of_a_case_that_hides_them(tmp_path):
    bundle = read_results(edited(copied(tmp_path / "r", change=deviating), outcomes_and_counts)).bundle

    assert bundle.exit_code == ExitCode.DEVIATES
    assert bundle.outcomes["deviates"] == 1
    assert [result.outcome for result in bundle.results if result.deviations] == [Outcome.DEVIATES]
    assert compare(read_results(TRIXIE).bundle, bundle).new_deviations


def test_a_red_verdict_for_findings_that_all_conform_is_a_contradiction_too(tmp_path):
    bundle = read_results(edited(copied(tmp_path / "r"), lambda one: one.update(exit_code=1))).bundle

    assert bundle.inconsistencies == ("its exit code is 1 (deviates), but its results give 0 (conforms).",)
    assert bundle.exit_code == ExitCode.MACHINERY


def test_an_edit_of_one_file_is_found_by_the_other(tmp_path):
    for number, name in enumerate((BUNDLE, FINDINGS)):
        folder = copied(tmp_path / str(number), change=deviating)
        edited(folder, outcomes_and_counts, lines=name == FINDINGS)
        if name == FINDINGS:
            honest = copied(tmp_path / "honest", change=deviating)
            (folder / BUNDLE).write_text((honest / BUNDLE).read_text())
        said = read_results(folder).bundle.inconsistencies
        assert any("findings.jsonl and bundle.json disagree about 1 case, such as " in one for one in said)


def test_a_consistent_folder_is_checked_by_its_hashes(tmp_path):
    folder = copied(tmp_path / "r", change=deviating)
    seal(folder)
    assert read_results(folder).bundle.inconsistencies == ()
    honest = copied(tmp_path / "honest")
    for name in (BUNDLE, FINDINGS):
        (folder / name).write_bytes((honest / name).read_bytes())

    bundle = read_results(folder).bundle

    assert bundle.inconsistencies == (
        "bundle.json was changed after the run (SHA256SUMS).",
        "findings.jsonl was changed after the run (SHA256SUMS).",
    )
    assert (bundle.exit_code, verdict_line(bundle).startswith(CONTRADICTS)) == (3, True)


def test_a_killed_run_cannot_hide_findings(tmp_path):
    folder = copied(tmp_path / "r", change=deviating, killed=True)
    cases = cases_of(folder)
    (folder / FINDINGS).write_text("".join(json.dumps({**case, "outcome": "conforms"}) + "\n" for case in cases))

    assert read_results(folder).bundle.exit_code == ExitCode.DEVIATES


def test_an_exit_code_for_an_error_needs_the_error(tmp_path):
    def told(bundle):
        bundle.update(exit_code=3, error="the machine went away")

    assert read_results(edited(copied(tmp_path / "told"), told)).bundle.inconsistencies == ()
    untold = edited(copied(tmp_path / "untold"), lambda one: one.update(exit_code=3))
    assert read_results(untold).bundle.inconsistencies
    pipe = edited(copied(tmp_path / "pipe"), lambda one: one.update(exit_code=141))
    assert read_results(pipe).bundle.inconsistencies == ()


def sealed(folder, change):
    seal(folder)
    change(folder)
    return folder


def append(folder):
    file = next(folder.glob("tests/*/readings.jsonl*"))
    file.write_bytes(file.read_bytes() + b"\n")


def test_a_merge_of_an_unverified_folder_stays_marked(capsys, tmp_path):
    folder = sealed(copied(tmp_path / "r"), append)

    assert run(["report", "merge", str(folder), "-o", str(tmp_path / "made")]) == 0

    assert "r was changed after its run (memqos report verify): changed: tests/" in capsys.readouterr().err
    made = read_results(tmp_path / "made")
    [part] = made.bundle.merged.parts
    assert part.verified == "failed"
    assert [one.startswith("changed: tests/") for one in part.faults] == [True]
    assert any(one.startswith("r was changed after its run") for one in made.missing)
    assert misfits(made.bundle.to_json(), "bundle") == []
    assert run(["report", "verify", str(tmp_path / "made")]) == 0
    run(["report", "merge", str(tmp_path / "made"), str(TRIXIE), "-o", str(tmp_path / "again")])
    parts = read_results(tmp_path / "again").bundle.merged.parts
    assert [one.verified for one in parts] == ["failed", "not verified"]


def test_a_contradiction_is_carried_on(capsys, tmp_path):
    folder = sealed(copied(tmp_path / "r", change=deviating), lambda folder: edited(folder, outcomes_and_counts))

    run(["report", "merge", str(folder), "-o", str(tmp_path / "made")])

    assert "note: the results contradict themselves: " in capsys.readouterr().err
    bundle = read_results(tmp_path / "made").bundle
    assert any("bundle.json was changed after the run" in one for one in bundle.inconsistencies)
    assert verdict_line(bundle).startswith(CONTRADICTS)


def test_what_verifies_is_verified(tmp_path):
    folder = sealed(copied(tmp_path / "r"), lambda _: None)
    run(["report", "merge", str(folder), "-o", str(tmp_path / "made")])
    assert [one.verified for one in read_results(tmp_path / "made").bundle.merged.parts] == ["verified"]


def test_compare_names_the_changed_folder(capsys, tmp_path):
    old = sealed(copied(tmp_path / "old"), lambda _: None)
    new = sealed(copied(tmp_path / "new"), append)

    assert run(["report", "compare", str(old), str(new), "--json"]) == 0

    streams = capsys.readouterr()
    document = json.loads(streams.out)
    assert document["verified"] == {"old": "verified", "new": "failed"}
    assert misfits(document, "comparison") == []
    assert "new: changed since its run (memqos report verify): changed: tests/" in streams.err


def test_a_gate_is_not_passed_by_results_that_contradict_themselves(capsys, tmp_path):
    new = edited(copied(tmp_path / "new"), lambda one: one.update(exit_code=1))
    assert run(["report", "compare", str(TRIXIE), str(new), "--fail-on", "new-deviations"]) == 3
    assert "note: new: the results contradict themselves: " in capsys.readouterr().err
