"""The score of the suites from `memqos mutants --json`, as reports show it with a result."""

from __future__ import annotations

from pathlib import Path

from memqos.errors import UsageError
from memqos.plain_file import read_plain
from memqos.report.documents.answers import Mutants
from memqos.validation import CheckedFile

__all__ = ["suite_score"]

_MOST = 16 << 20


def suite_score(path: Path) -> str:
    """One line: how many mutants the suites killed, on which system and when.

    UsageError for a file that cannot be read, ManifestError for one that `memqos mutants --json` did not write.
    """
    try:
        content = read_plain(path, most=_MOST)
    except OSError as error:
        raise UsageError(f"the score of mutants cannot be read: {error.strerror}.", where=str(path)) from None
    found = CheckedFile.json(str(path), content).checked((), Mutants)
    score = found["score"]
    tried = score["killed"] + score["survived"]
    part = "" if found["complete"] else ", not all were tried"
    return (
        f"the suites killed {score['killed']} of {tried} mutants, {score['right']} with the right file and cgroup "
        f"({found['system']}; {found['at'][:10]}{part})"
    )
