"""The database of findings: a folder with one readable JSON file for each finding, for a team to share."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memqos.engine.answer.finding import Finding
from memqos.errors import UsageError
from memqos.exploration import Document
from memqos.exploration.examples import Example, example_of
from memqos.plain_file import read_plain

__all__ = ["Database", "Found", "load_found", "name_of"]

FORMAT = 1
MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An example with a deviation.

    name: what deviates ("pods-container-memory.min"), also the file's name in a database. finding: its text. expected,
    observed: the values. known: the listed deviation that explains it, "" for none. shrunk: whether shrinking finished.
    system: the machine and its runtimes. beside: whether it shows only with other pods on the node. seen: how often it
    was seen in this session. seconds: from the start of the session to the first occurrence, and to the smallest
    example.
    """

    name: str
    example: Example
    finding: str
    expected: str
    observed: str
    known: str = ""
    shrunk: bool = False
    system: Sequence[str] = ()
    seen: int = 1
    tries: int = 0
    found_after: float = 0.0
    shrunk_after: float = 0.0
    lost: str = ""
    again: bool = True

    def document(self) -> Document:
        """The JSON document."""
        return {
            "memqos_explore": FORMAT,
            "name": self.name,
            "finding": self.finding,
            "expected": self.expected,
            "observed": self.observed,
            **({"lost": self.lost} if self.lost else {}),
            **({"known": self.known} if self.known else {}),
            "shrunk": self.shrunk,
            "seen_again": self.again,
            "system": list(self.system),
            "example": self.example.document(),
        }

    def reported(self) -> Document:
        """The entry of a report: the document with the session's counts."""
        return {
            **self.document(),
            "seen": self.seen,
            "tries": self.tries,
            "found_after_seconds": round(self.found_after, 1),
            "shrunk_after_seconds": round(self.shrunk_after, 1),
        }


class Database:
    """The findings in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def keep(self, found: Found) -> Path | None:
        """Write the finding, replacing an earlier one of the same name; UsageError if the folder is not writable."""
        if self._folder is None:
            return None
        file = self._folder / f"{found.name}.json"
        text = json.dumps(found.document(), indent=1) + "\n"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(file)
        except OSError as error:
            raise UsageError(f"{error.strerror}.", where=str(file), next_step="Give another --database.") from None
        return file

    def load(self) -> Sequence[Found]:
        """The kept findings, sorted by name; UsageError for a file that is not a finding."""
        if self._folder is None or not self._folder.is_dir():
            return ()
        return [load_found(file) for file in sorted(self._folder.glob("*.json"))]


def load_found(file: Path) -> Found:
    """The finding in a file of a database, or a bare example; UsageError for anything else."""
    try:
        document: Any = json.loads(read_plain(file, most=MOST_BYTES))
    except OSError as error:
        step = "Give a file that memqos explore wrote."
        raise UsageError(f"{error.strerror}.".lower(), where=str(file), next_step=step) from None
    except ValueError as error:
        raise UsageError(f"it is not JSON: {error}.", where=str(file)) from None
    if not isinstance(document, dict):
        raise UsageError("it is not an object.", where=str(file), next_step="Give a file that memqos explore wrote.")
    inner = document.get("example", document)
    example = example_of(inner if isinstance(inner, dict) else {}, where=str(file))

    def text(name: str) -> str:
        return str(document.get(name, ""))

    return Found(
        name=text("name") or name_of_example(example),
        example=example,
        finding=text("finding"),
        expected=text("expected"),
        observed=text("observed"),
        known=text("known"),
        shrunk=document.get("shrunk") is True,
        system=tuple(map(str, document.get("system", ()))),
    )


def name_of_example(example: Example) -> str:
    """A name for an example without a finding."""
    text = json.dumps(example.document(), sort_keys=True)
    return f"{example.kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def name_of(example: Example, finding: Finding) -> str:
    """The name of a deviation: kind of example, level and file, so that examples of one fault share it."""
    parts = [example.kind.value, finding.subject.level.value, finding.subject.part, finding.knob]
    return "-".join(filter(None, parts)).replace(" ", "-").replace("/", "-")
