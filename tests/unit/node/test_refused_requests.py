"""Requests that a runtime refuses, and has to, in memory: leftovers, the next request, and swallowed ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from memqos.catalog.requests import RequestCase
from memqos.clock import SYSTEM_CLOCK, Clock, Deadline
from memqos.engine.answer.finding import Verdict
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FakePlace
from tests.unit.node.asked import (
    ALL,
    CATALOGUE,
    DIRECT,
    FORKY,
    Asked,
    DropsUnified,
    deviating,
    findings,
)

_OF_THE_KERNEL = ("numa-node", "cpu", "quota-too-short", "score-out", "huge-pages")
THE_KERNELS = {name for name in ALL if "refuses" in name and any(word in name for word in _OF_THE_KERNEL)}
"""Refused by a kernel for values that an in-memory tree accepts: so a runtime swallows them."""


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [TRIXIE, FORKY, DIRECT], ids=str)
@pytest.mark.parametrize("name", sorted({name for name, case in ALL.items() if case.refused} - THE_KERNELS))
def test_a_right_runtime_refuses_and_takes_the_next(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = findings(name, runtimes=runtimes, driver=driver)
    assert deviating(found) == set()
    assert found[0].observed.startswith("refused: ")
    assert "the next request is accepted" in {finding.observed for finding in found}


@pytest.mark.parametrize("name", sorted(THE_KERNELS))
def test_what_a_runtime_swallows_that_the_kernel_would_refuse_deviates(name: str) -> None:
    found = findings(name, driver=CgroupDriver.CGROUPFS)
    assert deviating(found) == {"update" if name.startswith("update") else "create"}


def test_what_has_to_be_refused_and_is_taken_deviates() -> None:
    [told, *_] = findings("refuses-missing-numa-node")
    assert (told.verdict, told.knob) == (Verdict.DEVIATES, "create")
    assert (told.expected, told.observed) == ("refused: the machine has no such NUMA node", "taken")


def test_a_refused_request_leaves_nothing_behind() -> None:
    [told, left, after, *_] = findings("refuses-swap-below-limit")
    assert told.verdict is Verdict.CONFORMS
    assert "memory+swap limit should be >= memory limit" in told.observed
    assert (left.verdict, left.knob) == (Verdict.CONFORMS, "cgroup")
    assert (after.verdict, after.observed) == (Verdict.CONFORMS, "the next request is accepted")


class SwallowsUnknownKeys(Asked):
    """It drops unified keys that it cannot write, and reports success."""

    KNOWN = frozenset({"memory.min", "memory.low", "memory.high"})

    def right(self, resources: ContainerResources) -> ContainerResources:
        unified = {k: text for k, text in resources.unified.items() if k in self.KNOWN and text.isdecimal()}
        return dataclasses.replace(resources, unified=unified)

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        return super().create(
            sandbox, dataclasses.replace(spec, resources=self.right(spec.resources)), deadline=deadline
        )

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, self.right(resources), deadline=deadline)


class KeepsWhatItRefused(Asked):
    """It does not roll back a refused update, and sends it along with every later one."""

    kept = ContainerResources()

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        both = dataclasses.replace(resources, unified={**self.kept.unified, **resources.unified})
        try:
            self.fake.update(handle, both, deadline=deadline)
        except RuntimeCallError:
            self.kept = both
            raise


class DoesHalfOfIt(Asked):
    """It has written before it notices that it should not."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        try:
            self.fake.update(handle, resources, deadline=deadline)
        except RuntimeCallError:
            self.cgroups.put(self.path(handle), "memory.low", "0")
            raise


class WritesTheParents(Asked):
    """A key with a slash leads it to another cgroup, before it refuses."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if "../memory.max" in resources.unified:
            self.cgroups.put(self.path(handle).parent, "memory.max", resources.unified["../memory.max"])
        self.fake.update(handle, resources, deadline=deadline)


@pytest.mark.parametrize(
    ("kind", "request_", "knobs"),
    [
        *(
            (SwallowsUnknownKeys, name, {"update" if name.startswith("update") else "create"})
            for name, case in ALL.items()
            if case.refused and case.requests[-1].unified
        ),
        (SwallowsUnknownKeys, "suffix", {"create"}),
        (SwallowsUnknownKeys, "update-suffix", {"update"}),
        (KeepsWhatItRefused, "update-refuses-no-number", {"update"}),
        (KeepsWhatItRefused, "update-refuses-unknown-key", {"update"}),
        (DoesHalfOfIt, "update-refuses-no-number", {"memory.low"}),
        (DoesHalfOfIt, "update-refuses-swap-below-limit", {"memory.low"}),
        (WritesTheParents, "update-refuses-key-with-slash", {"memory.max"}),
        (DropsUnified, "min-above-max", {"memory.min"}),
    ],
)
def test_a_runtime_that_refuses_wrongly_is_found_by_its_knob(kind: type[Asked], request_: str, knobs: set[str]) -> None:
    assert deviating(findings(request_, kind)) == knobs


class IgnoresSwapWithoutALimit(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        resources = dataclasses.replace(spec.resources, memory_swap_limit_in_bytes=0)
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


def test_accepting_a_swap_limit_without_a_memory_limit_deviates() -> None:
    assert deviating(findings("swap-without-limit", IgnoresSwapWithoutALimit)) == {"create"}


class LeavesItsCgroup(Asked):
    """It refuses, and leaves what it had created until then."""

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        try:
            return super().create(sandbox, spec, deadline=deadline)
        except RuntimeCallError:
            self.cgroups.make(CgroupPath.parse(sandbox.spec.cgroup_parent).child("cri-containerd-left.scope"))
            raise

    def start(self, handle: Any, *, deadline: Any) -> None:
        try:
            self.fake.start(handle, deadline=deadline)
        except RuntimeCallError:
            self.cgroups.make(self.path(handle).parent.child("cri-containerd-left.scope"))
            raise


class LeavesAnotherCgroup(LeavesItsCgroup):
    """Each time one with a new name."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        try:
            self.fake.start(handle, deadline=deadline)
        except RuntimeCallError:
            self.cgroups.make(self.path(handle).parent.child(f"cri-containerd-{handle.id}-left.scope"))
            raise


