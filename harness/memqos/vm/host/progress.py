"""How long work tells what it is at: one step begins, one step ends, now and then a remark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

__all__ = ["SILENT", "Progress", "Silent", "step"]


class Progress(Protocol):
    """Shows progress. The calls come from the thread that does the work."""

    def start(self, name: str) -> None:
        """A step begins; its name says what is being done ("make the file system")."""
        ...

    def done(self, name: str) -> None:
        """The step of this name ended well; a step that failed is never told done."""
        ...

    def note(self, text: str) -> None:
        """One sentence that the reader should know: a fallback that was taken, a wait for another process."""
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
    """One step: told when it starts, and told done only if its body does not raise."""
    progress.start(name)
    yield
    progress.done(name)
