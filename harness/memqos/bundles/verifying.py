"""Whether a results folder is unchanged since its run: hashes of every file, and their signature.

SHA256SUMS has the format of `sha256sum`, so `sha256sum -c SHA256SUMS` checks the same without memqos. `ssh-keygen -Y
sign` signs it with an ssh key and the namespace `memqos` into SHA256SUMS.sig.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memqos.bundles.files import write
from memqos.errors import MissingProgramError, UsageError
from memqos.plain_file import check_plain, read_plain

__all__ = [
    "FAILED",
    "NOT_VERIFIED",
    "SIGNATURE",
    "SUMS",
    "VERIFIED",
    "Signature",
    "Verification",
    "changed_among",
    "seal",
    "sign",
    "signature_of",
    "verify",
]

SUMS = "SHA256SUMS"
VERIFIED, NOT_VERIFIED, FAILED = "verified", "not verified", "failed"
SIGNATURE = f"{SUMS}.sig"
NAMESPACE = "memqos"
_CHUNK = 1 << 20
_LONGEST_SUMS = 64 << 20
ANSWER_SECONDS = 60.0
"""Seconds for ssh-keygen, enough to type a passphrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a verification. checked: number of unchanged files. The others are paths below the folder.

    sealed: whether the folder has hashes; that of a killed run has none. damaged: malformed lines, as SHA256SUMS:LINE.
    """

    sealed: bool
    checked: int = 0
    damaged: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything is unchanged since the run."""
        return self.sealed and not (self.damaged or self.changed or self.missing or self.added)

    @property
    def state(self) -> str:
        """The state for provenance: "verified", "failed", or "not verified" without hashes."""
        return NOT_VERIFIED if not self.sealed else VERIFIED if self.is_whole else FAILED

    def faults(self) -> Iterator[str]:
        """The changes since the run, one line each."""
        yield from (f"damaged: {name} is not a hash and a name" for name in self.damaged)
        for title, names in (("changed", self.changed), ("missing", self.missing), ("added", self.added)):
            yield from (f"{title}: {name}" for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signer of the hashes, as ssh-keygen prints it; "" for none. fault: why the signature is not valid, or ""."""

    by: str = ""
    fault: str = ""


def seal(folder: Path) -> None:
    """Write the hashes of all files in a results folder, as its last file."""
    write(folder / SUMS, "".join(f"{_line(_digest(folder / name), name)}\n" for name in _files(folder)))


def verify(folder: Path) -> Verification:
    """Compare the files with their hashes. Raises UsageError for a file of hashes that this user may not read."""
    lines = _sums(folder)
    if lines is None:
        return Verification(sealed=False)
    hashes = [line for line in lines if line is not None]
    known, found = {name for name, _ in hashes}, set(_files(folder))
    # A name may have several lines: each must be right.
    differing = (name for name, digest in hashes if name in found and _digest(folder / name) != digest)
    changed = tuple(dict.fromkeys(differing))
    return Verification(
        sealed=True,
        checked=len(known & found) - len(changed),
        damaged=tuple(f"{SUMS}:{number}" for number, line in enumerate(lines, 1) if line is None),
        changed=changed,
        missing=tuple(sorted(known - found)),
        added=tuple(sorted(found - known)),
    )


def changed_among(folder: Path, names: Iterable[str]) -> list[str]:
    """The existing ones of some files that differ from their hashes; none without hashes.

    Errors as in `verify`, which compares every file.
    """
    hashes = dict(line for line in _sums(folder) or () if line is not None)
    there = [name for name in names if (folder / name).exists()]
    return [name for name in there if name in hashes and _digest(folder / name) != hashes[name]]


def _sums(folder: Path) -> list[tuple[str, str] | None] | None:
    """The lines of the file of hashes, None for a malformed one; None for a folder without that file."""
    file = folder / SUMS
    try:
        text = read_plain(file, most=_LONGEST_SUMS).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"'{file}' cannot be read: {error.strerror}.") from error
    return [_parsed(line) for line in text.split("\n")[: -1 if text.endswith("\n") else None]]


def _files(folder: Path) -> Iterator[str]:
    """Every file except the hashes themselves, sorted; links are listed and never followed."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in {SUMS, SIGNATURE} and (path.is_symlink() or not path.is_dir()):
            yield name


def _digest(file: Path) -> str:
    """The hash of a file's bytes, or of a link's target; "" for an unreadable file."""
    found = hashlib.sha256()
    try:
        if file.is_symlink():
            found.update(str(file.readlink()).encode("utf-8", "surrogateescape"))
        elif not file.is_file():
            return ""
        else:
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    found.update(chunk)
    except OSError:
        return ""
    return found.hexdigest()


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_MEANT = {escape: char for char, escape in _ESCAPES.items()}


def _line(digest: str, name: str) -> str:
    """One line as `sha256sum` writes it: an escaped name has a backslash before its hash."""
    escaped = re.sub(r"[\\\n\r]", lambda found: _ESCAPES[found[0]], name)
    return f"{digest}  {name}" if escaped == name else f"\\{digest}  {escaped}"


def _parsed(line: str) -> tuple[str, str] | None:
    """The name and the hash of a line; None for a malformed line."""
    digest, separator, name = line.removeprefix("\\").partition("  ")
    if line.startswith("\\"):
        name = re.sub(r"\\[\\nr]", lambda found: _MEANT[found[0]], name)
    is_whole = separator and name and len(digest) == hashlib.sha256().digest_size * 2
    return (name, digest) if is_whole else None


def sign(folder: Path, key: Path) -> None:
    """Sign the hashes with an ssh key: a private key, or a public key whose private half is in an agent.

    An existing signature stays until the new one is complete. Raises UsageError if the key is not a regular file or
    ssh-keygen rejects it, MissingProgramError without ssh-keygen, OSError if the signature cannot be written.
    """
    _check_named(key, "--sign-with")
    done = _keygen("sign", "-f", str(key), "-n", NAMESPACE, stdin=read_plain(folder / SUMS, most=_LONGEST_SUMS))
    if done.returncode or not done.stdout:
        raise UsageError(f"the key '{key}' cannot sign: {_reason(done)}.", where="--sign-with")
    write(folder / SIGNATURE, done.stdout.decode("ascii"))


def _check_named(file: Path, option: str) -> None:
    """Raise UsageError for a file on which ssh-keygen would block, or which it would read without end."""
    try:
        check_plain(file, where=option)
    except OSError as error:
        raise UsageError(f"'{file}' cannot be read: {error.strerror}.", where=option) from None


def signature_of(folder: Path, *, allowed: Path | None = None, identity: str = "") -> Signature:
    """The signer of the hashes, and whether the signature is valid.

    allowed: a file of allowed signers (ssh-keygen(1)) that must list the signer by the name identity. Raises UsageError
    for a file of allowed signers that ssh-keygen cannot read.
    """
    signature = folder / SIGNATURE
    if allowed is not None:
        _check_named(allowed, "--allowed-signers")
    if signature.exists() and not signature.is_file():
        return Signature(fault=f"{SIGNATURE} is not a regular file")
    if not signature.exists():
        return Signature(fault=f"{SIGNATURE} is missing" if allowed is not None else "")
    sums = read_plain(folder / SUMS, most=_LONGEST_SUMS)
    done = _keygen("check-novalidate", "-n", NAMESPACE, "-s", str(signature), stdin=sums)
    if done.returncode:
        return Signature(fault=f"{SIGNATURE} is not valid: {_reason(done)}")
    by = _words(done.stdout)
    if allowed is None:
        return Signature(by=by)
    done = _keygen("verify", "-f", str(allowed), "-I", identity, "-n", NAMESPACE, "-s", str(signature), stdin=sums)
    refused = _words(done.stderr)
    if refused.startswith((f"{allowed}:", "Unable to open allowed")):
        raise UsageError(f"the file is not a list of allowed signers: {_reason(done)}.", where="--allowed-signers")
    if done.returncode:
        return Signature(by=by, fault=f"'{allowed}' does not allow '{identity}' to sign with this key")
    return Signature(by=_words(done.stdout))


def _keygen(verb: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", verb, *arguments],
            input=stdin,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise MissingProgramError("ssh-keygen is not installed.", next_step="apt install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"ssh-keygen did not answer in {ANSWER_SECONDS:g} s: a key may wait for its passphrase.",
            next_step="Add the key to an ssh agent, and name its public half.",
        ) from None


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Why ssh-keygen failed: the first line of its errors, which names the cause."""
    lines = (_words(done.stderr) or _words(done.stdout)).splitlines()
    return lines[0].rstrip(".\r") if lines else f"ssh-keygen answered {done.returncode}"


def _words(said: bytes) -> str:
    return said.decode("utf-8", "backslashreplace").strip()
