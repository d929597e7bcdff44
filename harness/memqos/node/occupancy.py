"""Whether the machine below a node lives, and its own failure instead of the many that follow from it.

What stands on a node: one population after another, with what the next one may use of the one before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memqos.enactor.base import Enactment, Enactor
from memqos.errors import MachineryError, UsageError
from memqos.model.pod import Pod

__all__ = ["Occupancy", "Tidying", "Vital"]


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


@dataclass(slots=True, kw_only=True)
class Tidying:
    """How one machine is left.

    disposable: it is thrown away at the end, so an interrupt need not wait for pods to be removed from it. leaves:
    whether the user wants to look at the pods, so that they are left where they are. lingers: whether the user may want
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
        """Remove what lingers of earlier populations, unless the user wants to look at it."""
        lingering, self._lingering = self._lingering, []
        for clear in lingering if not self.leaves() else ():
            clear()

    def _tidy_up(self, clear: Callable[[], None]) -> None:
        if self.lingers():
            self._lingering.append(clear)
        elif not self.leaves():
            clear()


class Occupancy:
    """The pods on a node now, put there by an enactor. Raises the machine's own failure as `vital` finds it."""

    def __init__(self, enactor: Enactor, *, tidying: Tidying, vital: Vital) -> None:
        self._enactor = enactor
        self._tidying = tidying
        self._vital = vital
        self._kept: Enactment | None = None
        self._standing: Enactment | None = None

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Until the context ends, populations leave cgroups and pods standing, and the next one uses what fits."""
        self._tidying.clear_away()
        self._kept = standing = self._enactor.begin("memqos")
        try:
            with self._vital.guarded(), self._clearing(standing):
                yield
        finally:
            self._kept = None

    @contextlib.contextmanager
    def begun(self, name: str) -> Iterator[Enactment]:
        """Room for a population of this name; nothing of it is left when the context ends, unless pods are kept."""
        self._tidying.clear_away()
        kept = self._kept
        self._standing = standing = kept or self._enactor.begin(name)
        ending = self._tidying.ending(lambda: None, standing.clear) if kept else self._clearing(standing)
        with self._vital.guarded(), ending:
            yield standing

    def standing(self) -> Enactment:
        """The pods there; UsageError if there are none."""
        if self._standing is None:
            raise UsageError("no pods are on the node.", next_step="Admit some first.")
        return self._standing

    def with_pod(self, pod: Pod) -> Enactment:
        """The same where this pod is among it; UsageError if it is not."""
        if self._standing is None or pod.uid not in self._standing.pods:
            raise UsageError(f"the pod '{pod.name}' is not on the node.", next_step="Admit it first.")
        return self._standing

    def _clearing(self, standing: Enactment) -> contextlib.AbstractContextManager[None]:
        """End with nothing of it on the node."""
        return self._tidying.ending(standing.clear, standing.clear)
