"""The files of a results folder that are whole or not there, and what its machines say of themselves."""

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
"""The cases that were begun, a line each; a run that comes to its end removes it."""
BUNDLE = "bundle.json"
FINDINGS = "findings.jsonl"
RUN = "run.json"
COMPRESSED = ".gz"
EVIDENCE = ("machines", "populations", "tests")
"""The folders that have a folder for each machine, population and case."""
_WORTH_IT = 4 << 10
"""Smaller files take a block of the disk (4 KiB) all the same."""
MANY_FINDINGS = 1 << 20
"""Fewer are read by people, with the programs that they are used to."""
_LONG = frozenset({"plan.json", "readings.jsonl", "requests.jsonl", "series.jsonl", "workloads.jsonl"})
_READ = frozenset({".txt", ".log"})


def write(path: Path, text: str) -> None:
    """Write a file so that a reader finds either the old text or the whole new one."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        # A path may have bytes that are no text.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def compress_evidence(folders: Iterable[Path], *, with_logs: bool = False) -> None:
    """Compress the long files of these folders, which nobody writes to any more; what cannot be stays as it is.

    with_logs: also those that people read, for folders that are like another one.
    """
    for folder in folders:
        with contextlib.suppress(OSError):
            names = {file.name for file in folder.iterdir() if file.suffix in _READ} if with_logs else frozenset()
            for name in _LONG | names:
                _compress(folder / name)


def compress_findings(folder: Path) -> None:
    """Compress a long findings.jsonl of a run that has ended: bundle.json has every case of it, too."""
    if (folder / BUNDLE).is_file():
        with contextlib.suppress(OSError):
            _compress(folder / FINDINGS, worth_it=MANY_FINDINGS)


def _compress(file: Path, *, worth_it: int = _WORTH_IT) -> None:
    if file.is_symlink() or not file.is_file() or file.stat().st_size < worth_it:
        return
    smaller = file.with_name(f"{file.name}{COMPRESSED}")
    try:
        # Without a time or a name in it: the same text makes the same file.
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
    """Write what evidence_files() of another host told; what is here already stays as it is.

    Raises OSError for what cannot be written. A name that leads elsewhere is left out.
    """
    for name, content in told.items():
        kind, *more = name.split("/")
        place = folder / name
        leads_elsewhere = kind not in EVIDENCE or not more or "\0" in name or not all(part.strip(".") for part in more)
        if not (leads_elsewhere or place.exists()):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def machines(folder: Path) -> list[Mapping[str, Any]]:
    """What each booted machine says of itself; one whose file was not written whole is named all the same."""
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
