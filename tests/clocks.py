"""A clock for tests that must not wait."""

from __future__ import annotations


class HandClock:
    """A clock that only a sleep, or the test, advances. at: its time in seconds."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
