"""Two runs compared: what got worse, what got better, what is only in one, and how they ran differently."""

import dataclasses
import json

import pytest

from memqos.bundles.comparing import compare, comparison_lines
from memqos.bundles.reading import read_results
from memqos.report.outcome import Outcome
from tests.documents import misfits
from tests.recorded import TRIXIE, copied, deviating
from tests.unit.report.sample import BUNDLE, result


def runs(tmp_path, change):
    return read_results(TRIXIE).bundle, read_results(copied(tmp_path / "new", change=change)).bundle


def test_the_same_run_does_not_differ_from_itself():
    bundle = read_results(TRIXIE).bundle

    comparison = compare(bundle, bundle)

    assert (comparison.changes, comparison.differences, comparison.timing, comparison.same) == ((), (), (), 4)
    assert list(comparison_lines(comparison)) == ["comparison: 0 new deviations, 0 cases differ, 4 are the same"]


def test_new_deviations_are_worse_and_come_first(tmp_path):
    old, new = runs(tmp_path, deviating)

    comparison = compare(old, new)

    (change,) = comparison.new_deviations
    assert (change.what, change.claim, change.knob) == ("changed", "throttling/high-throttles", "memory.high")
    assert change.subject == "container app of pod default/over-limit"
    assert change.before == "conforms: 62074880, expected 62074880"
    assert change.after == "deviates: max, expected 62074880"
    assert comparison.same == 3
    lines = list(comparison_lines(comparison))
    assert lines[0] == "new deviations:"
    assert lines[-1] == "comparison: 1 new deviation, 1 cases differ, 3 are the same"
    assert misfits(comparison.to_json(), "comparison") == []


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_of_a_case_that_merged_results_have_twice_the_worse_one_counts(tmp_path, order):
    """A gate was passed: the conforming one hid the deviating one."""
    old, new = runs(tmp_path, deviating)
    both = dataclasses.replace(new, results=[*new.results, *old.results][::order])

    assert len(compare(old, both).new_deviations) == 1
    assert compare(both, new).new_deviations == ()


def test_what_deviated_and_does_not_any_more_is_no_new_deviation(tmp_path):
    old, new = runs(tmp_path, deviating)

    comparison = compare(new, old)

    assert comparison.new_deviations == ()
    assert [change.after for change in comparison.changes if change.knob] == ["conforms: 62074880, expected 62074880"]


def test_a_persistent_deviation_is_not_new(tmp_path):
    _, new = runs(tmp_path, deviating)

    def further(case):
        deviating(case)
        for finding in case["findings"]:
            finding["observed"] = "4096" if finding["verdict"] == "deviates" else finding["observed"]

    comparison = compare(new, read_results(copied(tmp_path / "further", change=further)).bundle)

    assert [(change.what, change.worse) for change in comparison.changes] == [("changed", False)]


def test_what_conforms_may_have_been_observed_otherwise(tmp_path):
    def otherwise(case):
        for finding in case["findings"]:
            finding["observed"] += " and more"

    assert compare(*runs(tmp_path, otherwise)).changes == ()


def test_cases_and_findings_of_one_run_alone_are_new_or_gone(tmp_path):
    folder = copied(tmp_path / "less", killed=True)
    lines = (folder / "findings.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    dropped = first["findings"].pop()
    (folder / "findings.jsonl").write_text("\n".join([json.dumps(first), *lines[1:3]]) + "\n")

    gone = compare(read_results(TRIXIE).bundle, read_results(folder).bundle).changes
    new = compare(read_results(folder).bundle, read_results(TRIXIE).bundle).changes

    assert [(change.what, change.knob, change.after) for change in gone] == [
        ("gone", dropped["knob"], ""),
        ("gone", "", ""),
    ]
    assert [(change.what, change.before, change.worse) for change in new] == [("new", "", False), ("new", "", False)]


def test_a_new_case_that_deviates_is_a_new_deviation(tmp_path):
    folder = copied(tmp_path / "less", killed=True)
    lines = [line for line in (folder / "findings.jsonl").read_text().splitlines() if "crossing" not in line]
    (folder / "findings.jsonl").write_text("\n".join(lines) + "\n")

    _, new = runs(tmp_path, deviating)

    assert len(compare(read_results(folder).bundle, new).new_deviations) == 1


def test_another_runtime_is_compared_with_the_first_if_each_run_has_one(tmp_path):
    def crun(case):
        case["runtime"] = "containerd+crun"

    old, new = runs(tmp_path, crun)

    assert compare(old, new).same == 4


def test_settings_versions_hashes_and_timing_that_differ_are_named(tmp_path):
    folder = copied(tmp_path / "other")
    bundle = json.loads((folder / "bundle.json").read_text())
    bundle["settings"]["driver"] = {"value": ["cgroupfs"], "origin": "--driver"}
    bundle["settings"]["results"]["value"] = "elsewhere"
    machine = bundle["machines"][0]
    machine["versions"]["runc"] = "1.3.0"
    machine["image_manifest"]["files"]["vmlinuz"]["sha256"] = "0" * 64
    machine["guest_file"] = [{"path": "./my-runc", "modes": [493, 420]}]
    machine["timing"]["create"]["median"] = 9.0
    machine["restore_seconds"] = {"running": 77}
    (folder / "bundle.json").write_text(json.dumps(bundle))

    comparison = compare(read_results(TRIXIE).bundle, read_results(folder).bundle)

    assert [(one.name, one.after) for one in comparison.differences] == [
        ("setting driver", "cgroupfs"),
        ("machine trixie versions runc", "1.3.0"),
        ("machine trixie image_manifest files vmlinuz sha256", "0" * 64),
        ("machine trixie guest_file[0] path", "./my-runc"),
        ("machine trixie guest_file[0] modes", "493, 420"),
    ]
    assert [(one.name, one.after) for one in comparison.timing] == [("create", "9.000 s")]


def test_a_run_of_several_systems_is_compared_with_a_run_of_one_of_them():
    """A case is named after its system only if a run has several."""
    of = {"runtime": "containerd+runc", "driver": "systemd"}
    matrix = [
        result("v1.36-a-forky", Outcome.CONFORMS, profile="forky", **of),
        result("v1.36-a-trixie", Outcome.CONFORMS, profile="trixie", **of),
        result("trixie", Outcome.CONFORMS, profile="trixie", **of),
    ]
    alone = [
        result("v1.36-a", Outcome.DEVIATES, profile="trixie", **of),
        dataclasses.replace(matrix[2], id=matrix[2].id.removesuffix("[trixie]"), outcome=Outcome.CONFORMS),
    ]
    old, new = (dataclasses.replace(BUNDLE, results=tuple(some), machines=()) for some in (matrix, alone))

    comparison = compare(old, new)

    assert [(change.what, change.before, change.after, change.worse) for change in comparison.changes] == [
        ("changed", "conforms", "deviates", True), ("gone", "conforms", "", False)
    ]  # fmt: skip
    assert comparison.same == 1
