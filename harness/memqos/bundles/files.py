"""Writes and compresses the files of a results folder, and reads the descriptions of its machines.

Also checks whether a results folder is unchanged since its run, by hashes of every file and their signature. SHA256SUMS
has the format of `sha256sum`, so `sha256sum -c SHA256SUMS` checks the same without memqos. `ssh-keygen -Y sign` signs
it with an ssh key and the namespace `memqos` into SHA256SUMS.sig.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memqos.errors import MissingProgramError, UsageError
from memqos.plain_file import check_plain, read_plain

__all__ = [
    "BEGUN",
    "BUNDLE",
    "COMPRESSED",
    "EVIDENCE",
    "FAILED",
    "FINDINGS",
    "NOT_VERIFIED",
    "RUN",
    "SIGNATURE",
    "SUMS",
    "VERIFIED",
    "Signature",
    "Verification",
    "changed_among",
    "compress_evidence",
    "compress_findings",
    "evidence_files",
    "keep_evidence",
    "machines",
    "seal",
    "sign",
    "signature_of",
    "verify",
    "write",
]

BEGUN = "begun.txt"
"""The cases that have begun, one per line; removed at the end of a run."""
BUNDLE = "bundle.json"
FINDINGS = "findings.jsonl"
RUN = "run.json"
COMPRESSED = ".gz"
EVIDENCE = ("machines", "populations", "tests")
"""The folders with one folder per machine, population and case."""
_WORTH_IT = 4 << 10
"""Smaller files are not compressed: they take a block of the disk (4 KiB) in any case."""
MANY_FINDINGS = 1 << 20
"""Shorter files stay uncompressed, so that every program can read them."""
_LONG = frozenset({"plan.json", "readings.jsonl", "requests.jsonl", "series.jsonl", "workloads.jsonl"})
_READ = frozenset({".txt", ".log"})


def write(path: Path, text: str) -> None:
    """Write a file so that a reader finds either the old text or the complete new one."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        # A path may have bytes that are not text.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def compress_evidence(folders: Iterable[Path], *, with_logs: bool = False) -> None:
    """Compress the long files of these finished folders; a file that cannot be compressed stays unchanged.

    with_logs: also the logs, for folders with the same cause as another one.
    """
    for folder in folders:
        with contextlib.suppress(OSError):
            names = {file.name for file in folder.iterdir() if file.suffix in _READ} if with_logs else frozenset()
            for name in _LONG | names:
                _compress(folder / name)


def compress_findings(folder: Path) -> None:
    """Compress a long findings.jsonl of a finished run: bundle.json has all of its cases."""
    if (folder / BUNDLE).is_file():
        with contextlib.suppress(OSError):
            _compress(folder / FINDINGS, worth_it=MANY_FINDINGS)


def _compress(file: Path, *, worth_it: int = _WORTH_IT) -> None:
    if file.is_symlink() or not file.is_file() or file.stat().st_size < worth_it:
        return
    smaller = file.with_name(f"{file.name}{COMPRESSED}")
    try:
        # No time and no name in the header, so that equal texts give equal files.
        smaller.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    except OSError:
        smaller.unlink(missing_ok=True)
        raise
    file.unlink()


_LONGEST_MACHINE = 16 << 20
_SEPARATE = ("kept", "timing", "overhead")


def evidence_files(folder: Path) -> dict[str, bytes]:
    """The evidence in a results folder, by "KIND/ID/NAME": for a results folder on another host."""
    found = {}
    for kind in EVIDENCE:
        for file in sorted(folder.glob(f"{kind}/*/*")):
            with contextlib.suppress(OSError):
                if file.is_file() and not file.is_symlink():
                    found[file.relative_to(folder).as_posix()] = file.read_bytes()
    return found


def keep_evidence(folder: Path, told: Mapping[str, bytes]) -> None:
    """Write the evidence_files() of another host; existing files stay unchanged.

    Raises OSError for failed writes. Names that point outside of the folder are left out.
    """
    for name, content in told.items():
        kind, *more = name.split("/")
        place = folder / name
        leads_elsewhere = kind not in EVIDENCE or not more or "\0" in name or not all(part.strip(".") for part in more)
        if not (leads_elsewhere or place.exists()):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def machines(folder: Path) -> list[Mapping[str, Any]]:
    """Each booted machine's description of itself; a machine with an incomplete file has only its id."""
    said: list[Mapping[str, Any]] = []
    for file in sorted(folder.glob("machines/*/machine.json")):
        try:
            machine = json.loads(read_plain(file, most=_LONGEST_MACHINE))
            separate = {name: file.with_name(f"{name}.json") for name in _SEPARATE}
            more = {
                name: json.loads(read_plain(one, most=_LONGEST_MACHINE))
                for name, one in separate.items()
                if one.exists()
            }
            said.append({**machine, **more})
        except (OSError, ValueError, TypeError, RecursionError, UsageError):
            said.append({"id": file.parent.name, "profile": "?", "topology": "?"})
    return said


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
