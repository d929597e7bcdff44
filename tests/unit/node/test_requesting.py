"""Requests made of a runtime itself, in memory: a right runtime conforms, and each wrong one is found by its knob."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memqos.catalog.requests import DockerRequestCase, RequestCase, load_requests
from memqos.clock import SYSTEM_CLOCK, Clock, Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.translate.versions import BUNDLES, TRIXIE, Runtimes, traits_of
from memqos.errors import DeadlineError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.fake import _NoRecorder
from memqos.node.on_place import node_on
from memqos.node.requesting import Requests
from memqos.place.fake import FakePlace
from memqos.plugin.catalogue import Catalogue
from memqos.runtime.base import Capability
from tests.unit.node.fakes import Log

CATALOGUE = Catalogue()
ALL = load_requests()
MODELLED = sorted(name for name, case in ALL.items() if not case.refused and "huge-pages" not in name)
"""What needs no kernel that refuses by itself."""

FORKY = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of("crun", "1.28"))
DIRECT = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)


class Asked:
    """A fake runtime that a test makes wrong in one way; all else is the fake's."""

    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        self.fake = place.runtime(driver)
        self.cgroups = place._cgroups
        self.handles: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.create(sandbox, spec, deadline=deadline)
        self.handles.append(handle)
        return handle

    def path(self, handle: Any) -> CgroupPath:
        return self.fake._containers[handle.id].cgroup


def findings(
    request: str | RequestCase | DockerRequestCase,
    kind: type[Asked] = Asked,
    runtimes: Runtimes = TRIXIE,
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
) -> Sequence[Finding]:
    place = FakePlace(runtimes=runtimes)
    node = node_on(place, kind(place, driver), recorder=_NoRecorder(), driver=driver, runtimes=runtimes)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        return requests.judge(CATALOGUE.request(request) if isinstance(request, str) else request)


def kept_of(verb: Callable[[Any], Sequence[Finding]], kind: type[Any] = Requests) -> Log:
    """What is kept of the findings that a verb gives, once the pod stands."""
    place, kept = FakePlace(runtimes=TRIXIE), Log()
    runtime = place.runtime(CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=kept, driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    with node.asking(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none"), kind) as asking:
        kept.readings.clear()
        verb(asking)
    return kept


def test_what_a_request_is_judged_by_is_kept() -> None:
    kept = kept_of(lambda requests: requests.judge(CATALOGUE.request("update-unified-high")))

    [planned] = kept.requested
    assert str(planned.knobs[Knob.MEMORY_HIGH].value) == "58720256"
    assert planned.knobs[Knob.MEMORY_HIGH].reason.rule == "memory.high is what an update asked for"
    before, of_container, after = kept.readings
    assert before.cgroups.keys() == after.cgroups.keys()
    [(path, seen)] = of_container.cgroups.items()
    assert path.parent == planned.path
    assert seen.files["memory.high"] == "58720256\n"


def test_what_fails_first_is_told_and_not_what_fails_in_removing_it() -> None:
    class Hangs(Asked):
        def start(self, container: Any, *, deadline: Any) -> None:
            if container.name == "requested":
                raise DeadlineError("waited 60.0 s for an answer to start.")
            self.fake.start(container, deadline=deadline)

        def remove(self, container: Any, *, deadline: Any) -> None:  # noqa: ARG002
            raise RuntimeCallError(f"{container.id} is starting.", data={"details": "", "method": "", "code": ""})

    with pytest.raises(DeadlineError, match="an answer to start"):
        findings("limit", Hangs)


def deviating(found: Sequence[Finding]) -> set[str]:
    return {finding.knob for finding in found if finding.verdict is Verdict.DEVIATES}


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [TRIXIE, FORKY, DIRECT], ids=str)
@pytest.mark.parametrize("name", MODELLED)
def test_a_right_runtime_conforms(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = findings(name, runtimes=runtimes, driver=driver)
    assert deviating(found) == set()
    assert any(finding.set_by is Setter.RUNTIME for finding in found)


THE_KERNELS = {
    name
    for name in ALL
    if any(word in name for word in ("zone", "cpu", "quota-too-short", "score-out", "huge-pages")) and "refuses" in name
}
"""Refused by a kernel for what a tree in memory takes: there a runtime that swallows them is at work."""


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [TRIXIE, FORKY, DIRECT], ids=str)
@pytest.mark.parametrize("name", sorted({name for name, case in ALL.items() if case.refused} - THE_KERNELS))
def test_a_right_runtime_refuses_and_takes_the_next(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = findings(name, runtimes=runtimes, driver=driver)
    assert deviating(found) == set()
    assert found[0].observed.startswith("refused: ")
    assert "the next is taken" in {finding.observed for finding in found}


@pytest.mark.parametrize("name", sorted(THE_KERNELS))
def test_what_a_runtime_swallows_that_the_kernel_would_refuse_deviates(name: str) -> None:
    found = findings(name, driver=CgroupDriver.CGROUPFS)
    assert deviating(found) == {"update" if name.startswith("update") else "create"}


def test_updates_of_a_runtime_that_has_none_are_not_observable() -> None:
    class NeverUpdates(Asked):
        @property
        def capabilities(self) -> Any:
            return self.fake.capabilities - {Capability.UPDATE}

    [found] = findings("update-limit", NeverUpdates)
    assert (found.verdict, found.knob) == (Verdict.NOT_OBSERVABLE, "update")
    assert found.why_not == "fake has no command that updates a container"
    assert deviating(findings("limit", NeverUpdates)) == set()


GVISOR = Runtimes(cri=BUNDLES, oci=traits_of("runsc", "0.0~20240729.0"), hugetlb=True)


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_what_runsc_does_not_read_is_not_observable_and_the_rest_is(driver: CgroupDriver) -> None:
    found = findings("everything", runtimes=GVISOR, driver=driver)
    by_knob = {finding.knob: finding for finding in found if finding.subject == "container requested"}
    assert deviating(found) == set()
    assert by_knob["memory.max"].verdict is Verdict.CONFORMS
    assert by_knob["memory.high"].verdict is Verdict.NOT_OBSERVABLE
    assert "reads no linux.resources.unified" in by_knob["memory.high"].why_not


class DropsUnified(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        resources = dataclasses.replace(spec.resources, unified={})
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


class OffByAPage(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        more = dataclasses.replace(spec.resources, memory_limit_in_bytes=spec.resources.memory_limit_in_bytes + 4096)
        return super().create(sandbox, dataclasses.replace(spec, resources=more), deadline=deadline)


class TakesSwapForTheWhole(Asked):
    """memory.swap.max without the memory taken off."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        both = self.fake._containers[handle.id].resources.memory_swap_limit_in_bytes
        if both > 0:
            self.cgroups.put(self.path(handle), "memory.swap.max", str(both))


class IgnoresUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        """Say that it was done."""


class ForgetsMinInUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(handle), "memory.min", "0")


class ForgetsZonesInUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(handle), "cpuset.mems", "")


class ClobbersTheNeighbour(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(self.handles[0]), "memory.high", "4096000")


class ClobbersThePod(Asked):
    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.put(self.path(handle).parent, "memory.max", "1073741824")


class LimitsThePodOfEach(Asked):
    """It did that before the first request was made: to the pod of the container that stands there."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        self.cgroups.put(self.path(handle).parent, "memory.max", "1073741824")


class ShiftsZones(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        mems = {"0": "1", "1": "0"}.get(spec.resources.cpuset_mems, spec.resources.cpuset_mems)
        resources = dataclasses.replace(spec.resources, cpuset_mems=mems)
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


class DropsTheScore(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        resources = dataclasses.replace(spec.resources, oom_score_adj=0)
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


class PutsItElsewhere(Asked):
    """Its container is in a cgroup where nobody looks for it."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.remove(self.path(handle))
            other = CgroupPath.parse("/elsewhere").child(handle.id)
            self.cgroups.make(other)
            self.fake._containers[handle.id].cgroup = other


class EndsAtOnce(Asked):
    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.fake.finish(handle, exit_code=1)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (PutsItElsewhere, "none, of a container that is running"),
        (EndsAtOnce, "none, of a container that is exited"),
    ],
)
def test_a_container_without_a_cgroup_is_found_and_removed(kind: type[Asked], seen: str) -> None:
    found = findings("limit", kind)
    assert deviating(found) == {"cgroup"}
    assert [one.observed for one in found if one.knob == "cgroup"] == [seen]


class RefusesUnified(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name == "requested" and spec.resources.unified:
            raise RuntimeCallError("no.", data={"method": "create", "code": "UNKNOWN", "details": "unknown field"})
        return super().create(sandbox, spec, deadline=deadline)


@pytest.mark.parametrize(
    ("kind", "request_", "knobs"),
    [
        (DropsUnified, "unified-min", {"memory.min"}),
        (DropsUnified, "unified-no-swap", {"memory.swap.max"}),
        (DropsUnified, "unified-oom-group", {"memory.oom.group"}),
        (OffByAPage, "limit", {"memory.max"}),
        (TakesSwapForTheWhole, "limit-and-swap", {"memory.swap.max"}),
        (IgnoresUpdates, "update-limit", {"memory.max"}),
        (IgnoresUpdates, "update-unified-high", {"memory.high"}),
        (IgnoresUpdates, "update-refuses-swap-below-limit", {"update"}),
        (ForgetsMinInUpdates, "update-limit", {"memory.min"}),
        (ForgetsZonesInUpdates, "update-limit", {"cpuset.mems"}),
        (ClobbersTheNeighbour, "update-limit", {"memory.high"}),
        (ClobbersThePod, "limit", {"memory.max"}),
        (LimitsThePodOfEach, "limit", {"memory.max"}),
        (ShiftsZones, "mems", {"cpuset.mems"}),
        (DropsTheScore, "oom-score", {"oom_score_adj"}),
        (RefusesUnified, "unified-high", {"create"}),
    ],
)
def test_a_wrong_runtime_is_found_by_its_knob(kind: type[Asked], request_: str, knobs: set[str]) -> None:
    assert deviating(findings(request_, kind)) == knobs


def test_what_has_to_be_refused_and_is_taken_deviates() -> None:
    [told, *_] = findings("refuses-missing-zone")
    assert (told.verdict, told.knob) == (Verdict.DEVIATES, "create")
    assert (told.expected, told.observed) == ("refused: the machine has no such zone", "taken")


def test_what_is_refused_leaves_nothing() -> None:
    [told, left, after, *_] = findings("refuses-swap-below-limit")
    assert told.verdict is Verdict.CONFORMS
    assert "memory+swap limit should be >= memory limit" in told.observed
    assert (left.verdict, left.knob) == (Verdict.CONFORMS, "cgroup")
    assert (after.verdict, after.observed) == (Verdict.CONFORMS, "the next is taken")


class SwallowsUnknownKeys(Asked):
    """It leaves out of unified what it cannot write, and says that all is well."""

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
    """It does not take a refused update back, and sends it along with every later one."""

    kept = ContainerResources()

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        both = dataclasses.replace(resources, unified={**self.kept.unified, **resources.unified})
        try:
            self.fake.update(handle, both, deadline=deadline)
        except RuntimeCallError:
            self.kept = both
            raise


class DoesHalfOfIt(Asked):
    """It has written before it finds out that it should not."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        try:
            self.fake.update(handle, resources, deadline=deadline)
        except RuntimeCallError:
            self.cgroups.put(self.path(handle), "memory.low", "0")
            raise


class WritesTheParents(Asked):
    """A key with a slash leads it to another cgroup, before it says no."""

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


def test_a_swap_limit_without_a_memory_limit_that_is_swallowed_deviates() -> None:
    assert deviating(findings("swap-without-limit", IgnoresSwapWithoutALimit)) == {"create"}


class LeavesItsCgroup(Asked):
    """It refuses, and leaves what it had made until then."""

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
    """Each time one of a new name."""

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

    monkeypatch.setattr("memqos.node.requesting.Deadline", Recorded)
    place = FakePlace(runtimes=TRIXIE)
    runtime = LeavesAnotherCgroup(place, CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=_NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        for _ in range(3):
            assert deviating(requests.judge(CATALOGUE.request("refuses-swap-below-limit"))) == {"cgroup"}
    assert [seconds for seconds in granted if seconds in {10.0, 1.0}] == [10.0, 1.0, 1.0]


def test_what_is_left_is_told_beside_a_word_that_is_the_same_for_every_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.requesting.REMOVED_SECONDS", 0.1)
    [left] = [one for one in findings("refuses-swap-below-limit", LeavesItsCgroup) if one.verdict is Verdict.DEVIATES]
    assert (left.observed, left.evidence) == ("a cgroup is left", {"left": "cri-containerd-left.scope"})


@pytest.mark.parametrize(("kind", "knob"), [(LeavesItsCgroup, "cgroup"), (TakesNothingAfterARefusal, "create")])
def test_a_refusal_that_leaves_something_deviates(
    kind: type[Asked], knob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memqos.node.requesting.REMOVED_SECONDS", 0.1)
    assert deviating(findings("refuses-swap-below-limit", kind)) == {knob}


class StartsNothingMore(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name == "requested":
            raise RuntimeCallError("no.", data={"method": "create", "code": "UNKNOWN", "details": "it is broken"})
        return super().create(sandbox, spec, deadline=deadline)


def test_a_runtime_that_starts_nothing_is_machinery() -> None:
    with pytest.raises(RuntimeCallError):
        findings("limit", StartsNothingMore)


class RefusesUnlimited(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.memory_limit_in_bytes == -1:
            raise RuntimeCallError("no.", data={"method": "create", "code": "UNKNOWN", "details": "no"})
        return super().create(sandbox, spec, deadline=deadline)


def test_versions_that_are_not_known_make_a_refusal_not_observable() -> None:
    """runc refuses a swap limit beside an unlimited memory limit until 1.2.1; of "1.2" nobody knows."""
    unlimited = RequestCase(
        name="unlimited", create=ContainerResources(memory_limit_in_bytes=-1, memory_swap_limit_in_bytes=1 << 26)
    )
    [told, *_] = findings(unlimited, RefusesUnlimited, Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.2")))
    assert told.verdict is Verdict.NOT_OBSERVABLE
    assert "versions of the runtime differ" in told.why_not
