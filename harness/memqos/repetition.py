"""The same failure again and again: what need not be tried any more, since it would only cost time."""

from __future__ import annotations

import copy
import re
import threading

from memqos.errors import MachineryError, MemqosError

__all__ = ["ENOUGH", "Repetition", "as_before", "is_as_before", "likeness"]

ENOUGH = 3
"""After how many alike failures in a row the next one is taken for granted."""

AS_BEFORE = "as before: "
_UNTRIED = "untried"

_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*")
"""What differs from one pod to the next: what is quoted, and words with digits or slashes: ids, numbers, paths."""


def likeness(error: BaseException) -> str:
    """What failures that tell of the same have in common, without names and numbers.

    It is the class, the place, and the first line, or the condition that was waited for in vain.
    """
    if not isinstance(error, MemqosError):
        return f"{type(error).__name__} {_NAMES.sub('', str(error))}"
    line = error.what.removeprefix(AS_BEFORE).partition("\n")[0]
    told = _NAMES.sub("", f"{error.where} {error.data.get('condition') or line}")
    return " ".join([type(error).__name__, *told.split()])


def as_before(error: MemqosError) -> MemqosError:
    """The same failure, for what was not tried because of it."""
    repeated = copy.copy(error)
    repeated.what = AS_BEFORE + error.what.removeprefix(AS_BEFORE)
    repeated.next_step = f"This was not tried: {ENOUGH} attempts in a row had ended alike."
    repeated.args = (repeated.what,)
    repeated.data = {**error.data, _UNTRIED: True}
    return repeated


def is_as_before(error: object) -> bool:
    """Whether this is of something that was not tried."""
    return isinstance(error, MemqosError) and _UNTRIED in error.data


class Repetition:
    """Failures in a row that are alike. It may be told of them from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._count = 0

    def failed(self, error: BaseException) -> int:
        """Something failed; how many alike failures in a row that makes."""
        with self._lock:
            alike = self._error is not None and likeness(self._error) == likeness(error)
            self._count = self._count + 1 if alike else 1
            self._error = self._error if alike else error
            return self._count

    def succeeded(self) -> None:
        """Something did not fail: the row is broken."""
        with self._lock:
            self._error, self._count = None, 0

    def try_again(self) -> None:
        """Times may have changed: one more attempt is worth it, before it is enough again."""
        with self._lock:
            self._count = min(self._count, ENOUGH - 1)

    @property
    def enough(self) -> MachineryError | None:
        """What the next attempt need not be made for; None while it is worth making."""
        with self._lock:
            if self._count < ENOUGH or not isinstance(self._error, MachineryError):
                return None
            repeated = as_before(self._error)
            return repeated if isinstance(repeated, MachineryError) else None
