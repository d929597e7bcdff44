"""Recovery after a failure: a new machine for the module, checks of the checkpoint, attempts that are skipped.

A broken machine costs the test that ran on it. Its module's fixtures are torn down, and the next test of the module
gets a new machine; the same after machinery errors in a pod that a module's tests share. The test itself is run again
if the checkpoint or image turns out to be damaged, or if it failed next to another case, which may have killed what it
needs. If the same failure repeats several times and nothing ever succeeded, it is assumed permanent; otherwise it is
tried once more on a new machine. A hanging runtime costs minutes for each attempt.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING

import pytest

from memqos.config.systems import SystemKey
from memqos.errors import MachineryError, MemqosError
from memqos.plugin.collection.parameters import kubelet_id, system_of
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import (
    ASKING,
    CONCURRENT_FAILURE,
    LANE,
    NOTES,
    SETTINGS_KEY,
    Notes,
    is_ours,
    node_fixture,
    outcome_of_phase,
    without_outcome,
)
from memqos.plugin.pytest_internals import VERSIONS, can_tear_down, tear_down
from memqos.repetition import ENOUGH, Repetition, as_before
from memqos.report.outcome import Outcome

if TYPE_CHECKING:
    from memqos.plugin.machines.lane import Lane

__all__ = ["Recovery"]

_OBSERVED = {Outcome.CONFORMS, Outcome.KNOWN, Outcome.DEVIATES}


class Recovery:
    """Watches the outcomes of this process's memqos tests that need a machine; registered wherever tests run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._telling = Messenger(config)
        self._row = Repetition()
        self._places: set[Hashable] = set()
        """Where the failures in a row happened."""
        self._observed: set[Hashable] = set()
        """Machines, by kind and id, on which something was observed."""
        self._hopeless: dict[Hashable, MemqosError] = {}
        """What is not tried again: places, or all of one kind of machine."""
        self._checked: set[str] = set()
        self._again: pytest.Item | None = None
        """The test that is being rerun, until its first attempt ends."""
        self._why = ""
        """Why it is rerun."""
        self._second: pytest.Item | None = None
        """The last test that was rerun: a second attempt counts, whatever its outcome."""

    @property
    def _lane(self) -> Lane | None:
        return self._config.stash.get(LANE, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Nothing is set up after a permanent failure, or on a machine that has died since the last test."""
        if not _needs_machine(item):
            return
        sort, place = self._place(item)
        if (error := self._hopeless.get(sort) or self._hopeless.get(place)) is not None:
            raise as_before(error)
        if self._lane is not None and (why := self._lane.lost):
            self._telling.line(f"before {item.name}: {why}")
            if not tear_down(item.session):
                raise MachineryError(
                    f"the machine of this module is lost: {why.rstrip('.')}.",
                    next_step=f"pytest {pytest.__version__} has no known way to set a module up on another machine: "
                    f"use pytest {VERSIONS}, or run this test alone.",
                )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Tear down what a module has on a lost machine, so that its next test gets a new one."""
        if nextitem is not None and self._lane is not None and self._lane.lost:
            tear_down(item.session)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Run a test again on another machine if its failure may have been memqos's.

        Either its machine's checkpoint or image was damaged, or it was judged next to others. No other test is tried
        twice.
        """
        result = yield
        if self._again is item:
            self._again, self._second = None, item
            item.stash[NOTES] = Notes()
            self._telling.line(f"{item.name} is run again, on another machine")
            tear_down(item.session)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Learn from each outcome; a teardown proves nothing about the next attempt."""
        report = yield
        if self._again is item:
            return without_outcome(report, self._why)
        outcome = outcome_of_phase(report)
        if outcome is None or report.when == "teardown" or not _needs_machine(item):
            return report
        if outcome in _OBSERVED:
            self._row.succeeded()
            self._observed |= {self._place(item)[0], self._machine_id()}
        error = call.excinfo.value if call.excinfo is not None and outcome is Outcome.MACHINERY else None
        if isinstance(error, MemqosError):
            why = self._why_again(item, error)
            if why and self._second is not item and can_tear_down(item.session):
                self._again, self._why = item, why
                return without_outcome(report, why)
            self._count(item, error)
            if report.when == "call" and self._lane is not None and ASKING & set(getattr(item, "fixturenames", ())):
                self._lane.spoil("leftovers of its last case in the pod may disturb the next one")
        return report

    def _count(self, item: pytest.Item, error: MemqosError) -> None:
        """Decide what a failure means for the following attempts."""
        sort, place = self._place(item)
        count = self._row.failed(error)
        self._places = {place} if count == 1 else self._places | {place}
        if count < ENOUGH or place in self._hopeless or sort in self._hopeless:
            return
        if self._lane is not None and self._machine_id() in self._observed:
            self._lane.spoil(f"{ENOUGH} tests in a row failed on it in the same way")
            return
        self._hopeless[place] = error
        kubelet = kubelet_id(item)
        rest = f"{item.path.name} under {kubelet}" if kubelet else item.path.name
        self._telling.line(f"the same failure {ENOUGH} times in a row: the remaining cases of {rest} are skipped")
        if len(self._places) > 1 and sort not in self._observed:
            self._hopeless[sort] = error
            self._telling.line(f"only machinery errors on {sort}: its remaining cases are skipped")

    def _why_again(self, item: pytest.Item, error: MemqosError) -> str:
        """Why a test that ended in machinery is run again, "" if it is not; see docs/explanation/outcomes.md."""
        if self._is_of_a_damaged_origin():
            return "the checkpoint or the image of its machine had changed on the disk"
        return (
            "it failed next to other cases, which may have disturbed it"
            if self._failed_concurrently(item, error)
            else ""
        )

    def _is_of_a_damaged_origin(self) -> bool:
        """Check, once, the checkpoint and image of the machine: they may be the cause."""
        station = self._lane.station if self._lane is not None else None
        origin = station.place.origin if station is not None else ""
        if self._lane is None or station is None or not origin or origin in self._checked:
            return False
        self._checked.add(origin)
        if station.place.origin_is_whole():
            return False
        self._lane.spoil("its checkpoint or image is damaged")
        return True

    def _failed_concurrently(self, item: pytest.Item, error: MemqosError) -> bool:
        """Whether a test failed while cases of its module were running that may have caused it."""
        module = item.getparent(pytest.Module)
        failed = module.stash.get(CONCURRENT_FAILURE, None) if module is not None else None
        if self._lane is None or failed is None or failed.error is not error:
            return False
        self._lane.spoil("a case failed on it next to another one")
        return True

    def _machine_id(self) -> str:
        station = self._lane.station if self._lane is not None else None
        return station.id if station is not None else ""

    def _place(self, item: pytest.Item) -> tuple[SystemKey, Hashable]:
        """The system that a test is for, and what shares a population with it there."""
        sort = system_of(item, self._config.stash[SETTINGS_KEY])
        return sort, (sort, item.path, kubelet_id(item))


def _needs_machine(item: pytest.Item) -> bool:
    return is_ours(item) and bool(node_fixture(getattr(item, "fixturenames", ())))
