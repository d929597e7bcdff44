"""A runtime whose program is not modelled, in memory: judged by the OCI runtime specification, and never as runc."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from memqos.catalog.requests import load_oci_requests
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import BUNDLES, Runtimes
from memqos.engine.translate.versions import traits_of, unmodelled_traits
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.pods.refusal import NAME
from memqos.place.fake import FakePlace
from tests.unit.node.asked import CATALOGUE, MODELLED, Asked, DropsUnified, deviating, findings
from tests.unit.node.test_oci_requests import BELOW_USE, Bundles, Uses

YOUKI = unmodelled_traits("youki", "0.6.0")
SERVED = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=YOUKI)
DIRECT = Runtimes(cri=BUNDLES, oci=YOUKI)
LEFT_OPEN = "youki 0.6.0 is not modelled, and the OCI runtime specification does not specify this file"
OCI = load_oci_requests()


def by_knob(found: Sequence[Finding], verdict: Verdict) -> dict[str, Finding]:
    return {one.knob: one for one in found if one.verdict is verdict}


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("name", MODELLED)
def test_a_right_one_deviates_nowhere(name: str, driver: CgroupDriver) -> None:
    found = findings(name, runtimes=SERVED, driver=driver)
    assert deviating(found) == set()
    left = by_knob(found, Verdict.NOT_OBSERVABLE)
    assert "unnamed settings" in left
    assert {one.why_not for one in left.values() if one.knob not in {"update", "create"}} <= {LEFT_OPEN}


@pytest.mark.parametrize("name", sorted(OCI))
def test_native_requests_to_an_unmodelled_runtime_are_not_judged(name: str) -> None:
    found = findings(OCI[name], Uses if name == BELOW_USE else Bundles, DIRECT)
    assert deviating(found) == set()
    assert any(one.verdict is Verdict.NOT_OBSERVABLE for one in found)


class ForgetsLimit(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        resources = dataclasses.replace(spec.resources, memory_limit_in_bytes=0, memory_swap_limit_in_bytes=0)
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


class WritesWhatNobodyAskedFor(Asked):
    def start(self, container: Any, *, deadline: Any) -> None:
        self.fake.start(container, deadline=deadline)
        for name, text in (("memory.high", "1048576"), ("cpu.weight", "77"), ("memory.zswap.max", "0")):
            self.cgroups.show(self.path(container), name, text)


def test_what_the_specification_demands_is_judged() -> None:
    assert CATALOGUE.request("limit").create.memory_limit_in_bytes > 0
    assert "memory.max" in deviating(findings("limit", ForgetsLimit, SERVED))
    cases = {name: CATALOGUE.request(name) for name in MODELLED}
    named = [name for name, case in cases.items() if "memory.high" in case.create.unified and not case.updates]
    assert "memory.high" in deviating(findings(named[0], DropsUnified, SERVED))


def test_what_it_leaves_open_is_not() -> None:
    unnamed = [one for one in MODELLED if not CATALOGUE.request(one).create.unified]
    found = findings(unnamed[0], WritesWhatNobodyAskedFor, SERVED)
    left = by_knob(found, Verdict.NOT_OBSERVABLE)
    for knob in ("memory.high", "cpu.weight", "memory.zswap.max"):
        assert left[knob].why_not == LEFT_OPEN
    assert deviating(found) == set()
    # The same files, of runc.
    of_runc = findings(unnamed[0], WritesWhatNobodyAskedFor, Runtimes(cri=SERVED.cri, oci=traits_of("runc", "1.3.6")))
    assert {"memory.high", "cpu.weight", "memory.zswap.max"} <= deviating(of_runc)


class HasNoUpdate(Bundles):
    def update_with(self, handle: Any, request: Any, *, deadline: Any) -> None:  # noqa: ARG002
        raise RuntimeCallError("there is no such command", where="update", data={"details": "unknown command: update"})


def test_a_refused_update_is_not_observable() -> None:
    found = findings(OCI["part-limit"], HasNoUpdate, DIRECT)
    [update] = [one for one in found if one.knob == "update" and one.expected == "taken"]
    assert update.verdict is Verdict.NOT_OBSERVABLE
    assert update.why_not == "youki 0.6.0 is not modelled, and the OCI runtime specification has no update"


class RefusesAllButNothing(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        if spec.name == NAME and spec.resources != ContainerResources():
            raise RuntimeCallError("it cannot apply that", where="create", data={"details": "it cannot apply that"})
        return super().create(sandbox, spec, deadline=deadline)


NO_TOTAL = "youki 0.6.0 is not modelled, and no value of memory.swap.max expresses this memory-plus-swap limit"
A_PROPERTY = "youki 0.6.0 is not modelled: it may set unified entries as properties of the unit, which have no suffixes"


@pytest.mark.parametrize(("name", "driver", "why_not"), [
    ("refuses-swap-below-limit", "systemd", NO_TOTAL),
    ("refuses-swap-below-limit", "cgroupfs", NO_TOTAL),
    ("swap-without-limit", "cgroupfs", NO_TOTAL),
    ("suffix", "systemd", A_PROPERTY),
    ("suffix", "cgroupfs", ""),
    ("limit-and-swap", "systemd", ""),
    ("unified-max-values", "systemd", ""),
    ("cpus", "systemd", ""),
])  # fmt: skip
def test_a_refusal_is_judged_where_the_specification_decides_it(name: str, driver: str, why_not: str) -> None:
    found = findings(name, RefusesAllButNothing, SERVED, CgroupDriver(driver))
    [refused] = [one for one in found if one.observed.startswith("refused")]
    assert (refused.verdict, refused.why_not) == (
        Verdict.NOT_OBSERVABLE if why_not else Verdict.DEVIATES, why_not
    )  # fmt: skip


@pytest.mark.parametrize(("runtimes", "verdict"), [
    (SERVED, Verdict.NOT_OBSERVABLE), (Runtimes(cri=SERVED.cri, oci=traits_of("runc", "1.3.6")), Verdict.CONFORMS),
])  # fmt: skip
def test_pods_are_judged_alike(runtimes: Runtimes, verdict: Verdict) -> None:
    driver = CgroupDriver.SYSTEMD
    place = FakePlace(runtimes=runtimes)
    node = node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=runtimes)
    pod = CATALOGUE.pod("burstable")
    with node.admitted([pod], CATALOGUE.kubelet("v1.36-none")) as population:
        found = [one for one in population.judge_pod(pod) if str(one.subject).startswith("container")]
    assert deviating(found) == set()
    [weight] = [one for one in found if one.knob == "cpu.weight"]
    assert (weight.verdict, weight.why_not) == (verdict, LEFT_OPEN if verdict is Verdict.NOT_OBSERVABLE else "")
