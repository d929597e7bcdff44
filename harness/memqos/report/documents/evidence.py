"""The files of evidence in a results folder, line by line. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from memqos.report.documents.kinds import CgroupPath, Seconds

__all__ = [
    "Look",
    "Reading",
    "Request",
    "Spoken",
    "Unreadable",
]


class Unreadable(TypedDict):
    """A file that could not be read."""

    unreadable: str
    """Why it could not be read."""


class Reading(TypedDict):
    """A line of readings.jsonl: several cgroups at one instant."""

    source: str
    """The target's address."""
    at: float
    """Seconds of the observer's monotonic clock; only differences mean anything."""
    cgroups: dict[CgroupPath, dict[str, str | Unreadable | None]]
    """Path to files, file to its text; null is a missing file."""


class Spoken(TypedDict):
    """A line of workloads.jsonl: a command to a workload, or lines of its container's log."""

    at: float
    """Seconds of the machine's monotonic clock; for a command, those of the last observation before it."""
    container: str
    """The pod's name, a slash, and its own name."""
    told: bool
    """Whether it is a command of memqos; false for lines of the log."""
    text: str
    """One command, or unchanged lines of the log."""


class Look(TypedDict):
    """A line of series.jsonl: changed files of a watched cgroup."""

    at: float
    """Seconds of the machine's monotonic clock."""
    folder: str
    why: Literal["new", "clock", "event", "asked", "gone"]
    files: dict[str, str | None]
    """The files that changed since the folder's last line; null is a missing file."""


class Request(TypedDict):
    """A line of requests.jsonl: one call to the runtime, its messages as CRI's JSON."""

    method: str
    at: str
    """When the call began, UTC."""
    seconds: Seconds
    request: dict[str, Any]
    reply: dict[str, Any] | None
    """null if the answer was an error."""
    error: str