class TakesNothingAfterARefusal(Asked):
    def start(self, handle: Any, *, deadline: Any) -> None:
        if handle.name == "requested" and getattr(self, "refused", False):
            raise RuntimeCallError("no.", data={"method": "start", "code": "UNKNOWN", "details": "confused"})
        try:
            self.fake.start(handle, deadline=deadline)
        except RuntimeCallError:
            self.refused = True
            raise


def test_what_was_left_once_is_not_waited_for_so_long_again(monkeypatch: pytest.MonkeyPatch) -> None:
    granted: list[float] = []

    class Recorded(Deadline):
        @classmethod
        def after(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> Deadline:
            granted.append(seconds)
            return Deadline.after(min(seconds, 0.1) if seconds in {10.0, 1.0} else seconds, clock)

    monkeypatch.setattr("memqos.node.requests.container_requests.Deadline", Recorded)
    place = FakePlace(runtimes=TRIXIE)
    runtime = LeavesAnotherCgroup(place, CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        for _ in range(3):
            assert deviating(requests.judge(CATALOGUE.request("refuses-swap-below-limit"))) == {"cgroup"}
    assert [seconds for seconds in granted if seconds in {10.0, 1.0}] == [10.0, 1.0, 1.0]


def test_leftovers_are_listed_in_a_finding_with_a_stable_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requests.container_requests.REMOVED_SECONDS", 0.1)
    [left] = [one for one in findings("refuses-swap-below-limit", LeavesItsCgroup) if one.verdict is Verdict.DEVIATES]
    assert (left.observed, left.evidence) == ("a cgroup is left", {"left": "cri-containerd-left.scope"})


@pytest.mark.parametrize(("kind", "knob"), [(LeavesItsCgroup, "cgroup"), (TakesNothingAfterARefusal, "create")])
def test_a_refusal_that_leaves_something_deviates(
    kind: type[Asked], knob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memqos.node.requests.container_requests.REMOVED_SECONDS", 0.1)
    assert deviating(findings("refuses-swap-below-limit", kind)) == {knob}


class RefusesUnlimited(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.memory_limit_in_bytes == -1:
            raise RuntimeCallError("no.", data={"method": "create", "code": "UNKNOWN", "details": "no"})
        return super().create(sandbox, spec, deadline=deadline)


def test_versions_that_are_not_known_make_a_refusal_not_observable() -> None:
    """runc refuses a swap limit with an unlimited memory limit until 1.2.1; for "1.2" it is unknown."""
    unlimited = RequestCase(
        name="unlimited", create=ContainerResources(memory_limit_in_bytes=-1, memory_swap_limit_in_bytes=1 << 26)
    )
    [told, *_] = findings(unlimited, RefusesUnlimited, Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.2")))
    assert told.verdict is Verdict.NOT_OBSERVABLE
    assert "versions of the runtime differ" in told.why_not


OF_REQUESTS = frozenset({"requested", "beside", "updated"})
"""The containers of cases; the pod has one of its own."""


class RefusesUnifiedAtCreation(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.unified and spec.name in OF_REQUESTS:
            raise RuntimeCallError("no unified entries", data={"details": "no unified entries"})
        return super().create(sandbox, spec, deadline=deadline)


class RefusesUnifiedInUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if resources.unified:
            raise RuntimeCallError("no unified entries", data={"details": "no unified entries"})
        self.fake.update(handle, resources, deadline=deadline)


@pytest.mark.parametrize(("kind", "knob"), [(RefusesUnifiedAtCreation, "create"), (RefusesUnifiedInUpdates, "update")])
def test_a_wrong_refusal_in_a_case_that_waits_deviates(kind: type[Asked], knob: str) -> None:
    told, *_, after = findings("update-later", kind)
    assert (told.verdict, told.knob, told.observed) == (Verdict.DEVIATES, knob, "refused: no unified entries")
    assert after.observed == "the next request is accepted"


class RefusesAll(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name in OF_REQUESTS:
            raise RuntimeCallError("no containers", data={"details": "no containers"})
        return super().create(sandbox, spec, deadline=deadline)


def test_a_runtime_that_creates_nothing_is_no_finding_in_a_case_that_waits() -> None:
    with pytest.raises(RuntimeCallError, match="no containers"):
        findings("update-later", RefusesAll)
