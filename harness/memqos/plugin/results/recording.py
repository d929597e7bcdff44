"""The controller's side of results: each test's result is written on arrival, the bundle at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Generator, Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from memqos import frame
from memqos.bundles import files
from memqos.clock import utc_now
from memqos.errors import ExitCode, MachineryError, MemqosError, UsageError
from memqos.interruption import Interruption
from memqos.laboratory.evidence import Folder, host, versions
from memqos.plugin.collection.known_deviations import not_seen
from memqos.plugin.collection.workers import GROUPS, OMITTED
from memqos.plugin.keys import (
    ATTRIBUTE,
    BUILDS,
    LEFT_OUT,
    RESULTS,
    SETTINGS_KEY,
    SHARD,
    host_of,
    is_ours,
    is_run_of_suites,
    phase_of,
    plain_id,
)
from memqos.plugin.results.durations import DurationRecorder
from memqos.plugin.results.ending import FILES, RunEnd, cited, publish, summary_lines
from memqos.plugin.results.results_folder import for_good, make_folder
from memqos.report import ci_results
from memqos.report.bundle import Bundle, LeftOut
from memqos.report.outcome import Outcome, Phase, TestResult, result_of

__all__ = ["Crashes", "Recording"]


class Roster:
    """The tests of a run, by their ids; an aborted run counts from it how many are missing.

    `in_suites`: whether all tests that workers run are memqos's: they send only ids, which do not show that.
    """

    def __init__(self, *, in_suites: bool) -> None:
        self._in_suites = in_suites
        self._chosen: set[str] = set()
        self._offered: set[str] = set()
        self._ended: set[str] = set()

    @property
    def chosen(self) -> Set[str]:
        """What is to be run."""
        return self._chosen

    @property
    def has_ours(self) -> bool:
        """Whether any test of memqos was found, also one that was then deselected."""
        return bool(self._chosen or self._offered)

    def offer(self, ids: Iterable[str]) -> None:
        """Add a worker's memqos tests, before anything is deselected."""
        self._offered.update(map(plain_id, ids))

    def choose(self, ids: Iterable[str]) -> None:
        """Add the memqos tests that are to be run."""
        self._chosen.update(ids)

    def choose_by_worker(self, ids: Iterable[str]) -> None:
        """Add a worker's selected tests; outside a suites folder only those added before are memqos's."""
        ids = {plain_id(nodeid) for nodeid in ids}
        self._chosen |= ids if self._in_suites else ids & self._offered

    def end(self, nodeid: str) -> None:
        """A test has ended, whether or not it found anything."""
        self._ended.add(nodeid)

    def missing(self, results: Set[str]) -> set[str]:
        """The selected tests without a result among these `results` that did not end without one."""
        return self._chosen - self._ended - results


_INTERRUPTED = "keyboard-interrupt"
"""pytest-xdist's reason for the end of an interrupted worker."""


