"""Saying what goes on while tests run: one calm line per step, past pytest's capture, and past xdist's processes.

A worker has no terminal. Its lines travel to the controller as reports of the test that is running, which say nothing
of that test.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import pytest

from memqos.clock import SYSTEM_CLOCK
from memqos.plugin.keys import worker_id

__all__ = ["Relay", "Telling"]

_TOLD = pytest.StashKey[set[str]]()
_RUNNING = pytest.StashKey[pytest.Item]()

LINE = "memqos_line"
"""The name under which a report carries a worker's line."""


class Telling:
    """Writes lines to pytest's terminal, also from an xdist worker; it is a Progress of vm, too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began: dict[str, float] = {}

    def line(self, text: str) -> None:
        """One line of its own."""
        self._tell(text)

    def _tell(self, text: str, *, once: bool = False) -> None:
        """once: said by several workers, it is still worth one line."""
        if self._config.get_verbosity() < 0:
            return
        if hasattr(self._config, "workerinput") and (item := self._config.stash.get(_RUNNING, None)) is not None:
            self._config.hook.pytest_runtest_logreport(report=_carrying(item, {"text": text, "once": once}))
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        with self.uncaptured():
            if reporter is None:
                sys.__stderr__ and sys.__stderr__.write(f"[{worker_id(self._config)}] {text}\n")
                return
            reporter.ensure_newline()
            reporter.write_line(f"· {text}")

    def start(self, name: str) -> None:
        """A step begins."""
        self._began[name] = SYSTEM_CLOCK.now()
        self.line(f"{name} …")

    def done(self, name: str) -> None:
        """A step that took long enough to be wondered about has ended."""
        seconds = SYSTEM_CLOCK.now() - self._began.pop(name, SYSTEM_CLOCK.now())
        if seconds >= 1:
            self.line(f"{name}: done in {seconds:.0f} s")

    def note(self, text: str) -> None:
        """Something the reader should know; said once, however many machines it is true of."""
        told = self._config.stash.setdefault(_TOLD, set())
        if text not in told:
            told.add(text)
            self._tell(text, once=True)

    @contextlib.contextmanager
    def uncaptured(self) -> Iterator[None]:
        """Without pytest's capture, so that what is written is seen now."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            yield


class Relay:
    """Hands workers' lines on; registered in every process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Remember which test runs: a line has to be somebody's."""
        self._config.stash[_RUNNING] = item

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the controller: a line that a worker sent."""
        line = getattr(report, LINE, None)
        if line is None or hasattr(self._config, "workerinput"):
            return
        telling = Telling(self._config)
        if line["once"]:
            telling.note(line["text"])
        else:
            telling.line(f"[{getattr(report, 'worker_id', '?')}] {line['text']}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A line is not an outcome."""
        return ("", "", "") if hasattr(report, LINE) else None


def _carrying(item: pytest.Item, line: dict[str, object]) -> pytest.TestReport:
    """A report of no phase of a test, for which pytest counts nothing."""
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="told",  # type: ignore[arg-type]
    )
    setattr(report, LINE, line)
    return report
