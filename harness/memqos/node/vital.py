"""Whether the machine below a node lives, and its own failure instead of the many that follow from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memqos.errors import MachineryError

__all__ = ["Vital"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vital:
    """Both raise the machine's own failure, if it has one.

    check: is cheap, and asked before anything is begun. examine: is given an error that may come from it; without it,
    the check is made once more.
    """

    check: Callable[[], None] = lambda: None
    examine: Callable[[MachineryError], None] | None = None

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Whatever fails in this context ends in the machine's own failure, if it has one."""
        self.check()
        try:
            yield
        except MachineryError as error:
            if self.examine is None:
                self.check()
            else:
                self.examine(error)
            raise
