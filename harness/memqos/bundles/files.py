"""Writes and compresses the files of a results folder, and reads the descriptions of its machines."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memqos.errors import UsageError
from memqos.plain_file import read_plain

__all__ = [
    "BEGUN",
    "BUNDLE",
    "COMPRESSED",
    "EVIDENCE",
    "FINDINGS",
    "RUN",
    "compress_evidence",
    "compress_findings",
    "evidence_files",
    "keep_evidence",
    "machines",
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
        # No time and no name in the header, so that the same text makes the same file.
        smaller.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    except OSError:
        smaller.unlink(missing_ok=True)
        raise
    file.unlink()


_LONGEST_MACHINE = 16 << 20
_BESIDE = ("kept", "timing", "overhead")


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
            beside = {name: file.with_name(f"{name}.json") for name in _BESIDE}
            more = {
                name: json.loads(read_plain(one, most=_LONGEST_MACHINE)) for name, one in beside.items() if one.exists()
            }
            said.append({**machine, **more})
        except (OSError, ValueError, TypeError, RecursionError, UsageError):
            said.append({"id": file.parent.name, "profile": "?", "topology": "?"})
    return said
