"""xdist workers of a run of suites: the fastest number that fits on this host, or those on other hosts.

Each worker reports the groups of tests that must stay together.

pytest-xdist's own loadgroup encodes a test's group in its node id. From pytest 9.2 on this is silently lost
(pytest-dev/pytest-xdist, issue 1386): any worker would get any test, and each worker would create every population.
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

__all__ = ["CRASHES", "GROUPS", "OMITTED", "SHARES", "GroupScheduling", "check_copied", "limit_workers", "pass_groups"]


def check_copied(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Check that the named tests are copied to other hosts. specs: of the workers, as execnet has them.

    xdist treats every word of the command line that is a path here as tests, even an option's value. Raises UsageError
    for one that is in none of the folders that it copies.
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
    """The possible number of workers for the requested one, and one line that explains it.

    asked: a number, of which as many are started as fit, or xdist's words "auto" and "logical" for the fastest number;
    0 is this process alone. Settings that cannot be resolved are left for pytest_configure to reject.
    """
    # What machines need is imported only for a run with workers, not in every project that has the plugin.
    from memqos.place.opening import room_for

    try:
        room = room_for(settings_given(config))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (0, "")
    most, best = room.most, room.best
    if not isinstance(asked, int):
        # One worker would only add a process: this process runs the tests itself.
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
"""How many crashed workers are replaced; a crash in every worker would cost a machine for each of its cases."""

GROUPS = "memqos_groups"
"""The key for the groups of tests in a worker's report."""

OMITTED = "memqos_left_out"
"""The key for what the default leaves out."""


SHARES = "memqos_shares"
"""The key for what tests share."""


def pass_groups(
    config: pytest.Config, groups: Mapping[str, str], *, left_out: LeftOut, shares: Mapping[str, str]
) -> None:
    """In a worker: report the group of each test by node id, what was left out, and what tests share.

    Sent as a collect report that neither passes nor fails, since xdist forwards those at once.
    """
    if hasattr(config, "workerinput"):
        report = pytest.CollectReport(nodeid="", outcome="told", longrepr=None, result=None)  # type: ignore[arg-type]
        setattr(report, GROUPS, dict(groups))
        setattr(report, OMITTED, dataclasses.asdict(left_out))
        setattr(report, SHARES, dict(shares))
        config.hook.pytest_collectreport(report=report)


class GroupScheduling:
    """Gives xdist's controller a scheduler that knows the groups."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a worker's report; all workers send the same."""
        self._groups.update(getattr(report, GROUPS, {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
        """Replaces loadgroup."""
        return _Scheduling(config, log, self._groups) if config.getoption("dist") == "loadgroup" else None


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests of one group to one worker, and the rest of a crashed worker to another one.

    pytest-xdist's own scheduler would resend the test that crashed the worker, and never return to a new worker that
    got a single test: a worker begins a test once it knows the next one, or that it is the last.
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
        """Forget a worker; returns the test that it was running if it crashed, None if it had finished."""
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
