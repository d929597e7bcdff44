"""A run's face: events update the tally, and go to the screen as far as the verbosity allows.

The port for output of a face: a terminal or a log. A log's service (GitHub, GitLab) has commands of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol

from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.face.tally import Tally, TallyRow, told
from memqos.face.text import harmless
from memqos.report.outcome import Outcome, TestResult

__all__ = ["ClaimPlaces", "Face", "GitHub", "GitLab", "NoService", "Screen", "Service", "Tone", "service_of"]


_OTHERS = ("BUILDKITE", "CIRCLECI", "JENKINS_URL", "PROW_JOB_ID", "TEAMCITY_VERSION", "TF_BUILD", "TRAVIS")
"""Variables of services without log commands."""


class Service(Protocol):
    """A service's log commands; each answer is whole lines, "" for nothing."""

    def opens(self, name: str, title: str, *, at: int) -> str:
        """A part begins; at: seconds since 1970."""
        ...

    def closes(self, name: str, *, at: int) -> str:
        """It ends."""
        ...

    def marks(self, title: str, lines: list[str], *, file: Path | None, line: int) -> str:
        """Annotate an error. file, line: its place, None for no file; line is 1 or more."""
        ...

    def tamed(self, text: str) -> str:
        """The text without commands to the service: a guest may have written it."""
        ...


class NoService:
    """A log without commands."""

    def opens(self, name: str, title: str, *, at: int) -> str:  # noqa: ARG002 - as the protocol has it
        """Nothing folds."""
        return ""

    def closes(self, name: str, *, at: int) -> str:  # noqa: ARG002 - as the protocol has it
        """Nothing folds."""
        return ""

    def marks(self, title: str, lines: list[str], *, file: Path | None, line: int) -> str:  # noqa: ARG002 - as above
        """The log already has the error."""
        return ""

    def tamed(self, text: str) -> str:
        """The text: there are no commands."""
        return text


class GitHub:
    """GitHub's workflow commands: groups, and errors at a file's line.

    workspace: the checkout; paths are relative to it, since GitHub shows no other files.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def opens(self, name: str, title: str, *, at: int) -> str:  # noqa: ARG002 - as the protocol has it
        """A group; groups do not nest."""
        return f"::group::{_data(title)}\n"

    def closes(self, name: str, *, at: int) -> str:  # noqa: ARG002 - as the protocol has it
        """The group's end."""
        return "::endgroup::\n"

    def marks(self, title: str, lines: list[str], *, file: Path | None, line: int) -> str:
        """An error with the title and the text, at the line if the file is in the checkout."""
        named = ""
        if file is not None and file.is_relative_to(self._workspace):
            named = f"file={_property(file.relative_to(self._workspace).as_posix())},line={line},"
        return f"::error {named}title={_property(title)}::{_data(chr(10).join(lines))}\n"

    def tamed(self, text: str) -> str:
        """Without commands: the runner takes `::` at the beginning of a line, after blanks, and `##[` anywhere."""
        return re.sub(r"(?m)^(\s*):(?=:)", r"\1\\:", text).replace("##[", "#\\#[")


class GitLab:
    """GitLab's sections, which need control characters; GitLab's page removes them."""

    def opens(self, name: str, title: str, *, at: int) -> str:
        """A section, folded when it is over."""
        return f"\x1b[0Ksection_start:{at}:{_identifier(name)}[collapsed=true]\r\x1b[0K{title}\n"

    def closes(self, name: str, *, at: int) -> str:
        """The section's end."""
        return f"\x1b[0Ksection_end:{at}:{_identifier(name)}\r\x1b[0K\n"

    def marks(self, title: str, lines: list[str], *, file: Path | None, line: int) -> str:  # noqa: ARG002 - as above
        """GitLab reads errors from the JUnit file."""
        return ""

    def tamed(self, text: str) -> str:
        """The text: commands begin with a control character, and harmless text has none."""
        return text


def service_of(environment: Mapping[str, str], *, here: Path) -> Service | None:
    """The CI service by these variables, None outside of CI. here: the checkout, if no variable names it."""
    if _is_on(environment.get("GITLAB_CI")):
        return GitLab()
    if _is_on(environment.get("GITHUB_ACTIONS")) or _is_on(environment.get("CI")):
        if any(environment.get(name) for name in _OTHERS):
            return NoService()
        workspace = environment.get("GITHUB_WORKSPACE", "")
        return GitHub(Path(workspace) if workspace else here)
    return None


def _is_on(value: str | None) -> bool:
    return (value or "").lower() in {"1", "true", "yes"}


