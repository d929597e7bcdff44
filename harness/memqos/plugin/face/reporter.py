"""Connects pytest's run to memqos's display: in a run of suites memqos prints, and pytest's reporter is silent."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memqos import claims
from memqos.config.settings import unknown_variables
from memqos.config.systems import systems_of
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import SETTINGS_KEY, SHARD, WORKERS, is_ours, is_run_of_suites, phase_of, plain_id
from memqos.plugin.pytest_internals import lacking, quiet, show_report
from memqos.report.outcome import TestResult
from memqos.report.summary import shard_text
from memqos.version import __version__

if TYPE_CHECKING:
    from memqos.face.run_face import Face
    from memqos.face.text import Output
    from memqos.plugin.results.durations import DurationRecorder
    from memqos.plugin.results.recording import Recording

__all__ = ["SuiteDisplay", "is_faced"]


def heading(config: pytest.Config) -> list[str]:
    """One line for a run of suites, and the settings that differ from their defaults."""
    settings = config.stash[SETTINGS_KEY]
    changed = [f"{one.setting.name}={one.text} ({one.origin})" for one in settings.entries() if one.is_given]
    notes = [f"memqos: {note}" for note in unknown_variables(os.environ)]
    if not changed and not is_run_of_suites(config):
        return []
    booted = f"{settings.image.name if settings.image else ','.join(settings.profile)}/{settings.topology}"
    head = (
        f"memqos {__version__}: machine {settings.target or booted}, "
        f"{','.join(settings.runtime)}, {','.join(settings.driver)} driver"
    )
    return [head, *([f"memqos settings: {', '.join(changed)}"] if changed else []), *notes]


def is_faced(config: pytest.Config) -> bool:
    """Whether a run of suites uses memqos's display: not if pytest was asked for something other than running."""
    option = config.option
    others = ("collectonly", "setuponly", "setupplan", "setupshow", "showfixtures", "show_fixtures_per_test")
    return is_run_of_suites(config) and not any(getattr(option, name, False) for name in others)


