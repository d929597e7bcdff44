"""The memory of a runtime itself: charged outside containers and to no pod."""

from __future__ import annotations

from typing import Any

import pytest

from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.pods.recorder import Weight
from memqos.place.fake import FakePlace
from tests.unit.node.asked import CATALOGUE


class Keeps(NoRecorder):
    def __init__(self) -> None:
        self.weights: list[Weight] = []

    def weight(self, weight: Weight) -> None:
        self.weights.append(weight)


def weighed(current: dict[str, str], said: str) -> list[Weight]:
    """Two queries about a pod. current: memory.current of "pod" and "container", and memory.peak."""
    place, keeps = FakePlace(runtimes=TRIXIE), Keeps()
    ends = place.target.script(("sh", "-c"))
    place.target.on(
        ("sh", "-c"), lambda words, *more: (0, said.encode(), b"") if "RssAnon" in words[2] else ends(words, *more)
    )
    runtime: Any = place.runtime(CgroupDriver.SYSTEMD)
    started = runtime.start

    def start(handle: Any, *, deadline: Any) -> None:
        started(handle, deadline=deadline)
        path = runtime.cgroup_of(handle)
        for name, where, file in (
            ("pod", path.parent, "memory.current"),
            ("container", path, "memory.current"),
            ("peak", path, "memory.peak"),
        ):
            if name in current:
                place.cgroups.show(where, file, current[name])

    runtime.start = start
    node = node_on(place, runtime, recorder=keeps, driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    for _ in range(2):
        with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")):
            pass
    return keeps.weights


def test_a_pod_is_weighed_once() -> None:
    [weight] = weighed({"pod": "3145728", "container": "1048576", "peak": "9437184"}, "2 20971520\n")
    assert weight == Weight(beside=2097152, starting=9437184, monitors=2, monitor=10485760)


@pytest.mark.parametrize("said", ["", "0 0\n", "awk: not found\n"])
def test_unknown_values_are_left_out(said: str) -> None:
    [weight] = weighed({"container": "1048576"}, said)
    assert weight.document() == {"beside": 0, "monitors": 0}
