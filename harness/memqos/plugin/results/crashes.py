"""Workers of pytest-xdist that ended before their time, and what that says of the tests that they ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from memqos.errors import ExitCode, MachineryError
from memqos.plugin.keys import host_of
from memqos.report.outcome import Outcome
from memqos.report.phase import Phase

__all__ = ["Crashes", "worker_died"]

_INTERRUPTED = "keyboard-interrupt"
"""How pytest-xdist calls the end of a worker that somebody interrupted."""


class Crashes:
    """What ended workers, in the order in which it did."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def add(self, reason: str) -> None:
        """One more; reason: in xdist's words."""
        self._reasons.append(reason)

    @property
    def last_was_interrupted(self) -> bool:
        """Whether somebody interrupted the worker that ended last."""
        return self._reasons[-1:] == [_INTERRUPTED]

    def too_many(self, config: pytest.Config, *, chosen: int, missing: int) -> MachineryError | None:
        """Why this many of the cases are missing, if that is because too many workers crashed.

        chosen: how many were to be run; none where the workers did not live to tell them.
        """
        limit = config.getoption("maxworkerrestart", None)
        crashed = [reason for reason in self._reasons if reason != _INTERRUPTED]
        if limit is None or len(crashed) <= int(limit) or (chosen and not missing):
            return None
        lost = f"and {missing} cases were not run" if chosen else "before they knew of a case"
        return MachineryError(
            f"{len(crashed)} workers crashed, {lost}.",
            next_step="Run them alone, without -n, to see what ends their process.",
        )


def worker_died(report: pytest.TestReport) -> Phase:
    """The phase of a test during which its worker's process ended."""
    return Phase(
        outcome=Outcome.MACHINERY,
        host=host_of(getattr(report, "node", None)),
        chapter=Path(report.nodeid.partition("::")[0]).parent.name,
        reason=str(report.longrepr).strip().partition("\n")[0],
        text=report.longreprtext,
        error_code=int(ExitCode.MACHINERY),
    )
