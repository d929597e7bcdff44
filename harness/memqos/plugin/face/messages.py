"""Messages while tests run: to the display of a run of suites, past pytest's capture and across xdist's processes.

A worker has no terminal. Its messages travel to the controller as reports of the running test that carry no outcome.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from memqos.clock import SYSTEM_CLOCK
from memqos.plugin.keys import plain_id, worker_id
from memqos.plugin.pytest_internals import uncaptured

if TYPE_CHECKING:
    from memqos.face.run_face import Face

__all__ = ["Messenger", "Relay"]

_TOLD = pytest.StashKey[set[str]]()
_RUNNING = pytest.StashKey[pytest.Item]()

LINE = "memqos_line"
"""The key of a worker's message in a report."""

_CASE, _STEP, _LINE, _NOTE = "case", "step", "line", "note"
"""The kind of message: a case starts, a step in it, an event, a note for the reader."""


class Messenger:
    """Sends messages in a pytest run, also from an xdist worker; implements vm's Progress."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began: dict[str, float] = {}

    def line(self, text: str) -> None:
        """Print one line of its own."""
        self._tell(text, _LINE)

    def _tell(self, text: str, sort: str) -> None:
        if hasattr(self._config, "workerinput") and (item := self._config.stash.get(_RUNNING, None)) is not None:
            self._config.hook.pytest_runtest_logreport(report=_carrying(item, {"text": text, "sort": sort}))
        elif (face := _face_of(self._config)) is not None:
            _show(face, "", text, sort)
        elif sort in {_LINE, _NOTE}:
            self._write(text)

    def _write(self, text: str) -> None:
        """Print among pytest's own output."""
        if self._config.get_verbosity() < 0:
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        with uncaptured(self._config):
            if reporter is None:
                sys.__stderr__ and sys.__stderr__.write(f"[{worker_id(self._config)}] {text}\n")
                return
            reporter.ensure_newline()
            reporter.write_line(f"· {text}")

    def start(self, name: str) -> None:
        """A step begins."""
        self._began[name] = SYSTEM_CLOCK.now()
        self._tell(name, _STEP)

    def done(self, name: str) -> None:
        """A long step has ended."""
        seconds = SYSTEM_CLOCK.now() - self._began.pop(name, SYSTEM_CLOCK.now())
        self._tell("", _STEP)
        if seconds >= 1:
            self.line(f"{name}: done in {seconds:.0f} s")

    def note(self, text: str) -> None:
        """A note for the reader; printed once, for however many machines it holds."""
        told = self._config.stash.setdefault(_TOLD, set())
        if text not in told:
            told.add(text)
            self._tell(text, _NOTE)

    def begins(self, item: pytest.Item) -> None:
        """A worker starts a case; without workers pytest reports it itself."""
        if hasattr(self._config, "workerinput"):
            self._tell(plain_id(item.nodeid), _CASE)


class Relay:
    """Forwards workers' messages; registered in every process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Remember the running test: each message belongs to a test."""
        self._config.stash[_RUNNING] = item
        Messenger(self._config).begins(item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the controller: print a worker's message."""
        told = getattr(report, LINE, None)
        if told is None or hasattr(self._config, "workerinput"):
            return
        worker, face = getattr(report, "worker_id", "?"), _face_of(self._config)
        if told["sort"] == _NOTE:
            Messenger(self._config).note(told["text"])
        elif face is not None:
            _show(face, worker, told["text"], told["sort"])
        elif told["sort"] == _LINE:
            Messenger(self._config).line(f"[{worker}] {told['text']}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Keep a worker's message from being counted as an outcome."""
        return ("", "", "") if hasattr(report, LINE) else None


def _face_of(config: pytest.Config) -> Face | None:
    """The display of this run; None in a worker, and in a run that is not of suites."""
    facing = config.pluginmanager.get_plugin("memqos-facing")
    face: Face | None = facing.face if facing is not None else None
    return face


def _show(face: Face, worker: str, text: str, sort: str) -> None:
    match sort:
        case "case":
            face.starts(worker, text)
        case "step":
            face.does(worker, text)
        case "note":
            face.note(text)
        case _:
            face.line(worker, text)


def _carrying(item: pytest.Item, told: dict[str, object]) -> pytest.TestReport:
    """A report without a phase, which pytest does not count."""
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="told",  # type: ignore[arg-type]
    )
    setattr(report, LINE, told)
    return report