class Crashes:
    """The reasons for which workers ended, in order."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def add(self, reason: str) -> None:
        """Add one more; reason: in xdist's words."""
        self._reasons.append(reason)

    @property
    def last_was_interrupted(self) -> bool:
        """Whether the worker that ended last was interrupted."""
        return self._reasons[-1:] == [_INTERRUPTED]

    def too_many(self, config: pytest.Config, *, chosen: int, missing: int) -> MachineryError | None:
        """Why this many cases are missing, if too many workers crashed.

        chosen: how many were to be run; none if the workers crashed before they reported it.
        """
        limit = config.getoption("maxworkerrestart", None)
        crashed = [reason for reason in self._reasons if reason != _INTERRUPTED]
        if limit is None or len(crashed) <= int(limit) or (chosen and not missing):
            return None
        lost = f"and {missing} cases were not run" if chosen else "before they collected any case"
        return MachineryError(
            f"{len(crashed)} workers crashed, {lost}.",
            next_step="Run the cases without -n to see what ends the process.",
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


class Recording:
    """Collects the results of all workers; registered in the controller only.

    It also frames a run: however it ends, the results until then are kept, and its exit code is memqos's.
    """

    def __init__(self, config: pytest.Config, interruption: Interruption) -> None:
        self._config = config
        self._ending = RunEnd(interruption)
        self._settings = config.stash[SETTINGS_KEY]
        self._started = utc_now()
        self._phases: dict[str, list[Phase]] = {}
        self._seconds: dict[str, float] = {}
        self._results: list[TestResult] = []
        self.roster = Roster(in_suites=is_run_of_suites(config))
        self._made = self._is_told = False
        self._others_failed = False
        self._usage = ""
        self._crashes = Crashes()
        self._bundle: Bundle | None = None
        self._summarised = False
        self._held = contextlib.ExitStack()

    @property
    def is_responsible(self) -> bool:
        """Whether this is a run of memqos tests; any other is left to pytest."""
        return self.roster.has_ours or bool(self._results) or is_run_of_suites(self._config)

    @property
    def results(self) -> tuple[TestResult, ...]:
        """The results so far, in their order."""
        return tuple(self._results)

    @property
    def folder(self) -> Path | None:
        """The results folder; None if none was created."""
        return self._folder if self._made else None

    @property
    def _folder(self) -> Path:
        return self._config.stash[RESULTS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass an xdist worker the results folder; only the controller knows whether there will be results."""
        if not (self._made or self._is_told):
            self._config.stash[RESULTS] = for_good(self._folder, self._settings)
        self._is_told = True
        node.workerinput["memqos_results"] = str(self._folder)
        node.workerinput["memqos_builds"] = self._config.stash[BUILDS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker reports at its end, or that it could not."""
        if error:
            self._crashes.add(str(error))
        output = getattr(node, "workeroutput", None) or {}
        self._usage = self._usage or output.get("memqos_usage", "")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Under xdist only the workers collect, each the same."""
        self.roster.choose_by_worker(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember which tests were to run, so that an aborted run reports how many are missing."""
        self.roster.choose(item.nodeid for item in session.items if is_ours(item))
        if self.roster.chosen:
            self._make_folder()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a worker's memqos tests; a file that cannot be collected is reported, and its cases are missing."""
        if groups := getattr(report, GROUPS, {}):
            self.roster.offer(groups)
            self._config.stash[LEFT_OUT] = LeftOut(**getattr(report, OMITTED))
            self._make_folder()
        if report.failed and self.is_responsible:
            last = report.longreprtext.strip().splitlines()[-1:] or ["it cannot be collected"]
            self._ending.add(
                UsageError(f"the tests cannot be collected: {last[0].removeprefix('E').strip()}", where=report.nodeid)
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """The results folder is created before any machine."""
        if is_run_of_suites(self._config):
            self._make_folder()

    def _make_folder(self) -> None:
        if self._made or self._config.getoption("collectonly"):
            return
        try:
            self._config.stash[RESULTS] = make_folder(self._folder, self._settings, held=self._held)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        self._made = True
        self._ending.crash_folder = self._folder
        begun = self._new_bundle()
        Folder(self._folder).write("run.json", begun.head())
        files.write(self._folder / "started.json", ci_results.started_json(begun))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a phase; when a test is over, write its result at once."""
        nodeid = plain_id(report.nodeid)
        if report.failed and report.when not in {"setup", "call", "teardown"} and nodeid in self.roster.chosen:
            if self._crashes.last_was_interrupted:
                return
            # xdist created this report for a worker that died in the middle of a test.
            setattr(report, ATTRIBUTE, worker_died(report))
        if report.when == "teardown":
            self.roster.end(nodeid)
        phase = phase_of(report)
        if phase is None:
            self._others_failed = self._others_failed or report.failed
            return
        self._phases.setdefault(nodeid, []).append(dataclasses.replace(phase, seconds=report.duration))
        self._seconds[nodeid] = self._seconds.get(nodeid, 0.0) + report.duration
        if report.when not in {"setup", "call"}:
            self._finish(nodeid, getattr(report, "worker_id", ""))

    def _finish(self, nodeid: str, worker: str = "") -> None:
        phases = self._phases.pop(nodeid)
        result = result_of(nodeid, phases, seconds=self._seconds[nodeid])
        if result is None:
            if any(phase.again for phase in phases):
                self._phases[nodeid] = phases  # Those of the next attempt follow.
            return
        times: DurationRecorder | None = self._config.pluginmanager.get_plugin("memqos-timekeeping")
        if times is not None and (before := times.before(nodeid, among=self.roster.chosen)) is not None:
            result = dataclasses.replace(result, seconds_before=round(before, 3))
        self._results.append(result)
        self._config.hook.pytest_memqos_result(result=result, worker=worker)
        try:
            Folder(self._folder).append("findings.jsonl", result)
        except MemqosError as error:
            # The written results are worth more than those that could not be kept.
            self._ending.suffer(error)
            session: pytest.Session | None = self._config.pluginmanager.get_plugin("session")
            if session is not None:
                session.shouldstop = "the results cannot be written any more"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Generator[None, object, object]:
        """An error outside of any test, in one line instead of pytest's traceback."""
        if not self.is_responsible:
            return (yield)
        shown = self._config.getoption("fulltrace")
        with pytest.MonkeyPatch.context() as patch:
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None and not shown:
                patch.setattr(reporter, "write_line", lambda *_, **__: None)
            result = yield
        self._ending.suffer(excinfo.value)
        return result if shown else [True]

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Also called for pytest.exit()."""
        self._ending.suffer(excinfo.value)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Write bundle and JUnit, and return memqos's exit code if memqos tests ran."""
        result: object = None
        try:
            result = yield
        except BaseException as error:
            if not self.is_responsible:
                raise
            self._ending.suffer(error)
        if self.is_responsible:
            self._ending.hold()
            for nodeid in list(self._phases):
                self._finish(nodeid)
            chosen, missing = len(self.roster.chosen), len(self._missing)
            if (crashed := self._crashes.too_many(self._config, chosen=chosen, missing=missing)) is not None:
                self._ending.add(crashed)
            self._ending.judge(exitstatus, usage=self._usage, others_failed=self._others_failed)
            session.exitstatus = self._conclude()
        return result

    @property
    def _missing(self) -> set[str]:
        """The cases that were to be run and were not."""
        return self.roster.missing({result.id for result in self._results})

    def _conclude(self) -> ExitCode:
        """The run's exit code, which the bundle has too."""
        for name, render in FILES.items() if self._made else ():
            try:
                self._bundle = self._new_bundle()
                if text := render(self._bundle, self._folder):
                    files.write(self._folder / name, text)
            except Exception as error:  # noqa: BLE001 - the other files and the verdict are still to come
                self._ending.suffer(frame.of_the_host(error, where=str(self._folder / name)) or error)
        if self._made:
            self._bundle = self._new_bundle()
        return self._code()

    def _code(self) -> ExitCode:
        code = self._ending.code(self._results)
        if code is ExitCode.CONFORMS and self._settings.strict_known and self._known_gone():
            code = ExitCode.DEVIATES
        listed = self.roster.chosen and self._config.getoption("collectonly")
        return ExitCode.CONFORMS if code is ExitCode.NOTHING_OBSERVED and listed else code

    def _known_gone(self) -> tuple[str, ...]:
        """Known deviations that were not seen any more; empty if no case checked one."""
        return not_seen(self._results, self._folder, self._settings.known) if self._results else ()

    def concluded(self, error: BaseException | None) -> ExitCode:
        """The final exit code, including errors while printing."""
        if error is not None:
            self._ending.suffer(error)
        if self._bundle is None or self._bundle.exit_code != self._code() or error is not None:
            self._conclude()
        with contextlib.suppress(OSError, ValueError):
            if not self._summarised:
                sys.stdout.writelines(f"{line}\n" for line in self.summary())
        if frame.flush() is not None or self._ending.closed_pipe:
            frame.lead_nowhere(sys.stdout)
        if self._made and self._bundle is not None:
            publish(self._bundle, self._folder)
        self._held.close()
        return self._code()

    def _new_bundle(self) -> Bundle:
        return Bundle(
            started=self._started.isoformat(timespec="seconds"),
            ended=utc_now().isoformat(timespec="seconds"),
            exit_code=int(self._code()),
            interrupted=self._ending.interrupted,
            error=self._ending.text,
            versions=versions(),
            host=host(),
            settings=self._settings.to_json(),
            machines=tuple(files.machines(self._folder)),
            results=tuple(self._results),
            not_run=len(self._missing),
            known_gone=self._known_gone(),
            left_out=self._config.stash.get(LEFT_OUT, LeftOut()),
            claims=cited(self._results, root=self._config.rootpath),
            shard=self._config.stash.get(SHARD, {}),
        )

    def summary(self, *, verbosity: int = 0) -> Iterator[str]:
        """The verdict and its details; nothing for a run without a bundle. verbosity: as pytest counts it."""
        self._summarised = True
        if self._usage:
            yield f"ERROR: {self._usage}"
        if self._bundle is None:
            return
        yield from summary_lines(self._bundle, self._folder, config=self._config, verbosity=verbosity)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """The summary at the end of pytest's output, in a run that is not of suites alone."""
        if self._bundle is not None:
            reporter.section("memqos")
        for line in self.summary():
            reporter.write_line(line)
