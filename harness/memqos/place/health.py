"""What is known of how a place is, where nothing else remembers it: its failure, and why it is not as it was."""

from __future__ import annotations

from memqos.errors import MachineryError
from memqos.place.base import PlaceState

__all__ = ["Health"]


class Health:
    """The first failure stays, and the first reason."""

    def __init__(self) -> None:
        self.spoilt = ""
        self._failure: MachineryError | None = None

    def fail(self, error: MachineryError) -> MachineryError:
        """It is broken, by this error unless it was before; its failure."""
        self._failure = self._failure or error
        return self._failure

    def check(self) -> None:
        """Raise its failure."""
        if self._failure is not None:
            raise self._failure

    @property
    def condition(self) -> PlaceState:
        """As it was told."""
        if self._failure is not None:
            return PlaceState.BROKEN
        return PlaceState.SPOILT if self.spoilt else PlaceState.SOUND

    def spoil(self, reason: str) -> None:
        """It is not as it was."""
        if self.condition is PlaceState.SOUND:
            self.spoilt = reason
