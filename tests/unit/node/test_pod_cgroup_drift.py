"""Drift of a pod's cgroup, in memory: it is noticed, and the cgroup's creator writes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memqos.clock import Deadline
from memqos.enactor.kubelet_stand_in import StandInEnactment
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.pods import foreign_writes
from memqos.place.fake import FakePlace
from tests.unit.node.asked import CATALOGUE


def node(driver: CgroupDriver) -> Any:
    place = FakePlace(runtimes=TRIXIE)
    return node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=TRIXIE)


def drift(driver: CgroupDriver = CgroupDriver.SYSTEMD, pod: str = "burstable", **broken: Any) -> Sequence[Finding]:
    one, on = CATALOGUE.pod(pod), node(driver)
    with on.admitted([one], CATALOGUE.kubelet("v1.36-tiered")) as population, pytest.MonkeyPatch.context() as patch:
        for name, does in broken.items():
            patch.setattr(StandInEnactment, name, does)
        return on.drift_of_pod(population, one)  # type: ignore[no-any-return]


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_a_foreign_write_is_seen_and_undone(driver: CgroupDriver) -> None:
    found = drift(driver)
    assert {one.verdict for one in found} == {Verdict.CONFORMS}
    assert (found[0].knob, found[0].observed) == ("drift", "pod default/burstable: memory.max")


def test_an_unrepaired_write_deviates_in_its_file() -> None:
    found = drift(reconcile=lambda _standing, _plan: None)
    assert [one.knob for one in found if one.verdict is Verdict.DEVIATES] == [Knob.MEMORY_MAX]


def test_a_second_changed_file_deviates(monkeypatch: pytest.MonkeyPatch) -> None:

    before = foreign_writes.write_over

    def both(tree: Any, cgroup: Any, *, page_size: int) -> Knob:

        tree.write(cgroup.path, Knob.MEMORY_LOW, "8192", deadline=Deadline.after(5))
        return before(tree, cgroup, page_size=page_size)

    monkeypatch.setattr(foreign_writes, "write_over", both)
    first = drift()[0]
    assert first.verdict is Verdict.DEVIATES
    assert first.observed == "pod default/burstable: memory.low, pod default/burstable: memory.max"


def test_a_pod_without_memory_values_is_rejected() -> None:
    with pytest.raises(UsageError, match="the plan has no memory values for"):
        drift(pod="best-effort")


def test_an_unknown_pod_is_rejected() -> None:
    with pytest.raises(UsageError, match="the pod 'burstable' is not on the node"):
        node(CgroupDriver.SYSTEMD).drift_of_pod(None, CATALOGUE.pod("burstable"))
