"""Signals at moments of a real run: it ends with 2, keeps what there is, and leaves neither QEMU nor its disk."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from tests.vm.test_run import alive, qemus_of

pytestmark = pytest.mark.vm

HANGS = """#!/bin/sh
case " $* " in *" create "*) exec sleep 10000 ;; esac
exec "$0.dist" "$@"
"""

ROOT_DISK = re.compile(r"file=([^,]+)/root\.qcow2")

CASES = ["-k", "values and v1.27"]


class Run:
    """`memqos run` in a separate process, with its children."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.results = folder / "results"
        self._output = folder / "output"
        command = [sys.executable, "-m", "memqos", "run", "--results", str(self.results), *CASES, *words]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        self.qemus: set[int] = set()
        self.disks: set[Path] = set()

    @property
    def said(self) -> str:
        return self._output.read_text()

    def until(self, what: str) -> None:
        """Wait until this exists: one of MOMENTS, or words of its output."""

        def seen() -> bool:
            assert self.process.poll() is None, self.said
            self._look()
            return bool(MOMENTS[what](self)) if what in MOMENTS else what in self.said

        wait(what, seen, deadline=Deadline.after(600))

    def _look(self) -> None:
        for pid in qemus_of(self.process.pid):
            self.qemus.add(pid)
            with contextlib.suppress(OSError):
                self.disks |= set(map(Path, ROOT_DISK.findall(Path(f"/proc/{pid}/cmdline").read_text())))

    def _end(self) -> None:
        """Wait for its end; without one, the threads' stacks are in its output."""
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            # pytest has Python's faulthandler on.
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(10)
            pytest.fail(f"it did not end within a minute:\n{self.said}")

    def ends(self, *signals: signal.Signals) -> dict:
        """Send these; returns its bundle, once it and all its children are gone."""
        for one in signals:
            self.process.send_signal(one)
        self._end()
        assert not [pid for pid in self.qemus if alive(pid)]
        assert self.process.returncode == 2, self.said
        assert "Traceback" not in self.said
        bundle = json.loads((self.results / "bundle.json").read_text())
        assert (bundle["exit_code"], bundle["interrupted"]) == (2, True)
        assert bundle["counts"]["not_run"] > 0
        assert (self.results / "junit_01.xml").exists()
        return bundle


MOMENTS: dict[str, Callable[[Run], object]] = {
    "its machine is being restored": lambda run: run.disks,
    "its pods are going to be started": lambda run: list(run.results.glob("populations/*/plan.json")),
}


@pytest.fixture
def start(tmp_path):
    """Start a run; it ends with the test, and no disk of a machine is left of it."""
    runs = []

    def go(*words: str) -> Run:
        runs.append(Run(tmp_path, *words))
        return runs[-1]

    yield go
    for run in runs:
        run.process.kill()
        run.process.wait()
        assert run.disks
        wait("its disks are gone", lambda disks=run.disks: not any(map(Path.exists, disks)), deadline=Deadline.after(5))


@pytest.mark.parametrize(
    ("moment", "signals"),
    [
        pytest.param("its machine is being restored", [signal.SIGTERM], id="while-restoring"),
        pytest.param("its pods are going to be started", [signal.SIGHUP], id="while-pods-start"),
        pytest.param("its pods are going to be started", [signal.SIGINT, signal.SIGINT], id="twice-while-pods-start"),
    ],
)
def test_a_signal_ends_a_run_with_2_and_leaves_nothing(start, moment, signals):
    run = start()
    run.until(moment)

    run.ends(*signals)


def test_a_signal_ends_workers_and_their_machines(start):
    run = start("-n", "2")
    run.until("its pods are going to be started")

    run.ends(signal.SIGTERM)


def test_an_interrupt_does_not_wait_for_a_runtime_that_hangs(start, tmp_path):
    program = tmp_path / "my-runc"
    program.write_text(HANGS)
    program.chmod(0o755)
    run = start("--runtime-binary", str(program))
    # Printed after half a minute, long after the runtime's first requests.
    run.until("17 pods")

    run.ends(signal.SIGINT)
