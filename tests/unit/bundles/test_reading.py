"""A results folder is read back as it was written, and reports what it lacks."""

import json
import os
from pathlib import Path

import pytest

from memqos.bundles import files
from memqos.bundles.reading import read_results
from memqos.errors import ExitCode, UsageError
from memqos.report.outcome import Outcome
from tests.recorded import TRIXIE, copied, deviating


def test_complete_results_equal_the_written_ones():
    results = read_results(TRIXIE)

    assert results.name == "trixie"
    assert [result.outcome for result in results.bundle.results] == [Outcome.CONFORMS] * 4
    written = json.loads((TRIXIE / "bundle.json").read_text())
    assert results.bundle.to_json()["results"] == written["results"]
    assert results.bundle.to_json()["counts"] == written["counts"]
    assert results.bundle.exit_code == ExitCode.CONFORMS


def test_a_file_of_the_folder_means_the_folder():
    assert read_results(TRIXIE / "bundle.json").bundle == read_results(TRIXIE).bundle


def test_a_killed_run_has_its_findings_and_a_note_on_its_end(tmp_path):
    folder = copied(tmp_path / "killed", change=deviating, killed=True)
    (folder / "run.json").write_text(json.dumps({"schema": "memqos-bundle/3", "started": "2026-01-02T03:04:05+00:00"}))

    results = read_results(folder)

    assert len(results.bundle.results) == 4
    assert results.bundle.exit_code == ExitCode.DEVIATES
    assert results.bundle.started == "2026-01-02T03:04:05+00:00"
    assert [machine["id"] for machine in results.bundle.machines] == ["main-0"]
    assert results.missing[0].startswith("No complete bundle.json: the run was killed or is still running")
    assert "The settings of the run and their origins are unknown." in results.missing


def test_a_killed_run_has_its_progress_and_the_running_cases(tmp_path):
    folder = copied(tmp_path / "killed", killed=True)
    ids = [json.loads(line)["id"] for line in (folder / "findings.jsonl").read_text().splitlines()]
    (folder / "run.json").write_text(json.dumps({"schema": "memqos-bundle/3", "cases": 9}))
    (folder / "begun.txt").write_text("".join(f"{case}\n" for case in [*ids, "a/test_a.py::test_it", "cut"])[:-2])

    results = read_results(folder)

    [said] = results.unended
    assert said.endswith(
        "the run was killed or is still running, after 4 of its 9 cases, while it ran a/test_a.py::test_it."
    )
    assert results.missing[0] == results.unended[0]
    assert (results.bundle.not_run, results.bundle.interrupted) == (5, True)


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder", "bytes"])
def test_what_a_killed_run_was_at_is_read_from_a_file_of_its_own_alone(tmp_path, kind):
    """A link led a line of any file into reports, and a pipe blocked them."""
    folder = copied(tmp_path / "killed", killed=True)
    (folder / "run.json").write_text(json.dumps({"schema": "memqos-bundle/3", "cases": 9}))
    (tmp_path / "secret").write_text("do not tell\n")
    begun = folder / "begun.txt"
    match kind:
        case "a link":
            begun.symlink_to(tmp_path / "secret")
        case "a pipe":
            os.mkfifo(begun)
        case "a folder":
            begun.mkdir()
        case "bytes":
            begun.write_bytes(b"\xff\xfe\x00")

    assert read_results(folder).unended[0].endswith("after 4 of its 9 cases.")


@pytest.mark.parametrize("asked", ["²/5", "2/", "/5", "0/5", "two/5", 3, None, ["2", "5"]])
def test_a_damaged_setting_names_no_shard(tmp_path, asked):
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"shard": {"value": asked, "origin": "--shard"}}}))

    assert read_results(tmp_path).bundle.shard == {}


def test_a_shard_that_was_killed_before_it_knew_its_cases_is_known_by_its_settings(tmp_path):
    (tmp_path / "killed").mkdir()
    settings = {"shard": {"value": "2/5", "origin": "--shard"}}
    (tmp_path / "killed" / "run.json").write_text(json.dumps({"schema": "memqos-bundle/3", "settings": settings}))

    results = read_results(tmp_path / "killed")

    assert results.bundle.shard == {"number": 2, "of": 5, "cases": 0, "division": ""}
    assert results.unended[0].endswith("its end and the number of missing cases are unknown.")


def test_a_run_that_was_killed_before_a_deviation_is_interrupted(tmp_path):
    assert read_results(copied(tmp_path / "killed", killed=True)).bundle.exit_code == ExitCode.INTERRUPTED


def test_a_line_that_was_cut_off_is_counted_and_the_others_are_read(tmp_path):
    folder = copied(tmp_path / "cut", killed=True)
    text = (folder / "findings.jsonl").read_text()
    (folder / "findings.jsonl").write_text(text[:-5000])

    results = read_results(folder)

    assert len(results.bundle.results) == 3
    assert "findings.jsonl is damaged in line 4, so cases are missing." in results.missing


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "bundle.json is damaged: Expecting value: line 1 column 1 (char 0)."),
        (b"[1]", "bundle.json is damaged: it contains no JSON object."),
        (b"{" * 5000, "bundle.json is damaged: "),
        (b'{"schema": "memqos-bundle/3", "results": {"a": 1}}', "The results in bundle.json are damaged."),
        (b'{"schema": "memqos-bundle/3", "results": [1, {}, 2, 3, 4]}', "bundle.json has malformed cases"),
        (b"\xff\xfe", "bundle.json is damaged: "),
    ],
)  # fmt: skip
def test_a_damaged_bundle_is_reported_and_its_findings_are_read(tmp_path, content, said):
    folder = copied(tmp_path / "damaged")
    (folder / "bundle.json").write_bytes(content)

    results = read_results(folder)

    assert len(results.bundle.results) == 4
    assert any(one.startswith(said) for one in results.missing), results.missing


