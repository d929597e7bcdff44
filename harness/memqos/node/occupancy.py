"""The populations on a node in turn: what one leaves for the next, and whether the machine is alive.

If the machine has failed, its own failure is raised instead of the many errors that follow from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memqos.enactor.base import Enactment, Enactor
from memqos.errors import MachineryError, UsageError
from memqos.model.pod import Pod

__all__ = ["Cleanup", "HealthChecks", "Occupancy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChecks:
    """Both raise the machine's own failure, if it has one.

    check: cheap, called before anything begins. examine: takes an error that may come from the failure; without one it
    checks again.
    """

    check: Callable[[], None] = lambda: None
    examine: Callable[[MachineryError], None] | None = None

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Any error in this context is replaced by the machine's own failure, if it has one."""
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
class Cleanup:
    """How a machine is left.

    disposable: it is thrown away at the end, so an interrupt need not wait for pods to be removed. leaves: the user
    wants to inspect the pods, so they stay. lingers: the user may still want to, so they stay until the machine is used
    again.
    """

    disposable: bool = False
    leaves: Callable[[], bool] = lambda: False
    lingers: Callable[[], bool] = lambda: False
    _lingering: list[Callable[[], None]] = field(default_factory=list)

    @contextlib.contextmanager
    def ending(self, well: Callable[[], None], badly: Callable[[], None]) -> Iterator[None]:
        """End a context by one of these, depending on an error; after an interrupt, depending on `Cleanup`.

        Anything that ends a test counts as an error here, also if it is not an Exception, such as pytest's skip.
        """

        def quietly() -> None:
            # The first error is the one to report: an error in tidying up must not replace it.
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
        """Remove what lingers of earlier populations, unless the user wants to inspect it."""
        lingering, self._lingering = self._lingering, []
        for clear in lingering if not self.leaves() else ():
            clear()

    def _tidy_up(self, clear: Callable[[], None]) -> None:
        if self.lingers():
            self._lingering.append(clear)
        elif not self.leaves():
            clear()


class Occupancy:
    """The pods on a node now, admitted by an enactor. Raises the machine's own failure as `health` finds it."""

    def __init__(self, enactor: Enactor, *, cleanup: Cleanup, health: HealthChecks) -> None:
        self._enactor = enactor
        self._cleanup = cleanup
        self._health = health
        self._kept: Enactment | None = None
        self._standing: Enactment | None = None

    @property
    def keeps(self) -> bool:
        """Whether the next population finds the pods of the last one."""
        return self._kept is not None

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Until the context ends, populations leave cgroups and pods in place, and the next one reuses what fits."""
        self._cleanup.clear_away()
        self._kept = standing = self._enactor.begin("memqos")
        try:
            with self._health.guarded(), self._clearing(standing):
                yield
        finally:
            self._kept = None

    @contextlib.contextmanager
    def begun(self, name: str) -> Iterator[Enactment]:
        """Room for a population of this name; it is removed when the context ends, unless pods are kept."""
        self._cleanup.clear_away()
        kept = self._kept
        self._standing = standing = kept or self._enactor.begin(name)
        ending = self._cleanup.ending(lambda: None, standing.clear) if kept else self._clearing(standing)
        with self._health.guarded(), ending:
            yield standing

    def standing(self) -> Enactment:
        """The current population; UsageError without one."""
        if self._standing is None:
            raise UsageError("the node has no pods.", next_step="Admit some first.")
        return self._standing

    def with_pod(self, pod: Pod) -> Enactment:
        """The current population if this pod is in it; UsageError if not."""
        if self._standing is None or pod.uid not in self._standing.pods:
            raise UsageError(f"the pod '{pod.name}' is not on the node.", next_step="Admit it first.")
        return self._standing

    def _clearing(self, standing: Enactment) -> contextlib.AbstractContextManager[None]:
        """End with none of it left on the node."""
        return self._cleanup.ending(standing.clear, standing.clear)
