"""What cases take: each by itself, and apart from it what several of them share, such as a population of pods.

What is shared is made in the setup of whichever case comes first, and removed after the last. It is no part of these
cases: in another run others may be first and last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from memqos.plugin.collection.collecting import shared_by
from memqos.plugin.collection.sharing import SHARES
from memqos.plugin.keys import SETTINGS_KEY, phase_of, plain_id
from memqos.plugin.results.durations import ExpectedDurations, expected_durations, keep_durations, stored_durations
from memqos.report.outcome import TestResult

__all__ = ["Timekeeping"]


class Timekeeping:
    """Keeps the time of a run of suites for the next; registered in the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shared_by: dict[str, str] = {}
        self._around: dict[str, float] = defaultdict(float)
        self._before: ExpectedDurations | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What the cases of this process share."""
        self._shared_by.update(shared_by(session.items, self._config.stash[SETTINGS_KEY]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What those of workers share; all of them tell the same."""
        self._shared_by.update(getattr(report, SHARES, {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The time around a case that shares something."""
        case = plain_id(report.nodeid)
        if report.when in {"setup", "teardown"} and case in self._shared_by and phase_of(report) is not None:
            self._around[case] += report.duration

    def expected(self, cases: Iterable[str]) -> ExpectedDurations:
        """What these cases will take together; what several share is counted for the first of them."""
        return expected_durations(cases, stored_durations(), shared_by=self._shared_by)

    def before(self, case: str, *, among: Iterable[str]) -> float | None:
        """What a case of this run took before, in seconds, None if nothing is known of it. among: the run's cases."""
        if self._before is None:
            self._before = self.expected(among)
        return self._before.seconds.get(case)

    def keep(self, results: Sequence[TestResult]) -> None:
        """Keep what the results of this run took."""
        shared: dict[str, float] = defaultdict(float)
        for case, seconds in self._around.items():
            shared[self._shared_by[case]] += seconds
        option = self._config.option
        is_whole = not (option.keyword or option.markexpr or any("::" in word for word in self._config.args))
        keep_durations(results, around=self._around, shared=shared, is_whole=is_whole)
