"""Known deviations as a run uses them: those of vm/known.toml and of the lists of whoever runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memqos.baseline import Accepted, accepted_or_not, load_baseline
from memqos.bundles import files
from memqos.catalog.data import data_root
from memqos.clock import utc_now
from memqos.config.lines import line_of
from memqos.engine.answer.finding import Finding
from memqos.errors import UnknownNameError
from memqos.known import load_known
from memqos.laboratory.known_deviations import known_deviations
from memqos.plugin.collection.citing import claims_below
from memqos.plugin.keys import SETTINGS_KEY
from memqos.report.gone import known_gone
from memqos.report.outcome import TestResult

__all__ = ["accepted_by", "check_claims_of_lists", "not_seen"]


def check_claims_of_lists(lists: tuple[Path, ...], root: Path) -> None:
    """Every entry of these lists is of a claim below this root or of ours; UnknownNameError with the line if not."""
    claims = {*claims_below(root), *claims_below(data_root() / "suites")}
    for file in lists:
        for entry in load_known(file):
            if entry.claim and entry.claim not in claims:
                line = line_of(file.read_text(encoding="utf-8"), entry.name, "claim")
                where = f"{file}:{line}: {entry.name}"
                raise UnknownNameError.of("claim", entry.claim, sorted(claims), where=where)


def not_seen(results: Sequence[TestResult], folder: Path, lists: tuple[Path, ...]) -> tuple[str, ...]:
    """What is listed of the runtimes of a run's machines and was looked for in vain; see `report.gone`."""
    return known_gone(results, files.machines(folder), known_deviations(lists))


_ACCEPTED = pytest.StashKey[tuple[Accepted, ...]]()


def accepted_by(config: pytest.Config, finding: Finding, claim: str) -> Finding:
    """The finding of a claim as known, if the baseline of this run accepts it today."""
    file = config.stash[SETTINGS_KEY].baseline
    if file is None:
        return finding
    if _ACCEPTED not in config.stash:
        config.stash[_ACCEPTED] = load_baseline(file)
    accepted: tuple[Accepted, ...] = config.stash[_ACCEPTED]
    return accepted_or_not(finding, claim, accepted, today=utc_now().date())
