"""How a run ends, and what came in its way outside of any test: from that, and its results, follows its exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from memqos import frame
from memqos.errors import ExitCode, MachineryError, MemqosError, UsageError
from memqos.interruption import Interruption
from memqos.plugin.results.text import error_text
from memqos.report.outcome import TestResult, exit_code

__all__ = ["Ending"]

_CRASH = "crash_file"


class Ending:
    """What is known so far of how a run ends. crash_folder: where a crash file is best kept, once there is a folder."""

    def __init__(self, interruption: Interruption) -> None:
        self.crash_folder: Path | None = None
        self._interruption = interruption
        self._broken_off = False
        self._closed_pipe = False
        self._troubles: list[MemqosError] = []

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted."""
        return self._broken_off or self._interruption.came

    @property
    def closed_pipe(self) -> bool:
        """Whether the run's output is closed."""
        return self._closed_pipe

    @property
    def text(self) -> str:
        """What came in the way, one line each."""
        return "\n".join(" ".join(str(error).split()) for error in self._troubles)

    def code(self, results: Sequence[TestResult]) -> ExitCode:
        """The exit code of a run with these results."""
        troubles = [error.exit_code for error in self._troubles]
        if self._closed_pipe:
            troubles.append(ExitCode.CLOSED_PIPE)
        return exit_code(results, interrupted=self.interrupted, troubles=troubles)

    def hold(self) -> None:
        """Nothing interrupts from now on: the results are being kept."""
        self._interruption.hold()

    def add(self, error: MemqosError) -> None:
        """Remember an error that is reported elsewhere."""
        self._troubles.append(error)

    def suffer(self, error: BaseException) -> None:
        """Remember what came in the way of the run, and say it."""
        if isinstance(error, pytest.exit.Exception):
            # It ends a run as an interrupt does, whatever code it names.
            self._broken_off = True
        elif isinstance(error, KeyboardInterrupt) or (self._interruption.came and isinstance(error, OSError)):
            return  # counted where it came from; a terminal that goes takes its streams with it
        elif frame.is_closed_pipe(error):
            self._closed_pipe = True
            frame.lead_nowhere(sys.stdout)
        elif not self._follows(error):
            told = frame.known(error, keep=self.crash_folder, sentence=_workers_word(error))
            if str(told) not in map(str, self._troubles):
                self.add(told)
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(f"\nmemqos: error: {error_text(told)}\n")

    def _follows(self, error: BaseException) -> bool:
        """Whether this follows from an unexpected error, and adds nothing."""
        return not isinstance(error, MemqosError | OSError) and any(_CRASH in told.data for told in self._troubles)

    def judge(self, status: int, *, usage: str, others_failed: bool) -> None:
        """Add what pytest's own exit status says. usage: a worker's usage error. others_failed: tests not memqos's."""
        if usage or status == pytest.ExitCode.USAGE_ERROR:
            self.add(UsageError(usage or str(sys.exception() or "pytest refused its arguments.")))
        if others_failed:
            self.add(MachineryError("a test that does not belong to memqos failed."))
        if self._troubles or self._closed_pipe:
            return
        if status == pytest.ExitCode.INTERRUPTED:
            self._broken_off = True
        if status == pytest.ExitCode.INTERNAL_ERROR:
            self.add(MachineryError("pytest ended with an internal error."))


def _workers_word(error: BaseException) -> str:
    """What xdist's worker said of an error of its own: its traceback arrives as the text of an AssertionError."""
    lines = str(error).strip().removesuffix("assert False").strip().splitlines()
    is_traceback = isinstance(error, AssertionError) and bool(lines) and lines[0].startswith("Traceback")
    return lines[-1].strip() if is_traceback else ""
