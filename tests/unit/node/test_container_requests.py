"""Requests to a runtime, in memory: a right runtime conforms, and each wrong one is found by its knob."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from memqos.catalog.requests import RequestCase
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import DeadlineError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.container_requests import Requests
from memqos.place.fake import FakePlace
from memqos.runtime.base import Capability
from tests.unit.node.asked import (
    CATALOGUE,
    DIRECT,
    FORKY,
    MODELLED,
    Asked,
    DropsUnified,
    deviating,
    findings,
    kept_of,
)


def test_what_a_request_is_judged_by_is_kept() -> None:
    kept = kept_of(lambda requests: requests.judge(CATALOGUE.request("update-unified-high")))

    [planned] = kept.requested
    assert str(planned.knobs[Knob.MEMORY_HIGH].value) == "58720256"
    assert planned.knobs[Knob.MEMORY_HIGH].reason.rule == "memory.high is as an update requests"
    before, of_container, after = kept.readings
    assert before.cgroups.keys() == after.cgroups.keys()
    [(path, seen)] = of_container.cgroups.items()
    assert path.parent == planned.path
    assert seen.files["memory.high"] == "58720256\n"


def test_the_first_error_is_reported_and_not_one_of_the_cleanup() -> None:
    class Hangs(Asked):
        def start(self, container: Any, *, deadline: Any) -> None:
            if container.name == "requested":
                raise DeadlineError("waited 60.0 s for an answer to start.")
            self.fake.start(container, deadline=deadline)

        def remove(self, container: Any, *, deadline: Any) -> None:  # noqa: ARG002
            raise RuntimeCallError(f"{container.id} is starting.", data={"details": "", "method": "", "code": ""})

    with pytest.raises(DeadlineError, match="an answer to start"):
        findings("limit", Hangs)


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [TRIXIE, FORKY, DIRECT], ids=str)
@pytest.mark.parametrize("name", MODELLED)
def test_a_right_runtime_conforms(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = findings(name, runtimes=runtimes, driver=driver)
    # crun is modelled with its errors about the scope.
    wrong = {
        "unified-swap-without-limit": {"memory.swap.max of the scope"},
        "unified-max-over-limit": {"memory.max of the scope"},
        "update-unified-limits": {"memory.max of the scope"},
    }
    on_crun = runtimes is FORKY and driver is CgroupDriver.SYSTEMD
    assert deviating(found) == (wrong.get(name, set()) if on_crun else set())
    assert any(finding.set_by is Setter.RUNTIME for finding in found)


@pytest.mark.parametrize(
    ("driver", "scoped"),
    [
        (CgroupDriver.SYSTEMD, {"memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max"}),
        (CgroupDriver.CGROUPFS, set()),
    ],
)
def test_a_scope_is_judged_where_the_container_has_a_cgroup_below_it(driver: CgroupDriver, scoped: set[str]) -> None:
    found = [
        one for one in findings("everything", runtimes=FORKY, driver=driver) if str(one.subject).startswith("scope of")
    ]
    assert {one.knob.removesuffix(" of the scope") for one in found} - {"unnamed settings"} == scoped
    assert {one.verdict for one in found} <= {Verdict.CONFORMS}
    assert not [one for one in findings("everything") if str(one.subject).startswith("scope of")]


@pytest.mark.parametrize(
    ("name", "held", "wrong"),
    [
        ("limit", "33554432", {"memory.max of the scope"}),
        ("limit", "max", set()),
        ("limit", "1073741824", set()),
        ("nothing", "33554432", {"memory.max of the scope"}),
    ],
)
def test_a_scope_with_a_tighter_limit_deviates(name: str, held: str, wrong: set[str]) -> None:
    """A scope with an equal or higher limit limits nothing."""

    class NarrowsScope(Asked):
        def start(self, container: Any, *, deadline: Any) -> None:
            self.fake.start(container, deadline=deadline)
            if container.name == "requested":
                self.cgroups.put(self.path(container), "memory.max", held)

    found = findings(name, NarrowsScope, FORKY)
    assert deviating(found) == wrong
    [scope] = [one for one in found if one.knob == "memory.max of the scope"]
    assert (str(scope.subject), scope.observed) == ("scope of container requested", held)


@pytest.mark.parametrize(
    ("version", "file", "held", "wrong"),
    [
        ("1.28", "memory.min", "0", {"memory.min of the scope"}),
        ("1.28", "memory.low", "4096", {"memory.low of the scope"}),
        ("1.17", "memory.min", "0", set()),
        ("1.17", "memory.min", "4096", {"memory.min of the scope"}),
    ],
)
def test_a_scope_is_protected_as_its_version_of_crun_does(version: str, file: str, held: str, wrong: set[str]) -> None:
    """From 1.18 on the container's protection is also set on the scope."""

    class Protects(Asked):
        def start(self, container: Any, *, deadline: Any) -> None:
            self.fake.start(container, deadline=deadline)
            if container.name == "requested":
                self.cgroups.put(self.path(container), file, held)

    crun = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", version))
    assert deviating(findings("unified-min", Protects, crun)) == wrong


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
    by_knob = {finding.knob: finding for finding in found if str(finding.subject) == "container requested"}
    assert deviating(found) == set()
    assert by_knob["memory.max"].verdict is Verdict.CONFORMS
    assert by_knob["memory.high"].verdict is Verdict.NOT_OBSERVABLE
    assert "reads no linux.resources.unified" in by_knob["memory.high"].why_not


