"""Copied evidence is regular files: nothing waits for a pipe, and no link leads out of the copy."""

import os
import socket

import pytest

from memqos.bundles.reading import read_results
from memqos.cli.main import run
from tests.recorded import copied


def case_of(folder):
    return next((folder / "tests").iterdir())


def pipe(file):
    os.mkfifo(file)


def bound(file):
    here = os.getcwd()  # noqa: PTH109 - the name of a socket is short
    os.chdir(file.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(file.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("make", [pipe, bound])
def test_a_special_file_in_the_evidence_is_rejected_before_any_copy(capsys, tmp_path, make):
    folder = copied(tmp_path / "r")
    make(case_of(folder) / "odd")

    assert run(["report", "merge", str(folder), "-o", str(tmp_path / "made")]) == 4

    err = capsys.readouterr().err
    assert f"'{case_of(folder) / 'odd'}' is a pipe, a socket or a device, which no run writes." in err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("to", ["/etc/passwd", "../../../secret", "nowhere", "/etc", "round"])
def test_a_link_out_of_the_evidence_is_left_out_and_named(capsys, tmp_path, to):
    (tmp_path / "secret").write_text("do not tell\n")
    folder = copied(tmp_path / "r")
    (case_of(folder) / "round").symlink_to("round")
    (case_of(folder) / "link").symlink_to(to)

    assert run(["report", "merge", str(folder), "-o", str(tmp_path / "made")]) == 0

    assert f"{case_of(folder).name}/link is a link to outside of " in capsys.readouterr().err
    assert [file for file in (tmp_path / "made").rglob("*") if file.is_symlink()] == []
    assert not list((tmp_path / "made").rglob("link"))


def test_a_link_within_a_case_stays_one(tmp_path):
    folder = copied(tmp_path / "r")
    (case_of(folder) / "a.txt").write_text("text\n")
    (case_of(folder) / "link.txt").symlink_to("a.txt")

    assert run(["report", "merge", str(folder), "-o", str(tmp_path / "made")]) == 0

    [link] = (tmp_path / "made").rglob("link.txt")
    assert (link.is_symlink(), link.read_text()) == (True, "text\n")


def test_a_case_that_links_to_another_folder_is_left_out(capsys, tmp_path):
    folder = copied(tmp_path / "r")
    (tmp_path / "elsewhere").mkdir()
    (folder / "tests" / "odd").symlink_to(tmp_path / "elsewhere")

    assert run(["report", "merge", str(folder), "-o", str(tmp_path / "made")]) == 0

    assert "tests/odd points outside of the results and is left out." in capsys.readouterr().err


@pytest.mark.parametrize("there", [False, True])
def test_an_incomplete_copy_is_removed(capsys, monkeypatch, tmp_path, there):
    def full(folder):
        raise OSError(28, "No space left on device", str(folder / "SHA256SUMS"))

    monkeypatch.setattr("memqos.cli.report.seal", full)
    if there:
        (tmp_path / "made").mkdir()

    assert run(["report", "merge", str(copied(tmp_path / "r")), "-o", str(tmp_path / "made")]) == 6

    assert "made/SHA256SUMS: No space left on device." in capsys.readouterr().err
    assert (tmp_path / "made").exists() is there
    assert not there or not list((tmp_path / "made").iterdir())


def test_a_folder_that_holds_something_is_let_be(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").write_text("x")
    assert run(["report", "merge", str(copied(tmp_path / "r")), "-o", str(tmp_path / "made")]) == 4
    assert (tmp_path / "made" / "mine").read_text() == "x"


def test_what_is_read_back_of_a_copy_is_the_same(tmp_path):
    folder = copied(tmp_path / "r")
    run(["report", "merge", str(folder), "-o", str(tmp_path / "made")])
    made, read = (read_results(one).bundle.results for one in (tmp_path / "made", folder))
    assert [(one.outcome, one.text, one.findings) for one in made] == [
        (one.outcome, one.text, one.findings) for one in read
    ]
