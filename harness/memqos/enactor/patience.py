"""How long one attempt among many alike may take, and whether the next one is worth making."""

from __future__ import annotations

import threading

from memqos.clock import SYSTEM_CLOCK, Clock, Deadline
from memqos.errors import MachineryError
from memqos.repetition import Repetition

__all__ = ["AFTER_A_HANG_SECONDS", "Patience"]

AFTER_A_HANG_SECONDS = 60.0
"""Ten times what a pod takes under software emulation on a busy host."""

TIMES_AS_LONG = 10
"""How much longer than the slowest that came to its end an attempt may take, once another one has hung."""


class Patience:
    """Time for attempts, from one to the next. It may be asked from several threads.

    longest: seconds for an attempt while none has used them up. One that does has most likely hung, and the ones after
    it get AFTER_A_HANG_SECONDS, or TIMES_AS_LONG what an attempt was seen to need here if that is more; never more than
    the longest. Three that fail alike in a row are enough.
    """

    def __init__(self, *, longest: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._longest = longest
        self._clock = clock
        self._row = Repetition()
        self._lock = threading.Lock()
        self._slowest = 0.0
        self._hung = False

    def deadline(self) -> Deadline:
        """The deadline of an attempt that begins now."""
        with self._lock:
            shorter = max(AFTER_A_HANG_SECONDS, TIMES_AS_LONG * self._slowest) if self._hung else self._longest
        return Deadline.after(min(self._longest, shorter), self._clock)

    def failed(self, error: MachineryError, deadline: Deadline) -> None:
        """An attempt with this deadline ended in an error."""
        with self._lock:
            self._hung = self._hung or deadline.expired
        self._row.failed(error)

    def went_well(self, deadline: Deadline) -> None:
        """An attempt with this deadline succeeded."""
        with self._lock:
            self._slowest = max(self._slowest, deadline.elapsed)
        self._row.went_well()

    def try_again(self) -> None:
        """Times may have changed: one more attempt is worth it, before it is enough again."""
        self._row.try_again()

    @property
    def enough(self) -> MachineryError | None:
        """What the next attempt need not be made for; None while it is worth making."""
        return self._row.enough