class OffByAPage(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        more = dataclasses.replace(spec.resources, memory_limit_in_bytes=spec.resources.memory_limit_in_bytes + 4096)
        return super().create(sandbox, dataclasses.replace(spec, resources=more), deadline=deadline)


class TakesSwapForTheWhole(Asked):
    """memory.swap.max without the memory taken off."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        both = self.fake.resources_of(handle).memory_swap_limit_in_bytes
        if both > 0:
            self.cgroups.put(self.path(handle), "memory.swap.max", str(both))


class IgnoresUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        """Report success."""


class ForgetsMinInUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(handle), "memory.min", "0")


class ForgetsZonesInUpdates(Asked):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        self.cgroups.put(self.path(handle), "cpuset.mems", "0-1")


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
    """It did that before the first request: to the pod of the existing container."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        self.cgroups.put(self.path(handle).parent, "memory.max", "1073741824")


@contextlib.contextmanager
def requests_of(kind: type[Asked]) -> Iterator[tuple[Any, Requests]]:
    """A wrong runtime, and what asks it, for several cases in a row."""
    place = FakePlace(runtimes=TRIXIE)
    runtime: Any = kind(place, CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        yield runtime, requests


def test_what_a_request_did_to_the_pod_is_undone_before_the_next() -> None:
    with requests_of(ClobbersThePod) as (runtime, requests):
        wrong = requests.judge(CATALOGUE.request("nothing"))
        pod = requests.pod.planned.cgroup.path
        assert runtime.cgroups.text(pod, "memory.max").strip() == "max"
        runtime.start = runtime.fake.start
        right = requests.judge(CATALOGUE.request("nothing"))
    assert deviating(wrong) == {"memory.max"}
    assert deviating(right) == set()


class WidensTheNeighbour(Asked):
    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.put(self.path(self.handles[0]), "cpuset.mems", "0-1")


def test_what_the_kernel_does_not_take_back_is_judged_all_the_same() -> None:
    with requests_of(WidensTheNeighbour) as (_, requests):
        found = requests.judge(CATALOGUE.request("nothing"))
    assert deviating(found) == {"cpuset.mems"}


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
    """Its container is in another cgroup."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.remove(self.path(handle))
            other = CgroupPath.parse("/elsewhere").child(handle.id)
            self.cgroups.make(other)
            self.fake.misplace(handle, other)


class EndsAtOnce(Asked):
    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.fake.finish(handle, exit_code=1)


class LetsItOut(Asked):
    """Its container's cgroup has every value, and no process."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.lose_process(self.path(handle))


class CountsNoMemory(Asked):
    """The controller is enabled for the pod, and for no container in it, not even the existing one."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        path = self.path(handle)
        self.cgroups.show(path, "cgroup.controllers", "cpuset cpu pids\n")
        for name in [name for name in self.cgroups.snapshot()[path] if name.startswith("memory.")]:
            self.cgroups.lose_file(path, name)


def test_a_container_whose_memory_is_not_counted_is_found() -> None:
    [found] = [one for one in findings("limit", CountsNoMemory) if one.verdict is Verdict.DEVIATES]
    assert (found.knob, found.expected, found.observed) == ("cgroup.controllers", "memory", "cpuset cpu pids")


@pytest.mark.parametrize(
    ("kind", "knob", "seen"),
    [
        (PutsItElsewhere, "cgroup", "none, of a container that is running"),
        (EndsAtOnce, "cgroup", "none, of a container that is exited"),
        (LetsItOut, "cgroup.procs", "none, of a container that is running"),
    ],
)
def test_a_container_outside_its_cgroup_is_found_and_removed(kind: type[Asked], knob: str, seen: str) -> None:
    found = findings("limit", kind)
    assert deviating(found) == {knob}
    assert [one.observed for one in found if one.knob == knob] == [seen]


class HasANewFile(Asked):
    """On a kernel with a setting that memqos does not know, which these requests set inexpressible."""

    of = ("memory_limit_in_bytes",)
    gives: ClassVar[Mapping[str, str]] = {"memory.tiers.max": "max\n"}

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        asked = self.fake.resources_of(handle)
        for name, text in self.gives.items():
            written = any(getattr(asked, field) for field in self.of)
            self.cgroups.show(self.path(handle), name, "0\n" if written else text)


def test_an_unknown_file_is_compared_with_an_empty_requests_container() -> None:
    [one] = [one for one in findings("limit", HasANewFile) if one.verdict is Verdict.DEVIATES]
    assert (one.knob, one.expected, one.observed) == ("memory.tiers.max", "max", "0")
    assert one.reason is not None
    assert one.reason.rule.startswith("unknown file differs")
    alike = findings("shares", HasANewFile)
    assert deviating(alike) == set()
    [rest] = [one for one in alike if one.knob == "unnamed settings"]
    assert "memory.tiers.max" in rest.evidence["files"].split()


class SwapsFast(Asked):
    """It ignores memory.swap.high in unified."""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        self.cgroups.put(self.path(handle), "memory.swap.high", "max")


def test_a_file_without_rules_holds_the_requested_value() -> None:
    asked = ContainerResources(unified={"memory.swap.high": "8192", "io.weight": "200"})
    case = RequestCase(name="paced", create=asked)
    assert deviating(findings(case)) == set()
    assert deviating(findings(case, SwapsFast)) == {"memory.swap.high"}


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


class StartsNothingMore(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name == "requested":
            raise RuntimeCallError("no.", data={"method": "create", "code": "UNKNOWN", "details": "it is broken"})
        return super().create(sandbox, spec, deadline=deadline)


def test_a_runtime_that_starts_nothing_is_a_machinery_error() -> None:
    with pytest.raises(RuntimeCallError):
        findings("limit", StartsNothingMore)
