"""What a connection asks of the owner of the machine: to start its process, and why something failed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

from memqos.errors import MachineryError

__all__ = ["Diagnosis", "Starter", "no_diagnosis"]


class Starter(Protocol):
    """Starts the master connection's process; the owner of the machine's processes provides this."""

    def __call__(self, argv: Sequence[str | Path], *, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """The started process, without standard input, both its streams going to `output`."""
        ...


class Diagnosis(Protocol):
    """Whoever owns the machine may know better why something failed."""

    def __call__(self, doing: str, *, lost: bool) -> MachineryError | None:
        """The better error ("the kernel panicked"), or None.

        doing: what was being done. lost: the connection is gone; otherwise something only took too long.
        """
        ...


def no_diagnosis(doing: str, *, lost: bool) -> MachineryError | None:  # noqa: ARG001 - the port's signature
    """A machine of another owner: nothing more is known."""
    return None
