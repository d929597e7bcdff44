"""A target whose commands run with an ordinary user's rights; files are read and listed as before."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.clock import Deadline
from memqos.target.base import CommandResult, Target, checked
from memqos.target.carried import REPLACE, WRITE, WRITE_EMPTY

__all__ = ["UserTarget"]


@dataclass(frozen=True, slots=True)
class UserTarget:
    """The user of another target, which has root's rights. enter: what stands before each command of the user's."""

    target: Target
    enter: tuple[str, ...]

    @property
    def address(self) -> str:
        """The other target's."""
        return self.target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command as the user; see the port."""
        result = self.target.run([*self.enter, *argv], deadline=deadline, stdin=stdin)
        return replace(result, argv=tuple(argv))

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """See the port."""
        return self.target.read(path, deadline=deadline)

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """See the port; what the user may not write raises TargetError."""
        script = REPLACE if mode is not None else WRITE if data else WRITE_EMPTY
        size = str(max(len(data), 1))
        argv = ["sh", "-c", script, "sh", path, size, *([f"{mode:o}"] if mode is not None else [])]
        checked(self.run(argv, deadline=deadline, stdin=data), where=self.address)

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """See the port."""
        return self.target.list(path, deadline=deadline)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program as the user; see the port."""
        return self.target.open([*self.enter, *argv])

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """See the port."""
        return self.target.forward(remote_socket)