@pytest.mark.parametrize(
    ("head", "value"),
    [("counts", []), ("counts", {"left_out": 3}), ("settings", {"a": 1}), ("machines", [1]), ("exit_code", "many"),
     ("host", None), ("claims", 3), ("versions", {"a": None})],
)  # fmt: skip
def test_a_field_of_another_kind_does_not_keep_the_rest_from_being_read(tmp_path, head, value):
    folder = copied(tmp_path / "odd")
    bundle = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**bundle, head: value}))

    assert len(read_results(folder).bundle.results) == 4


@pytest.mark.parametrize(
    ("head", "value", "why"),
    [
        ("settings", {"a": 1}, "settings.a: 'a' must be an object, not 1"),
        ("versions", {"a": None}, "versions.a: 'a' must be a string, not None"),
        ("shard", {"number": 0, "of": 2, "cases": 1, "division": ""}, "shard.number: 'number' must be a whole number"),
        ("claims", {"a/b": {"sentence": 1}}, "claims.a/b.sentence: 'sentence' must be a string, not 1"),
    ],
)
def test_a_field_of_another_kind_is_left_out_and_named(tmp_path, head, value, why):
    folder = copied(tmp_path / "odd")
    bundle = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**bundle, head: value}))

    told = [one for one in read_results(folder).missing if f"'{head}' is left out" in one]
    assert len(told) == 1
    assert told[0].startswith(f"bundle.json: {why}")


def test_findings_that_were_lost_are_those_of_the_bundle(tmp_path):
    folder = copied(tmp_path / "lost")
    (folder / "findings.jsonl").unlink()

    results = read_results(folder)

    assert len(results.bundle.results) == 4
    assert "findings.jsonl is missing." in results.missing


@pytest.mark.parametrize("place", ["nowhere", "file", "folder"])
def test_a_place_without_results_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    with pytest.raises(UsageError, match=r"is not a results folder|contains no results of memqos"):
        read_results(tmp_path / place)


def test_claims_are_those_that_the_run_kept(tmp_path):
    folder = copied(tmp_path / "own")
    bundle = json.loads((folder / "bundle.json").read_text())
    own = {"sentence": "It is so.", "source": "here", "kind": "state", "about": "runtime"}
    claims = dict.fromkeys({case["claim"] for case in bundle["results"]}, own)
    (folder / "bundle.json").write_text(json.dumps({**bundle, "claims": claims}))

    results = read_results(folder)

    assert {claim["sentence"] for claim in results.bundle.claims.values()} == {"It is so."}
    assert results.missing == ()


@pytest.mark.parametrize("name", ["bundle.json", "findings.jsonl"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_special_file_is_reported_and_the_other_file_is_read(tmp_path, name, make):
    folder = copied(tmp_path / "odd")
    (folder / name).unlink()
    make(folder / name)

    results = read_results(folder)

    assert len(results.bundle.results) == 4
    assert f"{name} is not a file." in results.missing


def test_long_findings_of_a_run_that_has_ended_are_compressed_and_read_as_before(tmp_path, monkeypatch):
    folder = copied(tmp_path / "long")
    before = read_results(folder)
    monkeypatch.setattr(files, "MANY_FINDINGS", 1000)
    files.compress_findings(folder)
    assert not (folder / "findings.jsonl").exists()
    assert (folder / "findings.jsonl.gz").stat().st_size * 4 < (TRIXIE / "findings.jsonl").stat().st_size
    assert read_results(folder) == before
    (folder / "bundle.json").unlink()
    assert len(read_results(folder / "findings.jsonl.gz").bundle.results) == 4


def test_short_findings_and_those_of_a_killed_run_stay_as_they_are(tmp_path, monkeypatch):
    short = copied(tmp_path / "short")
    files.compress_findings(short)
    monkeypatch.setattr(files, "MANY_FINDINGS", 1000)
    killed = copied(tmp_path / "killed", killed=True)
    files.compress_findings(killed)
    assert [(folder / "findings.jsonl").is_file() for folder in (short, killed)] == [True, True]


@pytest.mark.parametrize("spoilt", [lambda data: data[:-20], lambda _: b"no gzip", lambda data: data[:40] + data[60:]])
def test_damaged_compressed_findings_are_reported_and_read_from_the_bundle(tmp_path, monkeypatch, spoilt):
    folder = copied(tmp_path / "long")
    monkeypatch.setattr(files, "MANY_FINDINGS", 1000)
    files.compress_findings(folder)
    file = folder / "findings.jsonl.gz"
    file.write_bytes(spoilt(file.read_bytes()))

    results = read_results(folder)

    assert len(results.bundle.results) == 4
    assert any(one.startswith("findings.jsonl.gz is damaged: ") for one in results.missing)
