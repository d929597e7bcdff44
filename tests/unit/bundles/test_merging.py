"""Several runs become one folder, in which each part keeps its machines, its evidence and its provenance."""

import json

import pytest

from memqos.bundles.evidence import folder_of
from memqos.bundles.merging import merge
from memqos.bundles.reading import read_results
from memqos.errors import ExitCode, UsageError
from memqos.page.building import page_html
from tests.documents import misfits
from tests.recorded import copied, deviating, of_these
from tests.unit.page.reading import Page


def shard(tmp_path, name, cases, **options):
    """A copy with some of the cases."""
    folder = copied(tmp_path / name, **options)
    lines = (folder / "findings.jsonl").read_text().splitlines()
    kept = [json.loads(lines[number]) for number in cases]
    (folder / "findings.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in kept))
    if (folder / "bundle.json").exists():
        bundle = json.loads((folder / "bundle.json").read_text())
        (folder / "bundle.json").write_text(json.dumps(of_these(bundle, kept)))
    return read_results(folder)


def test_shards_become_one_run(tmp_path):
    merged = merge([shard(tmp_path, "one", [0, 1]), shard(tmp_path, "two", [2, 3])], tmp_path / "all")

    assert [result.machine for result in merged.bundle.results] == ["one-main-0"] * 2 + ["two-main-0"] * 2
    assert merged.bundle.exit_code == ExitCode.CONFORMS
    assert [(part.name, part.cases) for part in merged.bundle.merged.parts] == [("one", 2), ("two", 2)]
    assert merged.bundle.merged.doubles == merged.bundle.merged.contradictions == ()
    assert misfits(merged.bundle.to_json(), "bundle") == []
    for result in merged.bundle.results:
        assert folder_of(tmp_path / "all", result) is not None, result.id


def test_what_was_merged_is_read_back_and_has_a_report_with_all_evidence(tmp_path):
    merged = merge([shard(tmp_path, "one", [0, 1]), shard(tmp_path, "two", [2, 3])], tmp_path / "all")
    (tmp_path / "all" / "bundle.json").write_text(merged.bundle.to_text())

    again = read_results(tmp_path / "all")

    assert again.bundle == merged.bundle
    assert all(case["evidence"] for case in Page(page_html(again)).data("index")["cases"])


def test_shards_of_which_one_is_missing_are_a_run_that_was_not_ended(tmp_path):
    """Otherwise a badge is green though a job of the matrix left no results."""
    parts = [shard(tmp_path, name, [number]) for number, name in enumerate(["one", "two"])]
    for number, part in enumerate(parts, 1):
        part.bundle.shard.update(number=number, of=3, cases=4, division="abc")

    merged = merge(parts, tmp_path / "all").bundle

    assert (merged.interrupted, merged.exit_code) == (True, ExitCode.INTERRUPTED)
    assert merged.merged.contradictions == ("of 3 shards 3 is missing",)


def test_a_killed_shard_is_reported_as_killed_and_not_missing(tmp_path):
    """It was reported as a shard without results."""
    division = {"of": 2, "cases": 4, "division": "abc"}
    whole = shard(tmp_path, "one", [0, 1])
    whole.bundle.shard.update(number=1, **division)
    killed = shard(tmp_path, "two", [2], killed=True)
    begun = [f"{killed.bundle.results[0].id}\n", "values/test_values.py::test_it[a]\n", "values/test_val"]
    (killed.folder / "begun.txt").write_text("".join(begun))
    head = {"schema": "memqos-bundle/3", "started": "2026-01-02T03:04:05+00:00", "cases": 2}
    (killed.folder / "run.json").write_text(json.dumps({**head, "shard": {"number": 2, **division}}))

    merged = merge([whole, read_results(killed.folder)], tmp_path / "all").bundle

    assert merged.merged.contradictions == ()
    assert (merged.interrupted, merged.exit_code, merged.not_run) == (True, ExitCode.INTERRUPTED, 1)
    assert merged.error == (
        "two: No complete bundle.json: the run was killed or is still running, after 1 of its 2 cases, "
        "while it ran values/test_values.py::test_it[a]."
    )


def test_nothing_is_merged_into_one_of_the_parts(tmp_path):
    parts = [shard(tmp_path, "one", [0]), shard(tmp_path, "two", [1])]

    with pytest.raises(UsageError, match=r"all' is within '.*one', and would change it\."):
        merge(parts, tmp_path / "one" / "all")
    assert not (tmp_path / "one" / "all").exists()


def test_what_was_merged_before_keeps_its_parts(tmp_path):
    inner = merge([shard(tmp_path, "one", [0]), shard(tmp_path, "two", [1])], tmp_path / "first")
    (tmp_path / "first" / "bundle.json").write_text(inner.bundle.to_text())

    merged = merge([read_results(tmp_path / "first"), shard(tmp_path, "three", [2])], tmp_path / "all")

    told = [(part.name, part.cases) for part in merged.bundle.merged.parts]
    assert told == [("first-one", 1), ("first-two", 1), ("three", 1)]
    machines = [result.machine for result in merged.bundle.results]
    assert machines == ["first-one-main-0", "first-two-main-0", "three-main-0"]
    assert merged.bundle.merged.parts[0].settings == inner.bundle.merged.parts[0].settings


def test_a_duplicate_case_is_kept_once_and_named(tmp_path):
    merged = merge([shard(tmp_path, "one", [0, 1]), shard(tmp_path, "two", [1, 2])], tmp_path / "all")

    assert len(merged.bundle.results) == 3
    (line,) = merged.bundle.merged.doubles
    assert line.endswith(" (one: conforms, two: conforms)")


def test_a_contradiction_is_named_and_both_are_kept(tmp_path):
    parts = [shard(tmp_path, "one", range(4)), shard(tmp_path, "two", range(4), change=deviating)]

    merged = merge(parts, tmp_path / "all")

    assert len(merged.bundle.results) == 5
    (line,) = merged.bundle.merged.contradictions
    assert "crossing_memory_high" in line
    assert line.endswith(" (one: conforms, two: deviates)")
    assert merged.bundle.exit_code == ExitCode.DEVIATES


@pytest.mark.parametrize(
    ("what", "value"), [("kernel", "7.0"), ("topology", "four-numa-nodes"), ("runtimes", ["runc 9"])]
)
def test_the_same_case_on_another_kind_of_machine_is_neither_double_nor_contradiction(tmp_path, what, value):
    first, second = shard(tmp_path, "one", range(4)), shard(tmp_path, "two", range(4), change=deviating)
    second.bundle.machines[0][what] = value

    merged = merge([first, second], tmp_path / "all")

    assert len(merged.bundle.results) == 8
    assert merged.bundle.merged.doubles == merged.bundle.merged.contradictions == ()


def test_a_killed_part_is_reported(tmp_path):
    parts = [shard(tmp_path, "one", [0]), shard(tmp_path, "two", [1], killed=True)]

    merged = merge(parts, tmp_path / "all")

    assert merged.missing[1].startswith("two: No complete bundle.json")
    assert merged.bundle.interrupted
    assert merged.bundle.exit_code == ExitCode.INTERRUPTED


def test_folders_with_equal_names_are_distinguished_by_their_parents(tmp_path):
    parts = [shard(tmp_path, f"{host}/results", [number]) for number, host in enumerate(("a", "b"))]

    merged = merge(parts, tmp_path / "all")

    assert [part.name for part in merged.bundle.merged.parts] == ["a-results", "b-results"]


def test_merging_with_itself_or_over_existing_files_is_rejected(tmp_path):
    one = shard(tmp_path, "one", [0])

    with pytest.raises(UsageError, match="is named twice"):
        merge([one, one], tmp_path / "all")
    with pytest.raises(UsageError, match="is not empty"):
        merge([one], one.folder)
    with pytest.raises(UsageError, match="no results to merge"):
        merge([], tmp_path / "all")


def test_a_link_out_of_the_results_is_not_followed(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("private")
    one = shard(tmp_path, "one", [0])
    (one.folder / "tests" / "led-out").symlink_to(tmp_path / "secret")

    merge([one], tmp_path / "all")

    assert not (tmp_path / "all" / "tests" / "one-led-out").exists()
