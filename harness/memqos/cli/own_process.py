"""`memqos run` in a child process, for verbs that run several times."""

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
    """The child's exit code. An interrupt is passed to the child, and raised after it has ended.

    environment: None is this process's own. on_stderr: its output goes to standard error.
    """
    # In its own process group it gets Ctrl-C from us only, not a second time from the terminal.
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
