"""The interface through which long work reports its steps and notes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

__all__ = ["SILENT", "Progress", "Silent", "step"]


class Progress(Protocol):
    """Shows progress. Called from the thread that does the work."""

    def start(self, name: str) -> None:
        """A step begins; its name describes it ("make the file system")."""
        ...

    def done(self, name: str) -> None:
        """The step of this name succeeded; not called for a failed step."""
        ...

    def note(self, text: str) -> None:
        """One sentence for the reader: a fallback, or a wait for another process."""
        ...


class Silent:
    """Shows nothing."""

    def start(self, name: str) -> None:
        """Nothing is shown."""

    def done(self, name: str) -> None:
        """Nothing is shown."""

    def note(self, text: str) -> None:
        """Nothing is shown."""


SILENT = Silent()


@contextlib.contextmanager
def step(progress: Progress, name: str) -> Iterator[None]:
    """One step: reported at its start, and as done only if its body does not raise."""
    progress.start(name)
    yield
    progress.done(name)
