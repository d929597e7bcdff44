"""The port for output of a face: a terminal or a log."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from memqos.face.tally import Tally, TallyRow

__all__ = ["Screen", "Tone"]


class Tone(Enum):
    """The sort of a line."""

    PLAIN = "plain"
    STEP = "step"
    NOTE = "note"
    WRONG = "wrong"


class Screen(Protocol):
    """Output of a run's progress. All texts are harmless and have no line feed at the end."""

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines that stay."""
        ...

    def open(self, tally: Callable[[], Tally]) -> None:
        """The first case begins. tally: returns the current progress at any later time."""
        ...

    def row_begins(self, row: TallyRow) -> None:
        """The first case of a row begins."""
        ...

    def row_ends(self, row: TallyRow) -> None:
        """The last case of a row is over."""
        ...

    def close(self) -> None:
        """The run is over. May be called several times; restores the terminal."""
        ...
