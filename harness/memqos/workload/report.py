"""PURE parsing of memload's reports: one JSON object per line, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from memqos.errors import MachineryError

__all__ = [
    "STEP",
    "ContainerLog",
    "Done",
    "ErrorLine",
    "ExitLine",
    "Held",
    "ReportLine",
    "Started",
    "StepLine",
    "parse_report",
]

STEP = '"step'
"""The key of progress lines, in every form of log, which no other line has."""

_LONGEST_SHOWN = 200
# Time stamp, stream, tag and text: kubelet's log format, which CRI runtimes write.
_LOG_FIELDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """memload runs and has parsed its arguments. ms, in all lines: milliseconds since it started.

    lock_errno: 0 if the program itself is locked in memory, else the errno of the attempt.
    """

    ms: float
    pid: int
    page_size: int
    lock_errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A part of a command is done.

    command: counted from 1. bytes: done so far by this command, of `of`; both 0 for a hold that has begun. max_us: the
    longest time for one page or write in this step, in µs. thread: its number among several, from 1 on; 0 for a single
    one.
    """

    ms: float
    command: int
    verb: str
    region: int = 0
    bytes: int = 0
    of: int = 0
    max_us: float = 0.0
    thread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command is done. wrong_pages: pages with wrong content, found by a touch or a read.

    slept_ms: how much of ms the program's first thread neither ran nor waited for a CPU; None for a command that
    allocates nothing, and if the kernel does not count it (/proc/PID/schedstat, run_delay).
    """

    ms: float
    command: int
    verb: str
    region: int = 0
    bytes: int = 0
    wrong_pages: int = 0
    max_us: float = 0.0
    slept_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """A command failed; errno is 0 if it was not the kernel that refused."""

    ms: float
    command: int
    what: str
    errno: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """memload's holdings: regions and their bytes, and its resident memory in bytes, including its own."""

    ms: float
    command: int
    regions: int
    bytes: int
    resident: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitLine:
    """memload exits because of a command."""

    ms: float
    command: int
    code: int


ReportLine = Started | StepLine | Done | ErrorLine | Held | ExitLine

_KINDS: Mapping[str, type[ReportLine]] = {
    "start": Started,
    "step": StepLine,
    "done": Done,
    "error": ErrorLine,
    "held": Held,
    "exit": ExitLine,
}
_TYPES: Mapping[str, type[object] | tuple[type[object], ...]] = {
    "ms": (int, float),
    "max_us": (int, float),
    "slept_ms": (int, float),
    "verb": str,
    "what": str,
    "error": str,
}


def parse_report(text: str, *, source: str, live: bool = False) -> tuple[ReportLine, ...]:
    """The lines of a report.

    source: where the text came from, for errors. live: the workload may be writing its last line just now, so a line
    without its end is left for the next reading; otherwise it is an error.

    Raises MachineryError naming the line that is not memload's.
    """
    lines = text.split("\n")
    if lines[-1] and not live:
        _refuse("it is cut off", source, len(lines), lines[-1])
    return tuple(_parse_line(line, source, number) for number, line in enumerate(lines[:-1], start=1))


class ContainerLog:
    """The report in a growing container log, as CRI runtimes or Docker write it: memload's standard output.

    A line that the runtime split is joined again; standard error is skipped. source: origin of the text, for errors.
    report: the complete lines so far. begun: the incomplete last one.
    """

    def __init__(self, source: str) -> None:
        self.report: tuple[ReportLine, ...] = ()
        self.begun = ""
        self._source = source
        self._lines = 0
        self._unended = ""

    def grows(self, text: str) -> None:
        """Append to it. Raises MachineryError naming a line that is not a log's, or not memload's."""
        *lines, self._unended = (self._unended + text).split("\n")
        said = "".join(self._said(line, self._lines + number) for number, line in enumerate(lines, start=1))
        self._lines += len(lines)
        *whole, self.begun = (self.begun + said).split("\n")
        next_one = len(self.report) + 1
        self.report += tuple(_parse_line(line, self._source, number) for number, line in enumerate(whole, next_one))

    def _said(self, line: str, number: int) -> str:
        """The part of a log line that is standard output, with its end if it has one; "" for another stream."""
        if line.startswith("{"):
            return _docker_line(line, self._source, number)
        fields = line.split(" ", _LOG_FIELDS - 1)
        if len(fields) != _LOG_FIELDS:
            _refuse("it is not a line of a container's log", self._source, number, line)
        _, stream, tag, rest = fields
        return "" if stream != "stdout" else rest if tag == "P" else rest + "\n"


def _docker_line(line: str, source: str, number: int) -> str:
    """The standard output in a line of Docker's json-file, with its end if it has one; "" for another stream."""
    try:
        said = json.loads(line)
        return str(said["log"]) if said["stream"] == "stdout" else ""
    except (ValueError, KeyError):
        _refuse("it is not a line of a container's log", source, number, line)


def _parse_line(line: str, source: str, number: int) -> ReportLine:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        _refuse("it is not JSON", source, number, line)
    if not isinstance(fields, dict) or fields.get("event") not in _KINDS:
        _refuse("it is not an event of memload", source, number, line)
    kind = _KINDS[fields.pop("event")]
    if "id" in fields:
        fields["region"] = fields.pop("id")
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES.get(name, int)):
            _refuse(f"'{name}' is {value!r}", source, number, line)
    try:
        return kind(**fields)
    except TypeError:
        _refuse("its fields are not those of its event", source, number, line)


def _refuse(why: str, source: str, number: int, line: str) -> NoReturn:
    raise MachineryError(
        f"this line is not a report of the workload: {why}: '{line[:_LONGEST_SHOWN]}'.",
        where=f"{source}:{number}",
        data={"source": source, "line": number, "text": line},
    )