def _data(text: str) -> str:
    """Escaped like GitHub's toolkit escapes a command's data."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escaped like GitHub's toolkit escapes a value of a command's properties."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _identifier(name: str) -> str:
    """GitLab allows letters, digits, the underscore, the dot and the hyphen."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


class Tone(Enum):
    """The sort of a line."""

    PLAIN = "plain"
    STEP = "step"
    NOTE = "note"
    WRONG = "wrong"


class Screen(Protocol):
    """Output of a run's progress. All texts are harmless and have no line feed at the end."""

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines that stay."""
        ...

    def open(self, tally: Callable[[], Tally]) -> None:
        """The first case begins. tally: returns the current progress at any later time."""
        ...

    def row_begins(self, row: TallyRow) -> None:
        """The first case of a row begins."""
        ...

    def row_ends(self, row: TallyRow) -> None:
        """The last case of a row is over."""
        ...

    def close(self) -> None:
        """The run is over. May be called several times; restores the terminal."""
        ...


ClaimPlaces = Callable[[TestResult], tuple[Path | None, int]]


class Face:
    """The face of one run.

    verbosity: as in pytest: below 0 only what went wrong, from 1 on a line per case, from 2 on the full text of what
    went wrong. places: file and line of the claim of a case, for services that show annotations.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        verbosity: int = 0,
        service: Service | None = None,
        places: ClaimPlaces = lambda _: (None, 1),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._screen = screen
        self._verbosity = verbosity
        self._service = service or NoService()
        self._places = places
        self._clock = clock
        self._causes: dict[object, int] = {}
        self._told: set[str] = set()
        self._tally = Tally({}, expected={}, began=clock.now())
        self._opened = False

    @property
    def tally(self) -> Tally:
        """The accounts."""
        return self._tally

    def head(self, lines: list[str]) -> None:
        """A line about what follows."""
        if self._verbosity >= 0:
            self._screen.say([self.plain(line) for line in lines])

    def expects(self, rows: Mapping[str, str], *, expected: Mapping[str, float], workers: int) -> None:
        """The cases are known, with their rows and earlier seconds."""
        self._tally = Tally(rows, expected=expected, began=self._clock.now(), workers=workers)

    def starts(self, worker: str, case: str) -> None:
        """A worker begins a case."""
        if not self._opened and self._verbosity >= 0:
            self._opened = True
            self._screen.open(lambda: self._tally)
        row = self._tally.starts(worker, case, now=self._clock.now())
        if row is not None and self._verbosity >= 0:
            self._screen.row_begins(row)

    def does(self, worker: str, step: str) -> None:
        """A worker's current step, which is not kept."""
        self._tally.does(worker, self.plain(step))

    def line(self, worker: str, text: str) -> None:
        """Something that happened."""
        if self._verbosity >= 0:
            who = f"[{worker}] " if worker else ""
            self._screen.say([who + self.plain(text)], Tone.STEP)

    def note(self, text: str) -> None:
        """A note; printed once."""
        if self._verbosity >= 0 and text not in self._told:
            self._told.add(text)
            self._screen.say([self.plain(text)], Tone.NOTE)

    def ends(self, worker: str, result: TestResult) -> None:
        """A case is over."""
        row = self._tally.ends(worker, result.id, result.outcome, seconds=result.seconds)
        self._tell(worker, result)
        if row is not None and self._verbosity >= 0:
            self._screen.row_ends(row)

    def close(self) -> None:
        """The run is over."""
        self._screen.close()

    def plain(self, text: str) -> str:
        """The text without control characters and commands to the CI service."""
        return self._service.tamed(harmless(text))

    def _tell(self, worker: str, result: TestResult) -> None:
        if self._verbosity > 0:
            who = f"[{worker}] " if worker else ""
            why = f": {result.reason}" if result.outcome is Outcome.NOT_OBSERVABLE else ""
            self._screen.say([self.plain(f"{who}{result.outcome}  {result.id}{why}".replace("\n", "\\n"))], Tone.STEP)
        if self._verbosity < -1:
            return
        for cause, lines in told(result, self._causes):
            self._causes[cause.key] = 1
            shown = [self.plain(line.replace("\n", "\\n")) for line in lines]
            if self._verbosity > 1 and result.text:
                shown += [f"  {line}" for line in self.plain(result.text).splitlines()]
            file, line = self._places(result)
            mark = self._service.marks(shown[0], [one.strip() for one in shown[1:]], file=file, line=line)
            if mark:
                self._screen.say([mark.rstrip("\n")])
            self._screen.say(shown, Tone.WRONG)
