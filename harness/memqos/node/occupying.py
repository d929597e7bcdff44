"""What stands on a node: one population after another, with what the next one may use of the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from memqos.enactor.base import Enactment, Enactor
from memqos.errors import UsageError
from memqos.model.pod import Pod
from memqos.node.tidying import Tidying
from memqos.node.vital import Vital

__all__ = ["Occupancy"]


class Occupancy:
    """Who stands on a node now, put there by an enactor. Raises the machine's own failure as `vital` finds it."""

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
        """What stands there; UsageError if nothing does."""
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
