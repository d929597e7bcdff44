"""Log commands of CI services: folding parts, and annotations at a line of a file. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

__all__ = ["GitHub", "GitLab", "NoService", "Service", "service_of"]

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
