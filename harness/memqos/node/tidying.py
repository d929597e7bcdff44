"""Tidying up after populations: at once, later, or not at all, by what a run wants of the machine then."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memqos.errors import MachineryError

__all__ = ["Tidying"]


@dataclass(slots=True, kw_only=True)
class Tidying:
    """How one machine is left.

    disposable: it is thrown away at the end, so an interrupt need not wait for pods to be removed from it. leaves:
    whether somebody wants to look at the pods, so that they are left where they are. lingers: whether somebody may want
    to yet, so that they stay until the machine is used again.
    """

    disposable: bool = False
    leaves: Callable[[], bool] = lambda: False
    lingers: Callable[[], bool] = lambda: False
    _lingering: list[Callable[[], None]] = field(default_factory=list)

    @contextlib.contextmanager
    def ending(self, well: Callable[[], None], badly: Callable[[], None]) -> Iterator[None]:
        """End a context by one of these, by whether it ended in an error; after an interrupt as said above.

        What ends a test is an error here, also where it is none of Exception, as a skip of pytest's is.
        """

        def quietly() -> None:
            # The first error is what the reader needs: one in tidying up after it must not take its place.
            with contextlib.suppress(MachineryError):
                badly()

        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            if not self.disposable:
                badly()
            raise
        except BaseException:
            self._tidy_up(quietly)
            raise
        self._tidy_up(well)

    def clear_away(self) -> None:
        """Remove what lingers of earlier populations, unless somebody wants to look at it."""
        lingering, self._lingering = self._lingering, []
        for clear in lingering if not self.leaves() else ():
            clear()

    def _tidy_up(self, clear: Callable[[], None]) -> None:
        if self.lingers():
            self._lingering.append(clear)
        elif not self.leaves():
            clear()