class SuiteDisplay:
    """Shows a run of suites; registered in the controller only. face: None in any other run."""

    def __init__(self, config: pytest.Config, recording: Recording) -> None:
        self._config = config
        self._recording = recording
        self._speak: Callable[[], None] | None = None
        self._output: Output | None = None
        self._times: DurationRecorder | None = None
        self._is_told = False
        self.face: Face | None = None

    def pytest_report_header(self) -> list[str]:
        """The header of a run in which pytest prints."""
        return heading(self._config)

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        """Print what will run, before any output of pytest's own; the results folder exists.

        If this pytest's reporter cannot be silenced, pytest shows the run.
        """
        if not is_faced(self._config) or not self._config.pluginmanager.has_plugin("terminalreporter"):
            return
        self._silence()
        if self._speak is not None:
            self._open()

    @pytest.hookimpl(trylast=True, specname="pytest_sessionstart")
    def pytest_session_is_set_up(self, session: pytest.Session) -> None:
        """Name the parts that this pytest lacks."""
        if is_faced(self._config):
            for sentence in lacking(session):
                Messenger(self._config).note(sentence)

    def _open(self) -> None:
        # Rich and the screens are imported only in a run with a display.
        from memqos.face.screens import opened_face
        from memqos.face.text import Output
        from memqos.plugin.results.durations import DurationRecorder

        self._times = DurationRecorder(self._config)
        self._config.pluginmanager.register(self._times, "memqos-timekeeping")
        option = self._config.option
        self._output = Output(sys.stdout)
        self.face = opened_face(
            self._output,
            os.environ,
            verbosity=self._config.get_verbosity(),
            is_plain=option.capture == "no" or bool(option.usepdb) or bool(option.trace) or option.color == "no",
            several=self._is_distributed,
            places=self._place_of,
        )
        header = [*heading(self._config), self._config.stash.get(WORKERS, "")]
        self.face.head([line for line in header if line])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Show the number of cases; under xdist the workers report it."""
        if self.face is None or self._is_distributed:
            return
        from memqos.plugin.collection.parameters import system_of

        settings = self._config.stash[SETTINGS_KEY]
        ours = [item for item in session.items if is_ours(item)]
        systems = {item.nodeid: system_of(item, settings) for item in ours}
        every = tuple(dict.fromkeys(systems.values()))
        crossed = len({(system.profile, system.runtime, system.driver) for system in every}) > 1
        names = {nodeid: system.named(apart_from=every) for nodeid, system in systems.items()} if crossed else {}
        self._tell({item.nodeid: names.get(item.nodeid) or item.path.parent.name for item in ours})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same for workers, which all have the same cases."""
        if self.face is not None and not self._is_told:
            self._tell({nodeid: Path(nodeid.partition("::")[0]).parent.name for nodeid in map(plain_id, ids)})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A case starts here, if the output is still read; workers report their own."""
        if self._output is not None:
            self._output.check()
        if self.face is not None and not self._is_distributed:
            self.face.starts("", nodeid)

    def pytest_memqos_result(self, result: TestResult, worker: str) -> None:
        """A case has ended."""
        if self.face is not None:
            self.face.ends(worker, result)

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Keep pytest's report of an internal error."""
        if self.face is not None:
            self.face.close()
        self._unsilence()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Restore the terminal at once, and print why the run ended."""
        if self.face is not None:
            self.face.close()
            self.face.note(f"interrupted: {reason}" if (reason := str(excinfo.value)) else "interrupted")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Nothing runs any more; the cases' durations are kept for the next run."""
        if self.face is None or self._times is None:
            return (yield)
        self.face.close()
        if session.shouldfail:
            self.face.note(f"ended early: {session.shouldfail}")
        result = yield
        # The parts of a run divide by the same times: the first part's times must not move the cases of the next.
        if SHARD not in self._config.stash:
            self._times.keep(self._recording.results)
        return result

    @pytest.hookimpl(tryfirst=True, specname="pytest_terminal_summary")
    def pytest_terminal_summary_begins(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Errors that only pytest knows: files that cannot be collected, failures of tests outside memqos."""
        if self.face is None:
            return
        self._unsilence()
        everything = self._config.getoption("tbstyle") == "long" or self._config.get_verbosity() >= 2  # noqa: PLR2004
        for report, others in _alike(_untold(terminalreporter, everything=everything)):
            terminalreporter.write_line(f"{report.nodeid}:")
            if others:
                terminalreporter.write_line(f"(the last line is the same in {', '.join(others)})")
            show_report(terminalreporter, report)
            for title, text in report.sections:
                terminalreporter.write_line(f"{title}:\n{text.rstrip()}")
        if self._config.get_verbosity() > 0:
            terminalreporter.summary_warnings()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict, the details, and the verdict again."""
        if self.face is None or self._output is None:
            self._recording.summarise(terminalreporter)
            return
        terminalreporter.flush()
        from memqos.face.text import for_terminal, takes_colours

        is_terminal = self._output.isatty()
        colours = takes_colours() and self._config.option.color != "no"
        for line in self._recording.summary(verbosity=self._config.get_verbosity()):
            text = self.face.plain(line)
            if is_terminal:
                text = for_terminal(text, width=self._output.size[0], colours=colours)
            self._output.write(f"{text}\n")
        self._silence()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """In any case, restore the terminal."""
        if self.face is not None:
            with contextlib.suppress(OSError, ValueError):
                self.face.close()
        if self._output is not None:
            self._output.close()
        self._unsilence()

    @property
    def _is_distributed(self) -> bool:
        return self._config.pluginmanager.has_plugin("dsession")

    def _tell(self, rows: Mapping[str, str]) -> None:
        """Cases, machines, and their previous durations."""
        if self.face is None or self._times is None:
            return
        from memqos.face.screens import outlook

        self._is_told = True
        option = self._config.option
        chapters = len({Path(case.partition("::")[0]).parent for case in rows})
        workers = sum(map(_gateways, getattr(option, "tx", None) or ())) or 1
        expected = self._times.expected(rows)
        self.face.expects(rows, expected=expected.seconds, workers=workers)
        systems = systems_of(self._config.stash[SETTINGS_KEY])
        machines = tuple(dict.fromkeys("/".join(filter(None, system.place)) for system in systems))
        if (shard := self._config.stash.get(SHARD, None)) is not None:
            self.face.head([shard_text(shard)])
        self.face.head(
            outlook(
                self.face.tally,
                chapters=chapters,
                machines=machines,
                workers=workers,
                elsewhere=expected.elsewhere,
            )
        )

    def _place_of(self, result: TestResult) -> tuple[Path | None, int]:
        """The file and the line of a case's claim; for a case without one its own file."""
        file = self._config.rootpath / result.id.partition("::")[0]
        claimed = file.parent / claims.FILE_NAME
        name = result.claim.partition("/")[2]
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for number, line in enumerate(claimed.read_text(encoding="utf-8").splitlines(), start=1):
                if name and re.fullmatch(rf"\s*\[\s*[\"']?{re.escape(name)}[\"']?\s*\]\s*(?:#.*)?", line):
                    return claimed, number
        return (file, 1) if file.is_file() else (None, 1)

    def _silence(self) -> None:
        """Have pytest's reporter count and print nothing; xdist's lines that go through it are silenced too."""
        if self._speak is None:
            self._speak = quiet(self._config)

    def _unsilence(self) -> None:
        if self._speak is not None:
            self._speak()
            self._speak = None


def _gateways(spec: str) -> int:
    """How many workers one --tx of xdist stands for: "3*popen" is three."""
    number, star, _ = spec.partition("*")
    return int(number) if star and number.isdigit() else 1


def _alike(
    reports: Iterable[pytest.CollectReport | pytest.TestReport],
) -> Iterable[tuple[pytest.CollectReport | pytest.TestReport, list[str]]]:
    """Files that cannot be collected for the same reason once, with the names of the others; other reports alone."""
    causes: dict[str, tuple[pytest.CollectReport | pytest.TestReport, list[str]]] = {}
    for report in reports:
        lines = report.longreprtext.strip().splitlines() if isinstance(report, pytest.CollectReport) else []
        cause = lines[-1] if lines else f"only {len(causes)}"
        if cause in causes:
            causes[cause][1].append(report.nodeid)
        else:
            causes[cause] = report, []
    return causes.values()


def _untold(
    reporter: pytest.TerminalReporter, *, everything: bool
) -> Iterable[pytest.CollectReport | pytest.TestReport]:
    """Failure reports without a result; everything: those with a result too, in pytest's form."""
    for category in ("error", "failed"):
        for report in reporter.stats.get(category, []):
            if everything or isinstance(report, pytest.CollectReport) or phase_of(report) is None:
                yield report
