"""Progress of the command line: a spinner on a terminal, one plain line per step elsewhere.

Apart from `terminal`, so that commands without progress start without rich.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.status import Status

from memqos.clock import SYSTEM_CLOCK
from memqos.face.text import harmless
from memqos.vm.host.progress import Progress

__all__ = ["ShownProgress", "shown_progress"]


class ShownProgress(Progress, Protocol):
    """Progress that is shown until its context ends."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def shown_progress() -> ShownProgress:
    """Progress on standard error, in the form that fits it."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    return _Spinner(console) if console.is_terminal else _Lines(console)


class _Steps:
    """When each step began, and the notes already printed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: dict[str, float] = {}
        self._told: set[str] = set()

    def _begin(self, name: str) -> None:
        self._started[name] = SYSTEM_CLOCK.now()

    def _seconds(self, name: str) -> str:
        return f"{SYSTEM_CLOCK.now() - self._started.pop(name):.1f} s"

    def _is_new(self, text: str) -> bool:
        """Whether a note is new: one that is true of several machines is printed once."""
        told = text in self._told
        self._told.add(text)
        return not told


class _Lines(_Steps):
    """One line when a step begins, and one with its time when it ends."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Does nothing."""

    def start(self, name: str) -> None:
        """Print the step's line."""
        self._begin(name)
        self._say(f"{name} ...")

    def done(self, name: str) -> None:
        """Print how long it took."""
        self._say(f"{name}: done in {self._seconds(name)}")

    def note(self, text: str) -> None:
        """Print the sentence, once."""
        if self._is_new(text):
            self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(f"memqos: {harmless(text)}", markup=False)


class _Spinner(_Steps):
    """The current step as a live line, with the ended ones as lines above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._status = Status("", console=console)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def start(self, name: str) -> None:
        """The step becomes the live line."""
        self._begin(name)
        self._status.update(name)
        self._status.start()

    def done(self, name: str) -> None:
        """The step becomes a line with its time."""
        self._status.stop()
        self._console.print(f"[green]✓[/green] {name} [dim]{self._seconds(name)}[/dim]")

    def note(self, text: str) -> None:
        """Print the sentence above the live line, once."""
        if self._is_new(text):
            self._console.print(harmless(text), markup=False, style="yellow")
