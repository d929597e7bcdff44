"""Commands on this host: what is left of them after their deadline."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError
from memqos.target.local import LocalTarget


def lives(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


@pytest.mark.parametrize("script", ["sleep 1000 & echo $! > {}", "sleep 1000 & echo $! > {}; sleep 1000"])
def test_a_program_that_forks_and_stays_ends_with_the_deadline(tmp_path: Path, script: str) -> None:
    """Its child holds the pipes open, whether it has ended itself or not."""
    file = tmp_path / "pid"
    with pytest.raises(DeadlineError, match="did not end within"):
        LocalTarget().run(["sh", "-c", script.format(file)], deadline=Deadline.after(1.0))
    pid = int(file.read_text())
    wait("its child is gone", lambda: not lives(pid), deadline=Deadline.after(10))
