"""`memqos report` as users call it: each verb on recorded results, bad input, and its exit codes."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET

import pytest

from memqos.cli.main import run
from tests.documents import misfits
from tests.recorded import TRIXIE, copied, deviating


@pytest.fixture
def said(capsys):
    def call(*words):
        code = run(["report", *map(str, words)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


def test_show_prints_the_runs_summary_and_notes_missing_parts(said, tmp_path):
    code, out, err = said("show", copied(tmp_path / "killed", change=deviating, killed=True))

    assert code == 0
    assert "throttling         1         1" in " ".join(out.split("\n")).replace("  ", " ") or "throttling" in out
    assert out.splitlines()[-1].startswith("verdict: deviates (4 cases observed, 1 deviate")
    assert "memqos: note: No complete bundle.json" in err


def test_html_junit_markdown_and_badge_are_written_or_printed(said, tmp_path):
    assert said("html", TRIXIE, "-o", tmp_path / "r.html")[:2] == (0, f"report: {tmp_path / 'r.html'}\n")
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert ET.fromstring(said("junit", TRIXIE)[1]).get("tests") == "4"  # noqa: S314 - it is our own
    assert said("markdown", TRIXIE)[1].startswith("## ✅ memqos trixie: conforms")
    assert json.loads(said("badge", TRIXIE, "--label", "x")[1])["label"] == "x"


def test_several_folders_are_read_as_one(said, tmp_path):
    code, out, _ = said("junit", TRIXIE, copied(tmp_path / "other", change=deviating))

    root = ET.fromstring(out)  # noqa: S314 - it is our own
    assert (code, root.get("tests"), root.get("failures")) == (0, "5", "1")


def test_a_run_that_observed_nothing_fails_a_gate(said, tmp_path):
    empty = copied(tmp_path / "empty", killed=True)
    (empty / "findings.jsonl").write_text("")

    code, out, err = said("compare", TRIXIE, empty, "--fail-on", "new-deviations")

    assert code == 5
    assert out.splitlines()[-1] == "comparison: 0 new deviations, 4 cases differ, 0 are the same; 4 are not in NEW"
    assert "memqos: note: empty: No complete bundle.json" in err
    assert said("compare", TRIXIE, empty)[0] == 0


@pytest.mark.parametrize("verb", ["junit", "tap", "badge"])
def test_what_is_missing_is_noted_where_a_report_has_no_room_for_it(said, tmp_path, verb):
    killed = copied(tmp_path / "killed", killed=True)

    assert "memqos: note: killed: No complete bundle.json" in said(verb, killed)[2]


def test_compare_fails_only_with_the_option_and_a_regression(said, tmp_path):
    worse = copied(tmp_path / "worse", change=deviating)

    assert said("compare", TRIXIE, worse)[0] == 0
    assert said("compare", TRIXIE, worse, "--fail-on", "new-deviations")[0] == 1
    assert said("compare", worse, TRIXIE, "--fail-on", "new-deviations")[0] == 0
    assert said("compare", worse, worse, "--fail-on", "new-deviations")[0] == 0
    document = json.loads(said("compare", TRIXIE, worse, "--json")[1])
    assert document["new_deviations"] == 1
    assert misfits(document, "comparison") == []


def test_merge_writes_a_folder_that_verifies(said, tmp_path):
    code, out, _ = said("merge", TRIXIE, copied(tmp_path / "other", change=deviating), "-o", tmp_path / "all")

    assert code == 0
    assert out.count("double: ") == 3
    assert out.count("contradiction: ") == 1
    assert {path.name for path in (tmp_path / "all").iterdir()} >= {"bundle.json", "junit_01.xml", "report.html"}
    assert said("verify", tmp_path / "all")[0] == 0
    (tmp_path / "all" / "junit_01.xml").write_text("")
    code, out, _ = said("verify", tmp_path / "all")
    assert code == 1
    assert "changed: junit_01.xml" in out


def test_what_was_merged_of_several_systems_has_their_matrix(said, tmp_path):
    def elsewhere(case):
        case["profile"] = "bookworm"

    said("merge", TRIXIE, copied(tmp_path / "other", change=elsewhere), "-o", tmp_path / "all")
    assert (tmp_path / "all" / "matrix.txt").read_text().splitlines()[0].split() == ["claim", "trixie", "bookworm"]
    said("merge", TRIXIE, "-o", tmp_path / "one")
    assert not (tmp_path / "one" / "matrix.txt").exists()


def test_verify_signs_only_an_unchanged_folder(said, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    said("merge", TRIXIE, "-o", tmp_path / "all")

    code, out, _ = said("verify", tmp_path / "all", "--sign-with", tmp_path / "key")
    assert code == 0
    assert 'signed: Good "memqos" signature' in out
    (tmp_path / "all" / "findings.jsonl").write_text("")
    (tmp_path / "all" / "SHA256SUMS.sig").unlink()
    assert said("verify", tmp_path / "all", "--sign-with", tmp_path / "key")[0] == 1
    assert not (tmp_path / "all" / "SHA256SUMS.sig").exists()


def test_results_without_hashes_do_not_verify(said):
    code, out, _ = said("verify", TRIXIE)

    assert code == 1
    assert out == "not sealed: the run wrote no SHA256SUMS; a killed run does not\n"


@pytest.fixture
def signed(said, tmp_path):
    """A merged folder, signed, with the file of allowed signers beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    (tmp_path / "signers").write_text(f"me@example.org {(tmp_path / 'key.pub').read_text()}")
    said("merge", TRIXIE, "-o", tmp_path / "all")
    assert said("verify", tmp_path / "all", "--sign-with", tmp_path / "key")[0] == 0
    return tmp_path / "all"


