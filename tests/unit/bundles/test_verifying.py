"""Hashes say whether a folder is as its run left it, and an ssh key who vouches for that."""

import subprocess

import pytest

from memqos.bundles.verifying import seal, sign, signed_by, verify
from memqos.errors import MissingProgramError, UsageError
from tests.recorded import copied


@pytest.fixture
def sealed(tmp_path):
    folder = copied(tmp_path / "out")
    (folder / "tests" / "a\nname\\n").write_text("odd")
    seal(folder)
    return folder


@pytest.fixture
def key(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", tmp_path / "key"], check=True)
    return tmp_path / "key"


def test_an_untouched_folder_is_whole_and_sha256sum_says_so_too(sealed):
    found = verify(sealed)

    assert found.is_whole
    assert found.checked == sum(path.is_file() for path in sealed.rglob("*")) - 1
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=sealed, check=False)
    assert done.returncode == 0


def test_each_kind_of_change_is_named(sealed):
    (sealed / "findings.jsonl").write_text("other")
    (sealed / "machines" / "main-0" / "machine.json").unlink()
    (sealed / "tests" / "new.txt").write_text("")

    found = verify(sealed)

    assert (found.changed, found.missing, found.added) == (
        ("findings.jsonl",), ("machines/main-0/machine.json",), ("tests/new.txt",)
    )  # fmt: skip
    assert not found.is_whole


def test_a_file_that_became_a_link_to_the_same_text_is_changed(sealed, tmp_path):
    file = sealed / "findings.jsonl"
    (tmp_path / "elsewhere").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")

    assert verify(sealed).changed == ("findings.jsonl",)


def test_a_run_that_was_killed_is_not_sealed(tmp_path):
    found = verify(copied(tmp_path / "out", killed=True))

    assert not found.sealed
    assert not found.is_whole


@pytest.mark.parametrize("text", ["no hash", "abc  findings.jsonl", f"{'0' * 64}  "])
def test_hashes_that_are_none_are_refused(sealed, text):
    (sealed / "SHA256SUMS").write_text(text)

    with pytest.raises(UsageError, match=r"SHA256SUMS:1: the line is no hash and name"):
        verify(sealed)


def test_a_signature_says_by_whom_and_holds_only_for_these_hashes(sealed, key):
    assert signed_by(sealed) == ""
    sign(sealed, key)

    assert signed_by(sealed).startswith('Good "memqos" signature with ED25519 key SHA256:')
    allowed = key.with_name("signers")
    allowed.write_text(f"me@example.org {key.with_suffix('.pub').read_text()}")
    assert "for me@example.org" in signed_by(sealed, allowed=allowed, identity="me@example.org")
    with pytest.raises(UsageError, match="the signature does not hold"):
        signed_by(sealed, allowed=allowed, identity="you@example.org")
    (sealed / "SHA256SUMS").write_text("other")
    with pytest.raises(UsageError, match="the signature does not hold"):
        signed_by(sealed)


def test_signing_again_takes_the_place_of_the_first_signature(sealed, key):
    sign(sealed, key)
    sign(sealed, key)

    assert signed_by(sealed).startswith("Good")
    assert verify(sealed).is_whole


def test_who_must_have_signed_and_did_not_is_refused(sealed, tmp_path):
    with pytest.raises(UsageError, match="is not signed"):
        signed_by(sealed, allowed=tmp_path / "signers", identity="me")


def test_a_key_that_is_none_is_the_users_mistake(sealed, tmp_path):
    (tmp_path / "nokey").write_text("nothing")

    with pytest.raises(UsageError, match="cannot sign"):
        sign(sealed, tmp_path / "nokey")


def test_a_host_without_ssh_keygen_is_told_what_to_install(sealed, key, monkeypatch):
    monkeypatch.setenv("PATH", "")

    with pytest.raises(MissingProgramError, match="there is no ssh-keygen"):
        sign(sealed, key)
