"""A case's evidence in its folder is found, read within bounds, and never followed out of the results."""

import gzip
import json
import os

import pytest

from memqos.bundles import evidence
from memqos.bundles.evidence import LOG_BYTES, CaseEvidence, folder_of
from memqos.bundles.files import compress_evidence
from memqos.bundles.reading import read_results
from memqos.report.outcome import Outcome
from tests.recorded import TRIXIE, copied
from tests.unit.report.sample import result


def test_a_case_has_its_own_folder_or_that_of_its_population():
    found = {case.id.partition("::")[2]: folder_of(TRIXIE, case) for case in read_results(TRIXIE).bundle.results}

    own = found["test_without_memory_high_nothing_is_throttled[v1.37-default]"]
    shared = found["test_pod_and_its_containers_hold_their_values[v1.36-tiered-best-effort]"]
    assert own.name.startswith("throttling_test_throttling.py_test_without_memory_high")
    assert shared == TRIXIE / "populations" / "main-0-v1.36-tiered"


def test_no_folder_outside_of_the_results_is_taken(tmp_path):
    folder = copied(tmp_path / "out")
    (tmp_path / "secret").mkdir()
    (folder / "tests" / "led-out").symlink_to(tmp_path / "secret")

    for name in ("../secret", str(tmp_path / "secret"), "tests/led-out", "nowhere", "a\0b"):
        assert folder_of(folder, result("x", Outcome.CONFORMS, folder=name)) is None


def test_a_tree_has_expected_and_observed_values():
    tree = CaseEvidence(TRIXIE / "populations" / "main-0-v1.36-tiered").document()["tree"]

    node = next(one for one in tree if one["path"] == "/kubepods.slice/kubepods-besteffort.slice")
    assert node["level"] == "qos"
    assert node["expected"]["memory.max"] == node["observed"]["memory.max"]


def test_only_the_end_of_a_long_log_is_kept(tmp_path):
    (tmp_path / "dmesg.txt").write_text("first\n" + "x" * LOG_BYTES + "last\n")

    log = CaseEvidence(tmp_path).document()["logs"]["dmesg.txt"]

    assert log.startswith("… the last 24 KiB of 24:\n")
    assert log.endswith("last\n")
    assert "first" not in log


def test_damaged_files_are_reported(tmp_path):
    (tmp_path / "plan.json").write_text("[]")
    (tmp_path / "requests.jsonl").write_text('{"method": "start"}\n{"cut\n')
    (tmp_path / "readings.jsonl").write_bytes(b"\xff\n")

    document = CaseEvidence(tmp_path).document()

    assert document["told"] == [
        "readings.jsonl has 1 damaged line.",
        "plan.json is damaged.",
        "requests.jsonl has 1 damaged line.",
    ]
    assert [one["method"] for one in document["requests"]] == ["start"]


def test_odd_shapes_within_sound_json_are_passed_over(tmp_path):
    (tmp_path / "plan.json").write_text(
        json.dumps({"cgroups": [3, {"path": "/a", "knobs": [1]}, {"path": "/b", "knobs": {"x": 1}}]})
    )
    (tmp_path / "readings.jsonl").write_text(
        '{"cgroups": 3}\n{"cgroups": {"/a": 1, "/c": {"f": {"unreadable": "no"}, "g": null}}}\n'
    )

    tree = CaseEvidence(tmp_path).document()["tree"]

    assert [node["path"] for node in tree] == ["/a", "/b", "/c"]
    assert tree[2]["observed"] == {"f": "unreadable: no", "g": None}


def test_a_missing_folder_is_reported(tmp_path):
    assert CaseEvidence(tmp_path / "gone").document() == {
        "told": ["The folder cannot be read: No such file or directory."] * 3
    }


def test_what_was_compressed_is_read_the_same(tmp_path):
    own = next((copied(tmp_path / "out") / "tests").glob("throttling*crossing*"))
    before = CaseEvidence(own).document()
    looks = list(CaseEvidence(own).lines("series.jsonl"))

    compress_evidence([own, tmp_path / "gone"])

    assert sorted(path.name for path in own.iterdir()) == [
        "plan.json.gz", "readings.jsonl", "requests.jsonl.gz", "series.jsonl.gz"
    ]  # fmt: skip
    after = CaseEvidence(own)
    assert {**after.document(), "files": before["files"]} == before
    assert list(after.lines("series.jsonl")) == looks


@pytest.mark.parametrize(("size", "kept"), [(4095, "readings.jsonl"), (4096, "readings.jsonl.gz")])
def test_what_takes_more_than_a_block_of_the_disk_is_compressed(tmp_path, size, kept):
    (tmp_path / "readings.jsonl").write_text("x" * size)

    compress_evidence([tmp_path])

    assert [file.name for file in tmp_path.iterdir()] == [kept]


def test_logs_that_were_compressed_are_read_the_same(tmp_path):
    (tmp_path / "cgroups.txt").write_text("memory.high max\n" * 9000)
    (tmp_path / "serial.log").write_text("short")
    before = CaseEvidence(tmp_path).document()

    compress_evidence([tmp_path], with_logs=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgroups.txt.gz", "serial.log"]
    after = CaseEvidence(tmp_path)
    assert after.document()["logs"] == before["logs"]
    assert before["logs"]["cgroups.txt"].startswith("… the last 24 KiB of 140:\n")
    assert after.told == []


def test_damaged_or_huge_compressed_files_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "LONGEST_FILE", 1 << 16)
    (tmp_path / "plan.json.gz").write_bytes(gzip.compress(b"{}")[:-9])
    (tmp_path / "readings.jsonl.gz").write_bytes(b"nothing")
    (tmp_path / "requests.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * (1 << 15)))

    told = CaseEvidence(tmp_path).document()["told"]

    assert [one.partition(":")[0] for one in told] == [
        "readings.jsonl cannot be read",
        "plan.json cannot be read",
        "requests.jsonl is longer than any file of a run and was not read.",
    ]


def test_the_same_text_is_compressed_the_same(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "series.jsonl").write_text("x" * 9000)

    compress_evidence([tmp_path / "one", tmp_path / "two"])

    first, second = ((tmp_path / name / "series.jsonl.gz").read_bytes() for name in ("one", "two"))
    assert first == second


def test_no_pipe_is_waited_for_and_no_link_followed(tmp_path):
    (tmp_path / "own").mkdir()
    os.mkfifo(tmp_path / "own" / "requests.jsonl")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "own" / "plan.json").symlink_to(tmp_path / "secret.json")

    assert CaseEvidence(tmp_path / "own").document() == {
        "told": [f"{name} is not a regular file and was not read." for name in ("plan.json", "requests.jsonl")]
    }
