"""A container between its creation and its start, with an OCI runtime that is driven directly."""

from collections.abc import Sequence
from typing import Any

import pytest

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.errors import NonconformanceError, RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.place.fake import FakePlace
from memqos.runtime.fake import FakeOciRuntime, FakeRuntime
from memqos.runtime.fake_cgroups import FakeCgroups
from tests.unit.node.asked import CATALOGUE, verbs_asked_of

BEFORE_ITS_START = verbs_asked_of(LifecycleVerbs)["before-its-start"]


class SetsHighAtItsStart(FakeOciRuntime):
    """Leaves memory.high at max until the container is started."""

    def __init__(self, cgroups: FakeCgroups, **options: Any) -> None:
        super().__init__(cgroups, **options)
        self.tree = cgroups

    def create(self, *args: Any, **options: Any) -> Any:
        handle = super().create(*args, **options)
        cgroup = self.cgroup_of(handle)
        self.high = self.tree.text(cgroup, "memory.high")
        self.tree.put(cgroup, "memory.high", "max")
        return handle

    def start(self, container: Any, *, deadline: Any) -> None:
        super().start(container, deadline=deadline)
        self.tree.put(self.cgroup_of(container), "memory.high", self.high)


def asked(kind: type[FakeRuntime]) -> Sequence[Finding]:
    runtimes = Runtimes(cri=BUNDLES, oci=TRIXIE.oci) if issubclass(kind, FakeOciRuntime) else TRIXIE
    place = FakePlace(runtimes=runtimes, kind=kind)
    runtime = place.runtime(CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=runtimes)
    with node.requests_as(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none"), LifecycleVerbs) as life:
        return BEFORE_ITS_START(life)


def test_all_values_are_there_before_the_start() -> None:
    found = asked(FakeOciRuntime)
    assert {one.verdict for one in found} == {Verdict.CONFORMS}
    assert {"memory.min", "memory.low", "memory.high", "memory.max", "oom_score_adj"} <= {one.knob for one in found}


def test_a_value_that_the_start_sets_is_named() -> None:
    wrong = [
        (one.knob, one.expected, one.observed) for one in asked(SetsHighAtItsStart) if one.verdict is Verdict.DEVIATES
    ]
    assert wrong == [("memory.high", "83886080", "max")]


class TakesNoSets(FakeOciRuntime):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.cpuset_mems:
            raise RuntimeCallError("no", data={"method": "create", "code": "REFUSED", "details": "it takes no sets"})
        return super().create(sandbox, spec, deadline=deadline)


def test_a_wrong_refusal_is_a_finding() -> None:
    with pytest.raises(NonconformanceError) as error:
        asked(TakesNoSets)
    found = error.value.data["finding"]
    assert (found.verdict, found.knob, found.observed) == (Verdict.DEVIATES, "create", "refused: it takes no sets")


def test_a_cri_runtime_has_no_cgroup_before_the_start() -> None:
    [found] = asked(FakeRuntime)
    assert found.verdict is Verdict.NOT_OBSERVABLE
    assert "creates the cgroup of a container when it starts it" in found.why_not
