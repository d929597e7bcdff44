"""Which worker runs which tests: groups that stay together, as the workers, which collect them, report them.

pytest-xdist's own loadgroup says a test's group in its node id. From pytest 9.2 on that is silently lost
(pytest-dev/pytest-xdist, issue 1386): every test went to any worker, and each worker made every population.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from memqos.plugin.keys import plain_id
from memqos.report.bundle import LeftOut

__all__ = ["CRASHES", "GROUPS", "OMITTED", "SHARES", "Sharing", "tell_groups"]

CRASHES = 3
"""How many workers that crash are replaced; what kills every worker would cost a machine for each of its cases."""

GROUPS = "memqos_groups"
"""The name under which a worker's report carries the groups of its tests."""

OMITTED = "memqos_left_out"
"""The name under which it carries what the default leaves out."""


SHARES = "memqos_shares"
"""The name under which it carries what its tests share."""


def tell_groups(
    config: pytest.Config, groups: Mapping[str, str], *, left_out: LeftOut, shares: Mapping[str, str]
) -> None:
    """In a worker: tell the controller the group of each test, by node id, what was left out, and what tests share.

    It travels as a report of collecting, which is neither good nor bad: xdist hands those on at once.
    """
    if hasattr(config, "workerinput"):
        report = pytest.CollectReport(nodeid="", outcome="told", longrepr=None, result=None)  # type: ignore[arg-type]
        setattr(report, GROUPS, dict(groups))
        setattr(report, OMITTED, dataclasses.asdict(left_out))
        setattr(report, SHARES, dict(shares))
        config.hook.pytest_collectreport(report=report)


class Sharing:
    """Gives xdist's controller a scheduler that knows the groups."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what a worker told; all workers tell the same."""
        self._groups.update(getattr(report, GROUPS, {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
        """Ours in the place of loadgroup."""
        return _Scheduling(config, log, self._groups) if config.getoption("dist") == "loadgroup" else None


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests of one group to one worker, and what a crashed worker left of it to another one.

    pytest-xdist's own would send the test that it crashed in as well, and never come back to a new worker that got a
    single test: a worker begins a test once it knows the next one, or that it is the last.
    """

    def __init__(self, config: pytest.Config, log: Any, groups: Mapping[str, str]) -> None:
        super().__init__(config, log)
        self._groups = groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(plain_id(nodeid), nodeid)

    def schedule(self) -> None:
        """Send tests to the workers that have collected them."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        """Send a worker its next tests; those of a crashed worker come back when xdist reports its end."""
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; the test that it was running if it crashed, None if it had done its work."""
        units = [(scope, unit) for scope, unit in self.assigned_work.pop(node).items() if not all(unit.values())]
        if not units:
            return None
        crashed: str = next(nodeid for nodeid, is_done in units[0][1].items() if not is_done)
        units[0][1][crashed] = True
        for scope, unit in reversed(units):
            if not all(unit.values()):
                self.workqueue[scope] = unit
                self.workqueue.move_to_end(scope, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed
