"""Whom a node tells what it plans and reads, so that it is kept as evidence."""

from __future__ import annotations

from typing import Protocol

from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.reading import Reading
from memqos.node.pods.weighing import Weight
from memqos.probe.looks import Look, Spoken

__all__ = ["Recorder"]


class Recorder(Protocol):
    """Who keeps evidence; every method may be called from any thread."""

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """A plan that is going to be enforced. requested: a further container, which the runtime was asked for."""
        ...

    def reading(self, reading: Reading) -> None:
        """A reading that findings are made from."""
        ...

    def weight(self, weight: Weight) -> None:
        """What memory the runtime itself takes for a pod."""
        ...

    def look(self, look: Look) -> None:
        """What changed in a cgroup that is watched."""
        ...

    def spoken(self, spoken: Spoken) -> None:
        """What a workload was told, or said."""
        ...
