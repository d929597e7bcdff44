"""What a release is made from: a commit of this repository, its version, its changelog, and the release before it."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

__all__ = ["ReleaseError", "Source", "changelog_section", "problems"]

VERSION_FILE = "harness/memqos/version.py"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_HEADING = re.compile(r"^## (?P<version>\S+)(?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be made; the message names the file or command and the next step."""


def git(top: Path, *arguments: str) -> bytes:
    """What git prints for a command in the repository `top`; ReleaseError with git's message if it fails."""
    done = subprocess.run(["git", "-C", str(top), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Source:
    """A commit to release. top: the repository. commit: 40 hex digits. tag: "v1.2.3", "" if the commit has none."""

    top: Path
    commit: str
    tag: str = ""

    @classmethod
    def of(cls, top: Path, revision: str = "HEAD") -> Source:
        """The commit of a revision, with the tag of its version if that tag is on it."""
        commit = git(top, "rev-parse", "--verify", f"{revision}^{{commit}}").decode().strip()
        source = cls(top, commit)
        tag = f"v{source.version}"
        return cls(top, commit, tag) if tag in git(top, "tag", "--points-at", commit).decode().split() else source

    @property
    def version(self) -> str:
        """The version that version.py has in this commit."""
        match = _VERSION.search(self.text(VERSION_FILE))
        if not match:
            raise ReleaseError(f'{VERSION_FILE} of {self.commit[:12]} has no line __version__ = "…"')
        return match[1]

    @property
    def epoch(self) -> int:
        """When it was committed, in seconds since 1970: SOURCE_DATE_EPOCH of everything built from it."""
        return int(git(self.top, "show", "--no-patch", "--format=%ct", self.commit))

    def text(self, path: str) -> str:
        """A file of the commit; ReleaseError if there is none."""
        return git(self.top, "show", f"{self.commit}:{path}").decode()

    def export(self, folder: Path) -> None:
        """Write the commit's files to an empty folder: nothing that is not committed gets into a release."""
        with tarfile.open(fileobj=BytesIO(git(self.top, "archive", "--format=tar", self.commit))) as archive:
            # No chmod: the umask decides the modes, as in a checkout.
            for member in archive:
                archive.extract(member.replace(mode=None, deep=False), folder, filter="data")

    def previous(self) -> Source | None:
        """The release to upgrade from; None if the history has no other version.

        The newest tag v* before this commit with another version. Without such a tag, the last commit with another
        version in the first-parent history. ReleaseError in a shallow clone that ends before it.
        """
        own = self.version
        tags = git(self.top, "tag", "--list", "v[0-9]*", "--merged", self.commit, "--sort=-version:refname").decode()
        for tag in tags.split():
            if tag != f"v{own}":
                return Source.of(self.top, tag)
        changes = git(self.top, "log", "--first-parent", "--format=%H", self.commit, "--", VERSION_FILE).decode()
        for changed in changes.split():
            parents = git(self.top, "rev-list", "--parents", "--max-count=1", changed).decode().split()[1:]
            if not parents or not git(self.top, "ls-tree", parents[0], VERSION_FILE):
                continue
            before = Source.of(self.top, parents[0])
            if before.version != own:
                return before
        if git(self.top, "rev-parse", "--is-shallow-repository").strip() == b"true":
            raise ReleaseError("this clone is shallow and has no earlier version: git fetch --unshallow --tags")
        return None


def changelog_section(changelog: str, version: str) -> tuple[str, str]:
    """The date and the text of a version's section in CHANGELOG.md; the date is "" if its heading has none.

    ReleaseError if there is no such section.
    """
    headings = list(_HEADING.finditer(changelog))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] == version:
            text = changelog[heading.end() : following.start() if following else None]
            return heading["date"] or "", text.strip()
    raise ReleaseError(f"CHANGELOG.md has no section '## {version} - DATE': rename '## Unreleased'")


def problems(source: Source) -> Iterator[str]:
    """What has to be mended before this commit can be released; each names the file and the next step."""
    version, changelog, notes = source.version, source.text("CHANGELOG.md"), f"docs/releases/{source.version}.md"
    try:
        date, text = changelog_section(changelog, version)
    except ReleaseError as error:
        yield str(error)
    else:
        if not date:
            yield f"CHANGELOG.md: the heading '## {version}' has no date: write '## {version} - YYYY-MM-DD'"
        if not text:
            yield f"CHANGELOG.md: the section of {version} is empty"
    first = _HEADING.search(changelog)
    if first and first["version"] == "Unreleased" and changelog_section(changelog, "Unreleased")[1]:
        yield f"CHANGELOG.md: move the entries of 'Unreleased' to the section of {version}"
    if not git(source.top, "ls-tree", source.commit, notes):
        yield f"{notes} is missing: write the release notes there"
    tagged = git(source.top, "tag", "--list", f"v{version}").decode().strip()
    if tagged and tagged != source.tag:
        yield f"the tag {tagged} is on another commit: raise the version in {VERSION_FILE}"
