"""Requests to an OCI runtime, in memory: a right one conforms, and each wrong one is found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memqos.catalog.requests import load_oci_requests
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.translate.requested import OciRequest, UpdateInput
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FakePlace
from memqos.runtime.base import ContainerState
from tests.unit.node.asked import CATALOGUE, Asked, deviating, findings

ALL = load_oci_requests()
RUNC_1_1 = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
RUNC = Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.3.6"))
CRUN_1_8 = Runtimes(cri=BUNDLES, oci=traits_of("crun", "1.8.1"))
CRUN = Runtimes(cri=BUNDLES, oci=traits_of("crun", "1.28"))
BELOW_USE = "checked-update-below-use"


class Bundles(Asked):
    """A fake that a test makes wrong in one way."""

    usage = "0"

    def create_from(self, sandbox: Any, spec: Any, request: OciRequest, *, deadline: Any) -> Any:
        handle = self.fake.create_from(sandbox, spec, request, deadline=deadline)  # type: ignore[attr-defined]
        self.handles.append(handle)
        return handle

    def start(self, container: Any, *, deadline: Any) -> None:
        self.fake.start(container, deadline=deadline)
        self.cgroups.show(self.path(container), "memory.current", self.usage)

    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        self.fake.update_with(handle, request, deadline=deadline)  # type: ignore[attr-defined]

    def stats_event(self, handle: Any, *, deadline: Any) -> Any:
        return self.fake.stats_event(handle, deadline=deadline)  # type: ignore[attr-defined]

    def follow(self, handle: Any, *, deadline: Any) -> None:
        self.fake.follow(handle, deadline=deadline)  # type: ignore[attr-defined]

    def followed(self, handle: Any, *, deadline: Any) -> Any:
        return self.fake.followed(handle, deadline=deadline)  # type: ignore[attr-defined]


class Uses(Bundles):
    usage = "1048576"


def asked(
    request: str, kind: type[Bundles] = Bundles, runtimes: Runtimes = RUNC, driver: CgroupDriver = CgroupDriver.SYSTEMD
) -> Sequence[Finding]:
    return findings(ALL[request], kind, runtimes, driver)


def shown(found: Sequence[Finding]) -> Mapping[str, str]:
    return {one.knob: one.observed for one in found if str(one.subject) == "container requested"}


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [RUNC_1_1, RUNC, CRUN_1_8, CRUN], ids=str)
@pytest.mark.parametrize("name", sorted(ALL))
def test_a_right_runtime_conforms(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = asked(name, Uses if name == BELOW_USE else Bundles, runtimes, driver)
    unread = runtimes is RUNC_1_1 and name.startswith("checked-update")
    unread |= runtimes is not CRUN and name.startswith("policy-refuses")
    assert {one.verdict for one in found} == {Verdict.NOT_OBSERVABLE if unread else Verdict.CONFORMS}
    assert any(finding.set_by is Setter.RUNTIME for finding in found)


@pytest.mark.parametrize(
    ("name", "runtimes", "held"),
    [
        ("bundle-reservation", RUNC, {"memory.low": "33554432", "memory.max": "max"}),
        ("bundle-unified-over-reservation", CRUN, {"memory.low": "16777216"}),
        ("bundle-swap-unsaid", RUNC, {"memory.max": "67108864", "memory.swap.max": "max"}),
        ("bundle-swap-zero", RUNC, {"memory.swap.max": "max"}),
        ("bundle-swap-zero", CRUN, {"memory.swap.max": "0"}),
        ("property-high", RUNC, {"memory.high": "50331648"}),
        ("property-high", CRUN, {"memory.high": "max", "memory.high of the scope": "50331648"}),
        ("property-min", CRUN_1_8, {"memory.min": "0", "memory.min of the scope": "8388608"}),
        ("part-limit", RUNC_1_1, {"memory.max": "75497472", "memory.swap.max": "16777216"}),
        ("part-limit", RUNC, {"memory.max": "75497472", "memory.swap.max": "8388608"}),
        ("part-limit", CRUN, {"memory.max": "75497472", "memory.swap.max": "16777216"}),
        ("part-reservation", RUNC, {"memory.low": "25165824", "memory.min": "8388608", "memory.oom.group": "1"}),
        ("part-unified", CRUN, {"memory.high": "58720256", "memory.max": "67108864"}),
        ("policy-bind", CRUN, {"memory policy": "bind:1", "memory.max": "67108864"}),
        ("policy-static", CRUN, {"memory policy": "bind=static:1"}),
        ("policy-bind", RUNC, {"memory policy": "default", "memory.max": "67108864"}),
        ("options-unlimited", RUNC, {"memory.max": "max", "memory.swap.max": "max", "memory.low": "16777216"}),
    ],
)
def test_what_a_container_holds(name: str, runtimes: Runtimes, held: Mapping[str, str]) -> None:
    found = asked(name, runtimes=runtimes)
    files = {one.knob: one.observed for one in found if str(one.subject).endswith("container requested")}
    assert {knob: files[knob] for knob in held} == held


class LosesPolicy(Bundles):
    def create_from(self, sandbox: Any, spec: Any, request: OciRequest, *, deadline: Any) -> Any:
        return super().create_from(sandbox, spec, dataclasses.replace(request, memory_policy=None), deadline=deadline)


def test_a_lost_or_misapplied_memory_policy_is_found() -> None:
    [found] = [one for one in asked("policy-bind", LosesPolicy, CRUN) if one.verdict is Verdict.DEVIATES]
    assert (found.knob, found.expected, found.observed) == ("memory policy", "bind:1", "default")
    assert deviating(asked("policy-refuses-no-nodes", LosesPolicy, CRUN)) == {"create"}


def test_unit_properties_have_no_effect_without_systemd() -> None:
    assert shown(asked("property-high", driver=CgroupDriver.CGROUPFS))["memory.high"] == "max"


def changed(**fields: Any) -> Callable[[OciRequest], OciRequest]:
    return lambda request: dataclasses.replace(request, **fields)


class DropsAnnotations(Bundles):
    def create_from(self, sandbox: Any, spec: Any, request: OciRequest, *, deadline: Any) -> Any:
        return super().create_from(sandbox, spec, changed(annotations={})(request), deadline=deadline)


class DropsReservation(Bundles):
    def create_from(self, sandbox: Any, spec: Any, request: OciRequest, *, deadline: Any) -> Any:
        left = dataclasses.replace(request.resources, memory_reservation=None)
        return super().create_from(sandbox, spec, changed(resources=left)(request), deadline=deadline)


class TakesUnsaidSwapForNone(Bundles):
    def create_from(self, sandbox: Any, spec: Any, request: OciRequest, *, deadline: Any) -> Any:
        asked = request.resources
        if asked.memory_swap is None:
            asked = dataclasses.replace(asked, memory_swap=asked.memory_limit)
        return super().create_from(sandbox, spec, changed(resources=asked)(request), deadline=deadline)


class IgnoresOptions(Bundles):
    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        if request.update_input is not UpdateInput.OPTIONS:
            super().update_with(handle, request, deadline=deadline)


class ClearsWhatIsNotNamed(Bundles):
    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        cleared = {"memory.min": "0", "memory.high": "max", "memory.oom.group": "0", **request.resources.unified}
        whole = dataclasses.replace(request.resources, unified=cleared)
        super().update_with(handle, changed(resources=whole)(request), deadline=deadline)


class ForgetsTheProperty(Bundles):
    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        super().update_with(handle, request, deadline=deadline)
        self.cgroups.put(self.path(handle), "memory.high", "max")


class NeverChecks(Uses):
    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        unchecked = dataclasses.replace(request.resources, check_before_update=None)
        super().update_with(handle, changed(resources=unchecked)(request), deadline=deadline)


class LimitsAndThenRefuses(Uses):
    def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
        self.cgroups.put(self.path(handle), "memory.max", str(request.resources.memory_limit))
        super().update_with(handle, request, deadline=deadline)


@pytest.mark.parametrize(
    ("name", "kind", "knobs"),
    [
        ("property-high", DropsAnnotations, {"memory.high"}),
        ("property-min", DropsAnnotations, {"memory.min"}),
        ("property-after-update", ForgetsTheProperty, {"memory.high"}),
        ("bundle-reservation", DropsReservation, {"memory.low"}),
        ("bundle-swap-unsaid", TakesUnsaidSwapForNone, {"memory.swap.max"}),
        ("options-limit-and-swap", IgnoresOptions, {"memory.max", "memory.swap.max"}),
        ("part-limit-and-swap", IgnoresOptions, set()),
        ("part-limit", ClearsWhatIsNotNamed, {"memory.min", "memory.high", "memory.oom.group"}),
        ("part-nothing", ClearsWhatIsNotNamed, {"memory.min", "memory.high", "memory.oom.group"}),
        (BELOW_USE, NeverChecks, {"update"}),
        (BELOW_USE, LimitsAndThenRefuses, {"memory.max"}),
    ],
)
def test_a_wrong_runtime_is_found(name: str, kind: type[Bundles], knobs: set[str]) -> None:
    assert deviating(asked(name, kind)) == knobs


@pytest.mark.parametrize("name", ["property-high", "property-min"])
def test_a_property_that_crun_drops_is_missed_in_the_scope(name: str) -> None:
    [knob] = deviating(asked(name, DropsAnnotations, CRUN))
    assert knob.endswith(" of the scope")


def judged(verb: Callable[[Any], Sequence[Finding]], kind: type[Bundles]) -> Sequence[Finding]:
    place = FakePlace(runtimes=RUNC)
    driver = CgroupDriver.SYSTEMD
    node = node_on(place, kind(place, driver), recorder=NoRecorder(), driver=driver, runtimes=RUNC)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        return verb(requests)


class IsKilled(Bundles):
    """Its containers end at once, as if killed by the kernel."""

    code, events = 137, ("oom",)

    def start(self, container: Any, *, deadline: Any) -> None:
        super().start(container, deadline=deadline)
        if container.name == "requested":
            self.fake.finish(container, exit_code=self.code)

    def followed(self, handle: Any, *, deadline: Any) -> Any:  # noqa: ARG002
        return self.events


class IsSilent(IsKilled):
    events = ()


class TellsStatsAlone(IsKilled):
    events = ("stats",)


class EndsByItself(IsKilled):
    code = 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (IsKilled, {}),
        (IsSilent, {"events": "none"}),
        (TellsStatsAlone, {"events": "stats"}),
        (EndsByItself, {"exit code": "0"}),
    ],
)
def test_oom_kills_are_reported_or_not(
    kind: type[Bundles], expected: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memqos.node.requests.reported.TOLD_SECONDS", 0.2)
    program = CATALOGUE.pod("over-limit").containers[0]
    found = judged(lambda requests: requests.judge_oom_event(ALL["bundle-no-swap"], program), kind)
    assert {one.knob: one.observed for one in found if one.verdict is Verdict.DEVIATES} == expected
    assert {one.knob: one.set_by for one in found} == {"exit code": Setter.KERNEL, "events": Setter.RUNTIME}


class TellsTwice(Bundles):
    def stats_event(self, handle: Any, *, deadline: Any) -> Any:  # noqa: ARG002
        return {"memory": {"usage": {"usage": 2 << 20, "limit": 96 << 20}, "raw": {"anon": 1 << 20, "file": 0}}}


@pytest.mark.parametrize(("kind", "wrong"), [(Uses, set()), (TellsTwice, {"stats usage"})])
def test_stats_are_compared_with_the_files(kind: type[Bundles], wrong: set[str]) -> None:
    class Counts(kind):  # type: ignore[misc, valid-type]
        usage = "1048576"

        def start(self, container: Any, *, deadline: Any) -> None:
            super().start(container, deadline=deadline)
            self.cgroups.show(self.path(container), "memory.stat", "anon 1048576\nfile 0\n")

    found = judged(lambda requests: requests.judge_stats(ALL["bundle-reservation-and-limit"]), Counts)
    assert {"stats usage", "stats limit"} <= {one.knob for one in found if str(one.subject) == "events"}
    assert {one.knob for one in found if one.verdict is Verdict.DEVIATES} - {"stats anon", "stats file"} == wrong


def test_a_runtime_below_a_daemon_takes_no_bundles() -> None:
    with pytest.raises(UsageError, match="fake accepts no bundles"):
        findings(ALL["bundle-nothing"])


def test_a_container_survives_a_refused_update() -> None:
    kept: list[Any] = []

    class Keeps(Uses):
        def update_with(self, handle: Any, request: OciRequest, *, deadline: Any) -> None:
            kept.append(self.fake.status(handle, deadline=deadline).state)
            super().update_with(handle, request, deadline=deadline)

    asked(BELOW_USE, Keeps)
    assert kept == [ContainerState.RUNNING]
    assert ALL[BELOW_USE].updates[0].resources == OciResources(memory_limit=65536, check_before_update=True)
