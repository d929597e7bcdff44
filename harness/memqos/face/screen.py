"""Where a face shows itself: the port that a terminal and a log are behind."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from memqos.face.tally import Tally, TallyRow

__all__ = ["Screen", "Tone"]


class Tone(Enum):
    """What sort of line it is."""

    PLAIN = "plain"
    STEP = "step"
    NOTE = "note"
    WRONG = "wrong"


class Screen(Protocol):
    """What goes on, shown. Everything that is said is harmless text without a line feed at its end."""

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines that stay."""
        ...

    def open(self, tally: Callable[[], Tally]) -> None:
        """The first case begins. tally: the accounts as they are at any later time."""
        ...

    def row_begins(self, row: TallyRow) -> None:
        """The first case of a row begins."""
        ...

    def row_ends(self, row: TallyRow) -> None:
        """The last case of a row is over."""
        ...

    def close(self) -> None:
        """Nothing goes on any more; may be called several times, and leaves a terminal as it was."""
        ...
