"""The xdist workers of a run of suites: as many as are fastest and fit on this host, or others on other hosts.

Which worker runs which tests: groups that stay together, as the workers, which collect them, report them.

pytest-xdist's own loadgroup says a test's group in its node id. From pytest 9.2 on that is silently lost
(pytest-dev/pytest-xdist, issue 1386): every test went to any worker, and each worker made every population.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from memqos.errors import MemqosError, UsageError
from memqos.plugin.keys import plain_id
from memqos.plugin.settings import settings_given
from memqos.report.bundle import LeftOut

__all__ = ["CRASHES", "GROUPS", "OMITTED", "SHARES", "Sharing", "check_copied", "limit_workers", "tell_groups"]


def check_copied(config: pytest.Config, specs: Sequence[Any]) -> None:
    """What names tests on other hosts is copied there. specs: of the workers, as execnet has them.

    xdist takes every word of the command that is a path here for tests, be it what an option was given. Raises
    UsageError for one that is in none of the folders that it copies.
    """
    if all(spec.popen and not spec.chdir for spec in specs):
        return
    copied = [Path(folder).resolve() for folder in (*config.option.rsyncdir, *config.getini("rsyncdirs"))]
    for word in map(str, config.invocation_params.args):
        place = Path(word.partition("::")[0])
        if place.exists() and not any(place.is_relative_to(folder) for folder in copied):
            raise UsageError(
                f"'{place}' is outside of the folders that are copied to the hosts.",
                next_step="Name tests by their whole path below a folder of --rsyncdir, and write an option and its "
                "value as one word, such as --memqos-results=FOLDER.",
            )


def limit_workers(config: pytest.Config, asked: int | str) -> tuple[int, str]:
    """How many of the workers that were asked for there can be, and one line that says so.

    asked: a number, of which as many are started as fit, or xdist's words "auto" and "logical" for as many as are
    fastest; 0 is this process alone. Settings that cannot be resolved are left for pytest_configure to refuse.
    """
    # What machines need is loaded for a run that asks for workers, not in every project that has the plugin.
    from memqos.place.room import room_for

    try:
        room = room_for(settings_given(config))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (0, "")
    most, best = room.most, room.best
    if not isinstance(asked, int):
        # One worker would only add a process: this one does its work as well.
        number = best.machines if best.machines > 1 else 0
        return number, f"memqos: {_machines(best.machines)} at a time: {best.reason}"
    if asked > most.machines:
        said = f"memqos: {_machines(most.machines)} at a time instead of {asked}: {most.reason}"
    else:
        said = f"memqos: {_machines(asked)} at a time"
    number = min(asked, most.machines)
    if number > best.machines:
        said += f"; {best.machines} would be faster (-n auto): {best.reason}"
    return number, said


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"


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
