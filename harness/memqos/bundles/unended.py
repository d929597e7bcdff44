"""What the folder of a run that was killed says of its end: how far it came, and which cases it was at."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence, Set
from pathlib import Path

from memqos.bundles.files import BEGUN, BUNDLE
from memqos.bundles.shapes import count_of
from memqos.report.outcome import TestResult

__all__ = ["first_few", "how_far"]

_LONGEST_BEGUN = 16 << 20


def how_far(cases: object, results: Sequence[TestResult], folder: Path) -> str:
    """How far a run came that left no bundle, as far as its folder says. cases: how many it was to run."""
    said = f"There is no whole {BUNDLE}: the run was killed or still goes on"
    if not count_of(cases):
        return f"{said}, so that its end, and how many cases are missing, is not known."
    begun = _begun(folder, {result.id for result in results})
    during = f", while it ran {first_few(begun)}" if begun else ""
    return f"{said}, after {len(results)} of its {cases} cases{during}."


def _begun(folder: Path, ended: Set[str]) -> list[str]:
    """The cases that were begun, and did not end; the last line may have been cut off."""
    file = folder / BEGUN
    if file.is_symlink() or not file.is_file():  # a link may lead to what is nobody's business, and a pipe waits
        return []
    with contextlib.suppress(OSError), file.open("rb") as stream:
        lines = stream.read(_LONGEST_BEGUN).decode("utf-8", "replace").split("\n")[:-1]
        return [case for case in dict.fromkeys(lines) if case not in ended]
    return []


def first_few(some: Sequence[object]) -> str:
    """The first of them, and how many there are more."""
    shown = ", ".join(map(str, some[:5]))
    return shown if len(some) <= 5 else f"{shown} and {len(some) - 5} more"  # noqa: PLR2004 - the five shown
