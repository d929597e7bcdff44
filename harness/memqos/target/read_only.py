"""A read-only wrapper of a target: refuses every write before it reaches the machine."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import TargetError
from memqos.target.base import CommandResult, Target

__all__ = ["ReadOnlyTarget"]


class ReadOnlyTarget:
    """A target without writes. The caller must not run commands that change anything."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def address(self) -> str:
        """The target's own."""
        return self._target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """As the target does."""
        return self._target.run(argv, deadline=deadline, stdin=stdin)

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """As the target does."""
        return self._target.read(path, deadline=deadline)

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:  # noqa: ARG002
        """TargetError, always."""
        raise TargetError(f"this machine is read-only: {path} is not written.", where=self.address)

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """As the target does."""
        return self._target.list(path, deadline=deadline)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """As the target does."""
        return self._target.open(argv)

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """As the target does; the new socket is on this host."""
        return self._target.forward(remote_socket)
