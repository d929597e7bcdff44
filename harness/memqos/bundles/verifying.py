"""Whether a results folder is as its run left it: hashes of every file, and who vouches for them.

SHA256SUMS is as `sha256sum` writes it: `sha256sum -c SHA256SUMS` says the same without memqos. It is signed with an ssh
key, by ssh-keygen -Y sign with the namespace `memqos`, into SHA256SUMS.sig.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memqos.bundles.files import write
from memqos.errors import MissingProgramError, UsageError

__all__ = ["SIGNATURE", "SUMS", "Verification", "seal", "sign", "signed_by", "verify"]

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
NAMESPACE = "memqos"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying found. checked: how many files are as they were. The others are paths below the folder.

    sealed: whether there are hashes at all; a run that was killed has none.
    """

    sealed: bool
    checked: int = 0
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all is as the run left it."""
        return self.sealed and not (self.changed or self.missing or self.added)


def seal(folder: Path) -> None:
    """Write the hashes of all files in a results folder; the last thing that is written there."""
    write(folder / SUMS, "".join(f"{_line(_digest(folder / name), name)}\n" for name in _files(folder)))


def verify(folder: Path) -> Verification:
    """Hold the files against their hashes. Raises UsageError for a folder or hashes that cannot be read."""
    try:
        text = (folder / SUMS).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return Verification(sealed=False)
    except OSError as error:
        raise UsageError(f"'{folder / SUMS}' cannot be read: {error.strerror}.") from error
    known = dict(_parsed(text, folder))
    found = set(_files(folder))
    changed = tuple(name for name, digest in known.items() if name in found and _digest(folder / name) != digest)
    return Verification(
        sealed=True,
        checked=len(known.keys() & found) - len(changed),
        changed=changed,
        missing=tuple(sorted(known.keys() - found)),
        added=tuple(sorted(found - known.keys())),
    )


def _files(folder: Path) -> Iterator[str]:
    """Every file but the hashes themselves, sorted; a link is named, and never followed."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in {SUMS, SIGNATURE} and (path.is_symlink() or not path.is_dir()):
            yield name


def _digest(file: Path) -> str:
    """The hash of a file's bytes, of a link where it leads; "" for what cannot be read."""
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
    """One line as `sha256sum` writes it: before the hash of an escaped name stands a backslash."""
    escaped = re.sub(r"[\\\n\r]", lambda found: _ESCAPES[found[0]], name)
    return f"{digest}  {name}" if escaped == name else f"\\{digest}  {escaped}"


def _parsed(text: str, folder: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n")[: -1 if text.endswith("\n") else None], 1):
        digest, separator, name = line.removeprefix("\\").partition("  ")
        if line.startswith("\\"):
            name = re.sub(r"\\[\\nr]", lambda found: _MEANT[found[0]], name)
        if not separator or not name or len(digest) != hashlib.sha256().digest_size * 2:
            raise UsageError(
                "the line is no hash and name.", where=f"{folder / SUMS}:{number}", next_step="Take the run's own file."
            )
        yield name, digest


def sign(folder: Path, key: Path) -> None:
    """Sign the hashes with an ssh key: a private one, or a public one whose private half an agent has.

    Raises UsageError if ssh-keygen does not take the key, MissingProgramError without it.
    """
    (folder / SIGNATURE).unlink(missing_ok=True)
    done = _keygen("sign", "-f", str(key), "-n", NAMESPACE, str(folder / SUMS))
    if done.returncode:
        raise UsageError(f"the key '{key}' cannot sign: {_last(done)}.", where="--sign-with")


def signed_by(folder: Path, *, allowed: Path | None = None, identity: str = "") -> str:
    """Who signed the hashes, in ssh-keygen's words; "" if nobody did.

    allowed: a file of allowed signers (ssh-keygen(1)), of whom the signer must be one, by the name identity.
    Raises UsageError for a signature that does not fit the hashes, or is of nobody who is allowed.
    """
    signature = folder / SIGNATURE
    if not signature.exists():
        if allowed is not None:
            raise UsageError(f"'{folder}' is not signed: there is no {SIGNATURE}.", where="--allowed-signers")
        return ""
    words = ["check-novalidate"] if allowed is None else ["verify", "-f", str(allowed), "-I", identity]
    sums = (folder / SUMS).read_bytes()
    done = _keygen(*words, "-n", NAMESPACE, "-s", str(signature), stdin=sums)
    if done.returncode:
        raise UsageError(f"the signature does not hold: {_last(done)}.", where=str(signature))
    return done.stdout.decode("utf-8", "backslashreplace").strip()


def _keygen(verb: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", verb, *arguments], input=stdin, capture_output=True, timeout=60, check=False
        )
    except FileNotFoundError:
        raise MissingProgramError("there is no ssh-keygen.", next_step="apt install openssh-client") from None


def _last(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr + done.stdout).decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[-1].rstrip(".\r") if lines else f"ssh-keygen answered {done.returncode}"
