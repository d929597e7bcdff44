"""PURE parsing of memwatch's output from a target: changes in a cgroup, and appended lines of a file.

Also the evidence of both: looks, and the commands and reports of workloads.
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

    at: seconds of the target's monotonic clock. why: new, clock, event, asked, or gone. files: those that changed since
    the previous look, with their text; None: the file does not exist.
    """

    at: float
    folder: str
    why: str
    files: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The text appended to a followed file; name: as given to the follower."""

    at: float
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A requested look is done; everything that it saw was reported before this."""

    at: float
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request failed: its name, the path, and the kernel's errno (0: none)."""

    at: float
    what: str
    path: str
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A command for a workload, or lines of its container's log.

    at: seconds of the target's monotonic clock; for commands, the time of the last look before. container: its pod's
    name and its own. told: whether it is a command from memqos. text: one command, or lines of the log as they came.
    """

    at: float
    container: str
    told: bool
    text: str


Said = Look | Appended | Looked | Failed


def parse_said(line: str) -> Said:
    """One line of memwatch; MachineryError if it is malformed, or if lines before it were lost."""
    try:
        fields = json.loads(line)
        at, lost = float(fields["at"]), fields["lost"]
        said = _said(at, fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        _refuse("it is not a line of memwatch", line)
    if lost:
        _refuse(f"{lost} lines before it were dropped because they were read too late", line)
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
    """The text of a file; memwatch escapes single bytes."""
    return None if escaped is None else escaped.encode("latin-1").decode("utf-8", "backslashreplace")


def _refuse(why: str, line: str) -> NoReturn:
    shown = line[:_LONGEST_SHOWN]
    raise MachineryError(f"memwatch printed '{shown}': {why}.", where="memwatch", data={"line": line})