@pytest.mark.parametrize("change", ["the text", "the hashes", "the signature", "the signer", "no signature"])
def test_whatever_does_not_hold_of_a_signed_folder_answers_1(said, signed, change):
    by = ("--allowed-signers", signed.parent / "signers", "--signer")
    assert said("verify", signed, *by, "me@example.org")[0] == 0
    sums, signature = signed / "SHA256SUMS", signed / "SHA256SUMS.sig"
    match change:
        case "the text":
            (signed / "junit_01.xml").write_text("")
        case "the hashes":
            # As someone would who makes the hashes fit the change.
            sums.write_text("".join(sorted(sums.read_text().splitlines(keepends=True), reverse=True)))
        case "the signature":
            signature.write_bytes(signature.read_bytes()[:-60])
        case "no signature":
            signature.unlink()

    code, _, err = said("verify", signed, *by, "you@example.org" if change == "the signer" else "me@example.org")

    assert (code, err) == (1, "")


def test_damaged_hashes_and_results_that_are_gone_are_found_and_named(said, signed):
    for name in ("bundle.json", "findings.jsonl"):
        (signed / name).unlink()
    with (signed / "SHA256SUMS").open("a") as sums:
        sums.write("nothing\n")

    code, out, _ = said("verify", signed)

    assert code == 1
    assert "missing: bundle.json\nmissing: findings.jsonl\n" in out
    assert re.search(r"(?m)^damaged: SHA256SUMS:\d+ is not a hash and a name$", out)
    assert "signature: SHA256SUMS.sig is not valid: " in out


def test_a_run_is_verified_by_its_bundle_as_by_its_folder(said, signed):
    assert said("verify", signed / "bundle.json")[0] == 0


@pytest.mark.parametrize("words", [("--signer", "me@example.org"), ("--allowed-signers", "signers")])
def test_signer_and_allowed_signers_belong_together(said, words):
    code, _, err = said("verify", TRIXIE, *words)

    assert code == 4
    assert "Give both." in err


@pytest.mark.parametrize("verb", ["html", "show", "junit", "markdown", "badge", "verify"])
def test_a_folder_without_results_is_the_users_mistake(said, tmp_path, verb):
    code, _, err = said(verb, tmp_path)

    assert code == 4
    assert "contains no results of memqos: it has neither bundle.json nor findings.jsonl." in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("html", TRIXIE, "-o", "{there}"), 4, "cannot be written: Is a directory"),
        (("html", TRIXIE, "-o", "{there}/no/r.html"), 4, "cannot be written: No such file or directory"),
        (("html", TRIXIE, "-o", "/dev/full/x"), 4, "cannot be written"),
        (("merge", TRIXIE, "-o", "{there}"), 4, "is not empty"),
        (("merge", TRIXIE, TRIXIE, "-o", "{there}/new"), 4, "is named twice"),
        (("html",), 4, "RESULTS"),
        (("compare", TRIXIE), 4, "NEW"),
        (("verify", TRIXIE, "--sign-with", "{there}/none"), 1, ""),
        (("fly", TRIXIE), 4, "fly"),
    ],
)
def test_bad_input_is_rejected_in_a_sentence(said, tmp_path, words, code, says):
    (tmp_path / "file").write_text("")

    answered, _, err = said(*(str(word).format(there=tmp_path) for word in words))

    assert answered == code
    assert says in err


def test_a_special_output_file_is_written_to_and_not_replaced(said, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)

    assert said("badge", TRIXIE, "-o", tmp_path / "pipe")[0] == 0

    assert json.loads(reader.communicate(timeout=60)[0])["message"] == "conforms (4)"
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_a_link_to_the_new_report(said, tmp_path):
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "latest.html").symlink_to(tmp_path / "real.html")

    said("html", TRIXIE, "-o", tmp_path / "latest.html")

    assert (tmp_path / "latest.html").is_symlink()
    assert (tmp_path / "real.html").read_text().startswith("<!DOCTYPE html>")
