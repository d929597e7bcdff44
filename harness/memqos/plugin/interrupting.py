"""SIGTERM and SIGHUP end a run of memqos tests as Ctrl-C does, in xdist's workers too; other runs are left alone."""

from __future__ import annotations

import pytest

from memqos.interruption import Interruption
from memqos.plugin.keys import is_ours, is_run_of_suites

__all__ = ["Interrupting"]


class Interrupting:
    """Heeds the signals from the moment at which it is known that this is a run of memqos tests."""

    def __init__(self) -> None:
        self.interruption = Interruption()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """A suites folder has nothing but memqos tests."""
        if is_run_of_suites(session.config):
            self.interruption.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Elsewhere it takes a test that is one."""
        if any(is_ours(item) for item in session.items):
            self.interruption.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """No test is begun after a signal, whatever became of the exception: the one before may have swallowed it."""
        if not self.interruption.came:
            return None
        item.session.shouldstop = "a signal was to end it"
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """The run is being ended: what is torn down now is not to be interrupted by the same signal again."""
        self.interruption.heeded()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Signals are again what they were before."""
        self.interruption.__exit__(None, None, None)
