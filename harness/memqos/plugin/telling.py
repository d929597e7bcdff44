"""Saying what goes on while tests run: one calm line a step, past pytest's capture."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import pytest

from memqos.clock import SYSTEM_CLOCK
from memqos.plugin.keys import worker_id

__all__ = ["Telling"]

_TOLD = pytest.StashKey[set[str]]()


class Telling:
    """Writes lines to pytest's terminal, or from an xdist worker to standard error; it is also a Progress of vm."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began: dict[str, float] = {}

    def line(self, text: str) -> None:
        """One line of its own."""
        if self._config.get_verbosity() < 0:
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
            self.line(text)

    @contextlib.contextmanager
    def uncaptured(self) -> Iterator[None]:
        """Without pytest's capture, so that what is written is seen now."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            yield
