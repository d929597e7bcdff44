"""Hashes show whether a folder is unchanged since its run, and an ssh signature who vouches for it."""

import subprocess

import pytest

from memqos.bundles import files
from memqos.bundles.files import Signature, seal, sign, signature_of, verify
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


def test_an_untouched_folder_verifies_here_and_with_sha256sum(sealed):
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
def test_a_malformed_line_is_damage(sealed, text):
    with (sealed / "SHA256SUMS").open("a") as sums:
        sums.write(text)

    found = verify(sealed)

    assert not found.is_whole
    assert found.damaged == (f"SHA256SUMS:{found.checked + 1}",)
    assert (found.changed, found.missing, found.added) == ((), (), ())


def test_of_two_hashes_for_one_file_both_must_hold(sealed):
    sums = sealed / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  findings.jsonl\n{sums.read_text()}")

    assert verify(sealed).changed == ("findings.jsonl",)


@pytest.fixture
def allowed(key):
    signers = key.with_name("signers")
    signers.write_text(f"me@example.org {key.with_suffix('.pub').read_text()}")
    return signers


def test_a_signature_names_its_signer(sealed, key, allowed):
    assert signature_of(sealed) == Signature()
    sign(sealed, key)

    assert signature_of(sealed).by.startswith('Good "memqos" signature with ED25519 key SHA256:')
    found = signature_of(sealed, allowed=allowed, identity="me@example.org")
    assert "for me@example.org" in found.by
    assert found.fault == ""


def test_a_signature_of_another_name_does_not_count(sealed, key, allowed):
    sign(sealed, key)

    found = signature_of(sealed, allowed=allowed, identity="you@example.org")

    assert found.by.startswith('Good "memqos" signature with ED25519 key SHA256:')
    assert found.fault == f"'{allowed}' does not allow 'you@example.org' to sign with this key"


def test_a_signature_of_other_hashes_does_not_hold(sealed, key):
    sign(sealed, key)
    (sealed / "SHA256SUMS").write_text("other")

    assert signature_of(sealed) == Signature(
        fault="SHA256SUMS.sig is not valid: Signature verification failed: incorrect signature"
    )


def test_a_malformed_signature_is_invalid(sealed, key, allowed):
    (sealed / "SHA256SUMS.sig").write_text("nothing")

    found = signature_of(sealed, allowed=allowed, identity="me@example.org")

    assert found == Signature(fault="SHA256SUMS.sig is not valid: Couldn't parse signature: missing header")


def test_a_missing_required_signer_is_a_fault(sealed, allowed):
    assert signature_of(sealed, allowed=allowed, identity="me@example.org").fault == "SHA256SUMS.sig is missing"


@pytest.mark.parametrize("text", [None, "me@example.org nonsense"])
def test_a_malformed_list_of_signers_is_a_usage_error(sealed, key, allowed, text):
    sign(sealed, key)
    if text is None:
        allowed.unlink()
    else:
        allowed.write_text(text)

    with pytest.raises(UsageError, match=r"--allowed-signers: (the file is not a list|'.*signers' cannot be read)"):
        signature_of(sealed, allowed=allowed, identity="me@example.org")


def test_signing_again_takes_the_place_of_the_first_signature(sealed, key):
    sign(sealed, key)
    sign(sealed, key)

    assert signature_of(sealed).by.startswith("Good")
    assert verify(sealed).is_whole


def test_a_malformed_key_is_a_usage_error(sealed, tmp_path):
    (tmp_path / "nokey").write_text("nothing")

    with pytest.raises(UsageError, match="cannot sign"):
        sign(sealed, tmp_path / "nokey")


def test_without_ssh_keygen_the_package_is_named(sealed, key, monkeypatch):
    monkeypatch.setenv("PATH", "")

    with pytest.raises(MissingProgramError, match="ssh-keygen is not installed"):
        sign(sealed, key)


def test_a_key_that_waits_for_a_passphrase_is_reported(sealed, key, tmp_path, monkeypatch):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "ssh-keygen").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "programs" / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    monkeypatch.setattr(files, "ANSWER_SECONDS", 0.1)

    with pytest.raises(UsageError, match=r"ssh-keygen did not answer in 0\.1 s.* Add the key to an ssh agent"):
        sign(sealed, key)
