"""Pipes, devices and folders where a results folder or its verbs expect a regular file: named, never waited for."""

import os
import shutil
import subprocess

import pytest

from memqos.bundles.files import SIGNATURE, machines
from memqos.cli.main import run
from tests.recorded import copied

needs_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")


@pytest.fixture
def sealed(tmp_path, capsys):
    run(["report", "merge", str(copied(tmp_path / "r")), "-o", str(tmp_path / "s")])
    capsys.readouterr()
    return tmp_path / "s"


@pytest.fixture
def key(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    return tmp_path / "key"


def special(file, kind):
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "folder":
            file.mkdir()
    return file


each_kind = pytest.mark.parametrize("kind", ["pipe", "device", "folder"])


@each_kind
@pytest.mark.parametrize("name", ["machine.json", "timing.json"])
def test_machine_descriptions_are_read_from_regular_files_only(tmp_path, kind, name):
    folder = copied(tmp_path / "r", killed=True)
    [file] = folder.glob("machines/*/machine.json")
    file.with_name(name).unlink(missing_ok=True)
    special(file.with_name(name), kind)
    [said] = machines(folder)
    assert said["id"] == file.parent.name


@needs_keygen
@each_kind
def test_a_key_that_is_a_special_file_is_rejected(capsys, tmp_path, sealed, kind):
    place = special(tmp_path / "odd", kind)
    assert run(["report", "verify", str(sealed), "--sign-with", str(place)]) == 4
    assert "memqos: error: --sign-with: " in capsys.readouterr().err


@needs_keygen
@each_kind
def test_allowed_signers_that_are_no_plain_file(capsys, tmp_path, sealed, key, kind):
    place = special(tmp_path / "odd", kind)
    run(["report", "verify", str(sealed), "--sign-with", str(key)])
    assert run(["report", "verify", str(sealed), "--allowed-signers", str(place), "--signer", "me"]) == 4
    assert "memqos: error: --allowed-signers: " in capsys.readouterr().err


@needs_keygen
@each_kind
def test_a_signature_that_is_a_special_file_is_invalid(capsys, sealed, kind):
    special(sealed / SIGNATURE, kind)
    assert run(["report", "verify", str(sealed)]) == 1
    assert f"signature: {SIGNATURE} is not a regular file" in capsys.readouterr().out


@needs_keygen
def test_a_signature_outlives_a_key_that_cannot_sign(capsys, tmp_path, sealed, key):
    assert run(["report", "verify", str(sealed), "--sign-with", str(key)]) == 0
    before = (sealed / SIGNATURE).read_bytes()
    (tmp_path / "no-key").write_text("this is no key\n")
    assert run(["report", "verify", str(sealed), "--sign-with", str(tmp_path / "no-key")]) == 4
    assert "the key" in capsys.readouterr().err
    assert (sealed / SIGNATURE).read_bytes() == before
    assert run(["report", "verify", str(sealed)]) == 0
    assert 'signed: Good "memqos" signature' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["bundle.json", "findings.jsonl", "run.json", "SHA256SUMS"])
@pytest.mark.parametrize("verb", ["html", "junit", "tap", "markdown", "badge", "support"])
def test_a_report_never_replaces_a_runs_file(capsys, sealed, verb, name):
    before = (sealed / "bundle.json").read_bytes()
    assert run(["report", verb, str(sealed), "-o", str(sealed / name)]) == 4
    assert f"--output: a run wrote '{sealed / name}', and a report must not replace it." in capsys.readouterr().err
    assert (sealed / "bundle.json").read_bytes() == before
