"""The evidence of a case in a results folder as plain data: tree, requests, logs, names of files.

It comes from a machine under test, or from a folder that may be damaged, so it is read within bounds, kept as text, and
links are never followed. Unreadable parts are reported.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from memqos.bundles.files import COMPRESSED
from memqos.engine.translate.explain import Document
from memqos.plain_file import read_bounded
from memqos.report.outcome import TestResult

__all__ = ["CaseEvidence", "folder_of", "inside"]


LOG_BYTES = 24 << 10
"""Bytes of a log's end that are kept."""
MOST_REQUESTS = 120
LONGEST_FILE = 64 << 20
"""Longer files are not read: no run writes them."""

_TEXTS = (".txt", ".log", ".unit.txt", ".yaml")


class CaseEvidence:
    """The folder of a case or a population. told: unreadable parts, a sentence each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[str] = []

    def document(self) -> Document:
        """All of the evidence, without missing parts."""
        found: Document = {
            "tree": self._tree(),
            "requests": self._requests(),
            "manifests": self._manifests(),
            "logs": self._logs(),
            "files": [file.name for file in self._files()],
        }
        if self.told:
            found["told"] = self.told
        return {name: part for name, part in found.items() if part}

    def _files(self) -> list[Path]:
        try:
            return sorted(file for file in self.folder.iterdir() if file.is_file() and not file.is_symlink())
        except OSError as error:
            self.told.append(f"The folder cannot be read: {error.strerror}.")
            return []

    def lines(self, name: str) -> Iterator[Document]:
        """The JSON objects of a file, one per line; none if it is missing."""
        damaged = 0
        for line in io.BytesIO(self._bytes(name)):
            one = _value(line)
            if isinstance(one, dict):
                yield one
            else:
                damaged += 1
        if damaged:
            self.told.append(f"{name} has {damaged} damaged {'line' if damaged == 1 else 'lines'}.")

    def _bytes(self, name: str) -> bytes:
        """A file's bytes, also from a compressed file; none if it is missing, or unreadable, which is reported."""
        file = self.folder / name
        is_compressed = not file.exists()
        file = file.with_name(f"{name}{COMPRESSED}") if is_compressed else file
        try:
            if file.is_symlink() or (file.exists() and not file.is_file()):
                self.told.append(f"{name} is not a regular file and was not read.")
                return b""
            with gzip.open(file) if is_compressed else file.open("rb") as stream:
                found = read_bounded(stream, LONGEST_FILE)
        except FileNotFoundError:
            return b""
        except (OSError, EOFError, zlib.error) as error:
            self.told.append(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")
            return b""
        if len(found) > LONGEST_FILE:
            self.told.append(f"{name} is longer than any file of a run and was not read.")
            return b""
        return found

    def _whole(self, name: str) -> Document:
        text = self._bytes(name)
        found = _value(text) if text else {}
        if not isinstance(found, dict):
            self.told.append(f"{name} is damaged.")
            return {}
        return found

    def _tree(self) -> list[Document]:
        """Each cgroup of the plan or of a reading: by file the expected value and the last observed one."""
        observed: dict[str, Mapping[str, object]] = {}
        for reading in self.lines("readings.jsonl"):
            cgroups = reading.get("cgroups")
            if isinstance(cgroups, dict):
                observed |= {path: files for path, files in cgroups.items() if isinstance(files, dict)}
        nodes: dict[str, Document] = {}
        planned = self._whole("plan.json").get("cgroups")
        for cgroup in planned if isinstance(planned, list) else ():
            if not isinstance(cgroup, dict) or cgroup.get("container"):
                continue  # only the runtime knows the cgroup of a container: its findings have it
            knobs = cgroup.get("knobs")
            expected = {
                knob: str(one.get("value")) for knob, one in (knobs.items() if isinstance(knobs, dict) else ())
                if isinstance(one, dict)
            }  # fmt: skip
            nodes[str(cgroup.get("path"))] = {"level": str(cgroup.get("level")), "expected": expected}
        for path, files in observed.items():
            texts = {name: _file_text(text) for name, text in files.items()}
            nodes.setdefault(path, {})["observed"] = texts
        return [{"path": path, **node} for path, node in sorted(nodes.items())]

    def _requests(self) -> list[Document]:
        found = [
            {name: one.get(name) for name in ("method", "at", "seconds", "request", "reply", "error")}
            for one in self.lines("requests.jsonl")
        ]
        if len(found) > MOST_REQUESTS:
            self.told.append(f"requests.jsonl has {len(found)} requests; the first {MOST_REQUESTS} are shown.")
        return found[:MOST_REQUESTS]

    def _manifests(self) -> list[str]:
        return [self._tail(file, 4 * LOG_BYTES) for file in self._files() if file.name.startswith("manifest")]

    def _logs(self) -> Document:
        names = {file.name.removesuffix(COMPRESSED): file for file in self._files()}
        return {
            name: self._tail(file, LOG_BYTES)
            for name, file in names.items()
            if name.endswith(_TEXTS) and not name.startswith("manifest")
        }

    def _tail(self, file: Path, most: int) -> str:
        if file.suffix == COMPRESSED:
            whole = self._bytes(file.name.removesuffix(COMPRESSED))
            return _tail(whole[-most:], most, len(whole))
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - most))
                end = stream.read(most)
        except OSError as error:
            self.told.append(f"{file.name} cannot be read: {error.strerror}.")
            return ""
        return _tail(end, most, size)


def _tail(end: bytes, most: int, size: int) -> str:
    """The last bytes of a file of this size as text, with a first line if they are not all."""
    text = end.decode("utf-8", "backslashreplace")
    return text if size <= most else f"… the last {most >> 10} KiB of {size >> 10}:\n{text}"


def folder_of(results: Path, result: TestResult) -> Path | None:
    """The folder with the evidence of a case: its own, else that of its population; None for neither.

    The folder must be within the results, since its name was read from a file.
    """
    own = inside(results, result.folder) if result.folder else None
    if own is not None:
        return own
    parameters = result.id.partition("[")[2].removesuffix("]")
    populations = results / "populations"
    try:
        names = sorted(one.name for one in populations.iterdir()) if result.machine else []
    except OSError:
        return None
    fitting = [
        name for name in names
        if name.startswith(f"{result.machine}-") and parameters.startswith(name.removeprefix(f"{result.machine}-"))
    ]  # fmt: skip
    return populations / max(fitting, key=len) if fitting else None


def inside(results: Path, name: str) -> Path | None:
    """A folder by its name below the results; None if it is missing or outside of them."""
    try:
        folder = (results / name).resolve()
        return folder if folder.is_relative_to(results.resolve()) and folder.is_dir() else None
    except (OSError, ValueError):
        return None


def _refuse(word: str) -> None:
    """The value without NaN and Infinity, which are not JSON: a browser would not read them."""
    raise ValueError(word)


def _value(text: bytes) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _file_text(text: object) -> str | None:
    if isinstance(text, dict):
        return f"unreadable: {text.get('unreadable')}"
    return None if text is None else str(text).strip("\n")
