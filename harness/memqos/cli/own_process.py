"""`memqos run` in a process of its own, for verbs that run several times."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from memqos.errors import ExitCode

__all__ = ["run_alone"]


def run_alone(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, on_stderr: bool = False
) -> int:
    """Its exit code, as it would be alone; an interrupt is handed on to it, and raised when it has ended.

    environment: None is this process's own. on_stderr: what it prints goes to standard error.
    """
    # In a group of its own Ctrl-C does not reach it a second time beside ours.
    process = subprocess.Popen(
        [sys.executable, "-m", "memqos", "run", *arguments],
        process_group=0,
        env=environment,
        stdout=sys.stderr if on_stderr else None,
    )
    interrupted = False
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            interrupted = True
            process.send_signal(signal.SIGINT)
        else:
            break
    if interrupted or code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return code
