"""`memqos mutants` in memory, and its score in a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memqos.cli.main import run
from memqos.mutants import session
from memqos.mutants.programs import oci_runtime
from tests.documents import misfits

BUNDLE = Path(__file__).parents[2] / "bundles" / "trixie"
ROW = """
[mine]
wrong = "It drops memory.low."
kind = "OCI runtime"
knobs = ["KNOB"]
oci = { on = ["create"], change = [{ do = "drop", field = "unified/memory.low" }] }
"""


@pytest.fixture
def mine(tmp_path: Path):
    def write(knob: str = "memory.low") -> str:
        file = tmp_path / "mine.toml"
        file.write_text(ROW.replace("KNOB", knob))
        return str(file)

    return write


def test_mutants_in_memory_with_the_score_as_json(tmp_path: Path, capsys) -> None:
    score = tmp_path / "score.json"
    assert run(["mutants", "--fake", "-k", "drops-memory or utilization", "--json", str(score)]) == 0
    told = capsys.readouterr().out
    assert "killed     drops-memory-min" in told
    assert "equivalent utilization-clamped" in told
    assert "score: 5 of 5 mutants killed (100 %), 5 with the right file and cgroup; 1 equivalent, 0 not tried" in told
    document = json.loads(score.read_text())
    assert misfits(document, "mutants") == []
    assert (document["complete"], document["score"]["killed"]) == (True, 5)


def test_only_json_is_on_standard_output(mine, capsys) -> None:
    assert run(["mutants", "--fake", "--mutants", mine(), "--only-mine", "--json", "-"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["mutants"][0]["claim"].startswith("requests/")
    assert "killed     mine" in output.err


def test_a_claim_that_names_another_file_than_the_row_fails(mine, capsys) -> None:
    assert run(["mutants", "--fake", "--mutants", mine("memory.min"), "--only-mine"]) == 1
    assert "memory.low of the container; expected memory.min of the container" in capsys.readouterr().out


def test_a_survivor_fails(tmp_path: Path, capsys) -> None:
    file = tmp_path / "none.toml"
    file.write_text(ROW.replace("KNOB", "memory.low").replace("unified/memory.low", "unified/rdma.max"))
    assert run(["mutants", "--fake", "--mutants", str(file), "--only-mine"]) == 1
    assert "survived   mine" in capsys.readouterr().out


def test_no_mutant_that_the_fakes_can_imitate(capsys) -> None:
    assert run(["mutants", "--fake", "-k", "leaves-a-mount"]) == 5
    assert "the fakes do not have this fault" in capsys.readouterr().out


def test_a_draw_is_the_same_for_one_seed(capsys) -> None:
    def listed(*options: str) -> list[str]:
        assert run(["mutants", "--list", "--count", "5", *options]) == 0
        return [one.partition(":")[0] for one in capsys.readouterr().out.splitlines() if one[:1] != " "]

    first = listed("--seed", "2026-11-29")
    assert len(first) == 6
    assert listed("--seed", "2026-11-29") == first
    assert listed("--seed", "2026-11-30") != first


def test_a_list_names_files_and_claims(capsys) -> None:
    assert run(["mutants", "--list", "-k", "no-zswap-writeback"]) == 0
    told = capsys.readouterr().out
    assert "names    memory.zswap.writeback of the container" in told
    assert "claims   " in told


def test_a_program_with_a_fixed_fault(tmp_path: Path, capsys) -> None:
    program = tmp_path / "my-runc"
    assert run(["mutants", "-k", "no-zswap-writeback", "--write", str(program)]) == 0
    assert "memory.zswap.writeback" in program.read_text()
    assert program.stat().st_mode & 0o111
    assert run(["mutants", "-k", "no-zswap", "--write", str(program)]) == 4
    assert "one OCI runtime is needed" in capsys.readouterr().err
    assert oci_runtime.ALWAYS == {}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--only-mine",), "--only-mine: there are no mutants of yours."),
        (("-k", "nonsense"), "there is no mutant 'nonsense'"),
        (("--mutants", "gone.toml"), "gone.toml: the list of mutants cannot be read"),
    ],
)
def test_a_users_mistake(options: tuple[str, ...], told: str, capsys) -> None:
    assert run(["mutants", *options]) == 4
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("oci:youki", "--runtime: there is no runtime 'oci:youki'."),
        ("podman+youki --fake", "--runtime: there is no runtime 'podman+youki'."),
        ("oci:FOLDER/runc --fake", "/runc' is not an OCI runtime of memqos's images"),
        ("containerd+./none", "--runtime: 'none' cannot be read"),
        ("oci:runc,oci:FOLDER/uxc", "/uxc' is not an OCI runtime of memqos's images, and mutants replace those alone."),
        ("oci:FOLDER/runc", "/runc' is not an OCI runtime of memqos's images, and mutants replace those alone."),
    ],
)
def test_a_runtime_that_no_image_has_is_refused_before_a_machine_boots(
    words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(session, "check_host", lambda _: pytest.fail("a machine would boot"))
    for name in ("runc", "uxc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert run(["mutants", "--runtime", *words.replace("FOLDER", str(tmp_path)).split()]) == 4
    assert told in capsys.readouterr().err


def test_a_report_shows_the_score(tmp_path: Path, mine, capsys) -> None:
    score, page = tmp_path / "score.json", tmp_path / "page.html"
    run(["mutants", "--fake", "--mutants", mine(), "--only-mine", "--json", str(score)])
    capsys.readouterr()
    line = "the suites killed 1 of 1 mutants, 1 with the right file and cgroup (in memory; "
    assert run(["report", "show", str(BUNDLE), "--mutants", str(score)]) == 0
    assert f"mutants: {line}" in capsys.readouterr().out
    assert run(["report", "html", str(BUNDLE), "-o", str(page), "--mutants", str(score)]) == 0
    assert line in page.read_text()


def test_the_score_of_the_default_run_is_told_as_such(tmp_path: Path, mine, capsys) -> None:
    score = tmp_path / "score.json"
    assert run(["mutants", "--default", "--fake", "--mutants", mine(), "--only-mine", "--json", str(score)]) == 0
    assert run(["report", "show", str(BUNDLE), "--mutants", str(score)]) == 0
    assert "mutants: the default run killed 1 of 1 mutants" in capsys.readouterr().out


def test_a_file_without_a_score(tmp_path: Path, capsys) -> None:
    (tmp_path / "score.json").write_text('{"memqos_format": 1}')
    assert run(["report", "show", str(BUNDLE), "--mutants", str(tmp_path / "score.json")]) == 4
    assert "score.json" in capsys.readouterr().err
