"""A node over an in-memory place; its limits are those of `memqos.place.fake`."""

from __future__ import annotations

from memqos.engine.plan import Plan, PlannedCgroup
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.reading import Reading
from memqos.node.connection import node_on
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.recorder import Weight
from memqos.place.fake import FAKE_FACTS, FakePlace
from memqos.probe.sampler import Look, Spoken

__all__ = ["FAKE_FACTS", "NoRecorder", "fake_node"]


class NoRecorder:
    """Keeps nothing."""

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """Forget it."""

    def reading(self, reading: Reading) -> None:
        """Forget it."""

    def weight(self, weight: Weight) -> None:
        """Forget it."""

    def look(self, look: Look) -> None:
        """Forget it."""

    def spoken(self, spoken: Spoken) -> None:
        """Forget it."""


def fake_node(
    *,
    facts: NodeFacts = FAKE_FACTS,
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
    runtimes: Runtimes = TRIXIE,
) -> NodeUnderTest:
    """A node without a machine. Pods with init containers never come up on it: nothing runs, so none ends."""
    place = FakePlace(facts=facts, runtimes=runtimes)
    return node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=runtimes)
