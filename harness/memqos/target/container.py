"""A target that is a container: a node of kind here (docker exec), or one of a cluster's pods (kubectl exec)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.errors import TargetError
from memqos.target.base import CommandResult
from memqos.target.bridge import bridged
from memqos.target.carried import CarriedTarget

__all__ = ["ContainerTarget"]

TROUBLES = ("Error response from daemon", "Error: No such container", "Error from server", "error: ", "Unable to")
"""How docker and kubectl begin what they say of themselves; their status for it is one that commands have too."""


class ContainerTarget(CarriedTarget):
    """words: the command line up to the command that is run inside. folder: private; receives forwarded sockets."""

    def __init__(self, words: Sequence[str], *, address: str, folder: Path) -> None:
        super().__init__(address=address)
        self._words = tuple(words)
        self._folder = folder
        self._numbers = itertools.count(1)

    def _line(self, argv: Sequence[str]) -> list[str]:
        return [*self._words, *argv]

    def _require_carried(self, doing: str, result: CommandResult) -> None:
        said = result.error_text.strip()
        if result.status >= 0 and not (result.status and said.startswith(TROUBLES)):
            return
        raise TargetError(
            f"{self._words[0]} failed at {doing}: {said[-300:] or 'it was killed'}",
            where=self.address,
            next_step="See whether the container runs.",
            data={"argv": result.argv, "status": result.status, "stderr": result.error_text},
        )

    @contextlib.contextmanager
    def forward(self, remote_socket: str) -> Iterator[Path]:
        """A local UNIX socket; each connection to it is carried by a program inside."""
        local = self._folder / f"bridge{next(self._numbers)}.sock"
        with bridged(self, remote_socket, local):
            yield local
