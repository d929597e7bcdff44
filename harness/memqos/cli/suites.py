"""The suites of a run: memqos's own, or the folders, files and tests on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos import claims
from memqos.errors import UnknownNameError, UsageError

__all__ = ["Selection", "select_suites"]

_LISTED = "memqos run --collect-only -q lists every test."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """pytest's arguments: words, some of which are places, and the folder of suites to which node ids are relative.

    conftest_root: the topmost folder whose conftest.py counts.
    """

    words: tuple[str, ...]
    root: Path
    configuration: Path
    conftest_root: Path


def select_suites(words: Sequence[str], *, brought: Path, here: Path) -> Selection:
    """Resolve the words on the command line of `memqos run` that are not its options.

    A word may name a place, or a chapter of memqos's own suites, from any current folder; pytest gets other words
    unchanged. Without a place, all of memqos's own suites run. brought: the folder of memqos's own suites. here: the
    current folder. Raises UsageError for a place that does not exist or is not in a folder of suites.
    """
    found: list[str] = []
    roots: list[Path] = []
    for number, word in enumerate(words):
        place = None if word.startswith("-") else _place(word, brought, here)
        if place is not None:
            path, root = place
            roots.append(root)
            found.append(f"{path}{word[len(word.partition('::')[0]) :]}")
            continue
        if not word.startswith("-") and not (number and words[number - 1].startswith("-")):
            raise _unknown(word, brought, here)
        found.append(word)
    root = roots[0] if len(set(roots)) == 1 else brought
    own = root / "pytest.ini"
    return Selection(
        words=(*found, *([] if roots else [str(brought)])),
        root=root,
        configuration=own if own.is_file() else brought / "pytest.ini",
        conftest_root=here if root.is_relative_to(here) else root,
    )


def _place(word: str, brought: Path, here: Path) -> tuple[Path, Path] | None:
    """The path that a word names, and its folder of suites; None for other words."""
    path = word.partition("::")[0]
    if not path:
        return None
    for place in (Path(path), Path("suites", path)):
        # Symbolic links stay unresolved, so paths read as typed.
        absolute = Path(os.path.normpath(here / place))
        if absolute.exists():
            for folder in (absolute, *absolute.parents):
                if claims.is_suites_root(folder):
                    return absolute, folder
    for name in (path, path.removeprefix("suites/")):
        if (brought / name).exists() and (brought / name).is_relative_to(brought):
            return brought / name, brought
    return None


def _unknown(word: str, brought: Path, here: Path) -> UsageError:
    path = word.partition("::")[0]
    if (here / path).exists():
        return UsageError(
            f"'{path}' is not in a folder of suites: no chapter with a {claims.FILE_NAME} in it or above it.",
            next_step="Name a folder of suites, or a file or test in one.",
        )
    if "::" in word or word.endswith(".py"):
        return UsageError(f"test file '{path}' does not exist.", next_step=_LISTED)
    return UnknownNameError.of("suite", word, sorted(_chapters(brought)))


def _chapters(root: Path) -> Iterator[str]:
    return (file.parent.name for file in root.glob(f"*/{claims.FILE_NAME}"))
