"""The undocumented parts of pytest that memqos uses, each with a fallback.

All of them exist in pytest 8.0 to 9.2. `lacking` names those that the running pytest lacks, and the loss.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

__all__ = [
    "SETUP_STATE",
    "VERSIONS",
    "can_tear_down",
    "forget",
    "lacking",
    "quiet",
    "show_report",
    "tear_down",
    "uncaptured",
]

VERSIONS = "8.0 to 9.2"
"""The versions of pytest that have all of these parts; tests run with the first and the last."""

SETUP_STATE = "_setupstate"
"""The attribute of a session that keeps the active setup state."""


def lacking(session: pytest.Session) -> list[str]:
    """A sentence for each part that this pytest lacks, with what is lost."""
    has_reporter = session.config.pluginmanager.has_plugin("terminalreporter")
    parts = {
        "Config.get_terminal_writer": (
            not has_reporter or _writer(session.config) is not None,
            "pytest's own reporter shows this run",
        ),
        f"Session.{SETUP_STATE}.teardown_exact": (
            can_tear_down(session),
            "after a machine is lost, the remaining tests of its module end in machinery",
        ),
        "FixtureDef.finish": (
            _takes(getattr(pytest.FixtureDef, "finish", None), 2),
            "after a claim is not observable, later tests of its module may repeat its reason",
        ),
    }
    return [
        f"pytest {pytest.__version__} lacks {name}, which pytest {VERSIONS} has: {loss}"
        for name, (is_there, loss) in parts.items()
        if not is_there
    ]


def quiet(config: pytest.Config) -> Callable[[], None] | None:
    """Keep pytest's reporter, and what writes through it, from printing; returns a function that ends this.

    None if this pytest has no reporter, or no known way to silence it.
    """
    if (writer := _writer(config)) is None:
        return None
    before = writer.write
    writer.flush()
    writer.write = lambda *_, **__: None

    def speak() -> None:
        writer.write = before

    return speak


def show_report(reporter: pytest.TerminalReporter, report: pytest.CollectReport | pytest.TestReport) -> None:
    """Print a report's text as pytest does; without colours if this pytest has no known way."""
    writer, show = _writer(reporter.config), getattr(report, "toterminal", None)
    if writer is not None and show is not None:
        show(writer)
    else:
        reporter.write_line(report.longreprtext)


def can_tear_down(session: pytest.Session) -> bool:
    """Whether `tear_down` works with this pytest."""
    return _takes(getattr(getattr(session, SETUP_STATE, None), "teardown_exact", None), 1)


def tear_down(session: pytest.Session) -> bool:
    """Tear down everything that is set up for modules and keep what is set up for the session; False if it cannot.

    By itself pytest tears a module down only when the next test is of another one.
    """
    if not can_tear_down(session):
        return False
    getattr(session, SETUP_STATE).teardown_exact(session)
    return True


def forget(fixture: pytest.FixtureDef[object], request: pytest.FixtureRequest, error: BaseException) -> None:
    """Forget that this fixture ended in this error, so that the next test sets it up again."""
    if _takes(getattr(fixture, "finish", None), 1):
        # Only a fixture with a result can be finished.
        fixture.cached_result = (None, None, (error, None))
        fixture.finish(request)  # type: ignore[arg-type]


def uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Suspends pytest's capture, so that output is seen now; keeps it if this pytest has no known way."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    disabled = getattr(capture, "global_and_fixture_disabled", None)
    without: contextlib.AbstractContextManager[None] = disabled() if disabled is not None else contextlib.nullcontext()
    return without


def _writer(config: pytest.Config) -> Any:
    """The reporter's writer; None if it is missing, or lacks a method that is used."""
    if not config.pluginmanager.has_plugin("terminalreporter") or not hasattr(config, "get_terminal_writer"):
        return None
    writer = config.get_terminal_writer()
    return writer if all(hasattr(writer, name) for name in ("write", "flush", "__dict__")) else None


def _takes(method: Any, arguments: int) -> bool:
    """Whether this is a method that can be called with exactly this many positional arguments."""
    if not callable(method):
        return False
    with contextlib.suppress(TypeError, ValueError):
        inspect.signature(method).bind(*[None] * arguments)
        return True
    return False
