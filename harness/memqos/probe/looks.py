"""PURE parsing of what memwatch says from inside a target: what changed in a cgroup, and what a file has more.

Beside that what is kept of both as evidence: looks, and what workloads were told and said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from memqos.errors import MachineryError

__all__ = ["Appended", "Failed", "Look", "Looked", "Said", "Spoken", "parse_said"]

_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one cgroup's folder.

    at: seconds of the target's monotonic clock. why: new, clock, event, asked, or gone.
    files: those that changed since the look before, with their text; None: there is no such file.
    """

    at: float
    folder: str
    why: str
    files: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What a file that is followed has more than before; name: as the follower was told."""

    at: float
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A look that was asked for is made, and all that it saw has been said before this."""

    at: float
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Something that was asked for could not be done: its name, the path, and the kernel's errno (0: none)."""

    at: float
    what: str
    path: str
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a workload was told to do, or what came into its container's log.

    at: seconds of the target's monotonic clock; of what was told, those of what was seen last before. container: its
    pod's name and its own. told: whether memqos told it so. text: one command, or lines of the log as they came.
    """

    at: float
    container: str
    told: bool
    text: str


Said = Look | Appended | Looked | Failed


def parse_said(line: str) -> Said:
    """One line of memwatch; MachineryError if it is none, or if lines before it were lost."""
    try:
        fields = json.loads(line)
        at, lost = float(fields["at"]), fields["lost"]
        said = _said(at, fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        _refuse("it is not a line of memwatch", line)
    if lost:
        _refuse(f"{lost} lines before it were not heard for so long that they were left out", line)
    return said


def _said(at: float, fields: Mapping[str, Any]) -> Said:
    if "cgroup" in fields:
        files = {name: _text(text) for name, text in fields["files"].items()}
        return Look(at=at, folder=str(fields["cgroup"]), why=str(fields["why"]), files=files)
    if "tail" in fields:
        return Appended(at=at, name=str(fields["tail"]), text=str(_text(fields["text"])))
    if "looked" in fields:
        return Looked(at=at, number=int(fields["looked"]))
    return Failed(at=at, what=str(fields["failed"]), path=str(_text(fields["path"])), errno=int(fields["errno"]))


def _text(escaped: str | None) -> str | None:
    """The text of a file; memwatch escapes bytes, one by one."""
    return None if escaped is None else escaped.encode("latin-1").decode("utf-8", "backslashreplace")


def _refuse(why: str, line: str) -> NoReturn:
    shown = line[:_LONGEST_SHOWN]
    raise MachineryError(f"memwatch said '{shown}': {why}.", where="memwatch", data={"line": line})
