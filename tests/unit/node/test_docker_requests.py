"""Requests to the Docker Engine, in memory: a right engine conforms, and each wrong one is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from memqos.catalog.requests import load_docker_requests
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from tests.unit.node.asked import Asked, deviating, findings

ALL = load_docker_requests()
RUNC = Runtimes(cri=traits_of("docker", "26.1.5"), oci=TRIXIE.oci)
CRUN = Runtimes(cri=traits_of("docker", "28.5.2"), oci=traits_of("crun", "1.28"))
OF_THE_MACHINE = {name for name in ALL if "missing-numa-node" in name}
"""The engine refuses by the machine's resources, which the fake does not know."""


class Docker(Asked):
    """A fake engine that a test makes wrong in one way."""

    def create_as(self, sandbox: Any, spec: Any, config: Mapping[str, Any], *, deadline: Any) -> Any:
        handle = self.fake.create_as(sandbox, spec, config, deadline=deadline)  # type: ignore[attr-defined]
        self.handles.append(handle)
        return handle

    def update_as(self, handle: Any, config: Mapping[str, Any], *, deadline: Any) -> None:
        self.fake.update_as(handle, config, deadline=deadline)  # type: ignore[attr-defined]

    def stats(self, handle: Any, *, deadline: Any) -> Any:
        return self.fake.stats(handle, deadline=deadline)  # type: ignore[attr-defined]


def asked(
    request: str, kind: type[Docker] = Docker, runtimes: Runtimes = RUNC, driver: CgroupDriver = CgroupDriver.SYSTEMD
) -> Sequence[Finding]:
    return findings(ALL.get(request, request), kind, runtimes, driver)


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("runtimes", [RUNC, CRUN], ids=str)
@pytest.mark.parametrize("name", sorted(ALL.keys() - OF_THE_MACHINE))
def test_a_right_engine_conforms(name: str, runtimes: Runtimes, driver: CgroupDriver) -> None:
    found = asked(name, runtimes=runtimes, driver=driver)
    assert {finding.verdict for finding in found} == {Verdict.CONFORMS}
    assert any(finding.set_by is Setter.RUNTIME for finding in found)


@pytest.mark.parametrize("name", sorted(OF_THE_MACHINE))
def test_an_unknown_numa_node_has_to_be_refused(name: str) -> None:
    assert deviating(asked(name)) == {"update" if name.startswith("docker-update") else "create"}


class Drops(Docker):
    """It forgets a field of its request."""

    field = ""

    def create_as(self, sandbox: Any, spec: Any, config: Mapping[str, Any], *, deadline: Any) -> Any:
        left = {name: value for name, value in config.items() if name != self.field}
        return super().create_as(sandbox, spec, left, deadline=deadline)


class DropsSwap(Drops):
    field = "MemorySwap"


class DropsReservation(Drops):
    field = "MemoryReservation"


class DropsZones(Drops):
    field = "CpusetMems"


class DropsTheScore(Drops):
    field = "OomScoreAdj"


class OffByAPage(Docker):
    def create_as(self, sandbox: Any, spec: Any, config: Mapping[str, Any], *, deadline: Any) -> Any:
        more = {**config, **({"Memory": config["Memory"] + 4096} if "Memory" in config else {})}
        return super().create_as(sandbox, spec, more, deadline=deadline)


class AllowsNoSwapOfItsOwnAccord(Docker):
    def create_as(self, sandbox: Any, spec: Any, config: Mapping[str, Any], *, deadline: Any) -> Any:
        swap = config.get("MemorySwap") or config.get("Memory", 0)
        return super().create_as(sandbox, spec, {**config, "MemorySwap": swap}, deadline=deadline)


class IgnoresUpdates(Docker):
    def update_as(self, handle: Any, config: Mapping[str, Any], *, deadline: Any) -> None:
        """Report success."""


class ForgetsTheReservationInUpdates(Docker):
    def update_as(self, handle: Any, config: Mapping[str, Any], *, deadline: Any) -> None:
        super().update_as(handle, config, deadline=deadline)
        if "MemoryReservation" not in config:
            self.cgroups.put(self.path(handle), "memory.low", "0")


class ClobbersThePod(Docker):
    def update_as(self, handle: Any, config: Mapping[str, Any], *, deadline: Any) -> None:
        super().update_as(handle, config, deadline=deadline)
        self.cgroups.put(self.path(handle).parent, "memory.max", "1073741824")


class ClobbersTheNeighbour(Docker):
    def update_as(self, handle: Any, config: Mapping[str, Any], *, deadline: Any) -> None:
        super().update_as(handle, config, deadline=deadline)
        self.cgroups.put(self.path(self.handles[0]), "memory.max", "1073741824")


class TakesAnything(Docker):
    """It drops a request that it should refuse."""

    def create_as(self, sandbox: Any, spec: Any, config: Mapping[str, Any], *, deadline: Any) -> Any:
        right = {name: value for name, value in config.items() if name == "CpuShares"}
        return super().create_as(sandbox, spec, right, deadline=deadline)


@pytest.mark.parametrize(
    ("kind", "request_", "knobs"),
    [
        (DropsSwap, "docker-swap-above", {"memory.swap.max"}),
        (DropsSwap, "docker-swap-equal", {"memory.swap.max"}),
        (DropsSwap, "docker-swap-unlimited", {"memory.swap.max"}),
        (DropsReservation, "docker-reservation", {"memory.low"}),
        (DropsZones, "docker-mems", {"cpuset.mems"}),
        (DropsTheScore, "docker-oom-score", {"oom_score_adj"}),
        (OffByAPage, "docker-reservation-and-memory", {"create"}),
        (OffByAPage, "docker-swap-unlimited", {"memory.max"}),
        (AllowsNoSwapOfItsOwnAccord, "docker-memory", {"memory.swap.max"}),
        (IgnoresUpdates, "docker-update-memory", {"memory.max"}),
        (IgnoresUpdates, "docker-update-reservation", {"memory.low"}),
        (IgnoresUpdates, "docker-update-refuses-memory-above-swap", {"update"}),
        (IgnoresUpdates, "docker-update-swap-alone", {"update"}),
        (ForgetsTheReservationInUpdates, "docker-update-memory", {"memory.low"}),
        (ClobbersThePod, "docker-update-mems", {"memory.max"}),
        (ClobbersTheNeighbour, "docker-update-cpu", {"memory.max"}),
        (TakesAnything, "docker-refuses-little-memory", {"create"}),
        (TakesAnything, "docker-refuses-swap-without-memory", {"create"}),
    ],
)
def test_a_wrong_engine_is_found_by_its_knob(kind: type[Docker], request_: str, knobs: set[str]) -> None:
    assert deviating(asked(request_, kind)) == knobs


def test_a_cri_request_lists_fields_that_docker_lacks() -> None:
    found = {finding.knob: finding for finding in asked("everything")}
    assert (found["memory.high"].verdict, found["memory.high"].why_not) == (
        Verdict.NOT_OBSERVABLE,
        "HostConfig has no field for memory.high.",
    )
    assert found["memory.max"].verdict is Verdict.CONFORMS
    assert found["memory.low"].verdict is Verdict.CONFORMS


def test_a_file_that_cannot_be_requested_is_not_observable_whatever_the_plan() -> None:
    """Huge pages, which no kubelet plans for Docker, are the whole request."""
    found = {one.knob: one for one in asked("huge-pages")}
    assert found["hugetlb.2MB.max"].verdict is Verdict.NOT_OBSERVABLE
    assert "HostConfig has no field for huge page limits." in found["hugetlb.2MB.max"].why_not


def test_a_refusal_of_an_impossible_request_is_not_observable() -> None:
    [told, *_] = asked("refuses-missing-huge-pages")
    assert (told.verdict, told.why_not) == (
        Verdict.NOT_OBSERVABLE,
        "HostConfig has no field for huge page limits.",
    )


def test_another_runtime_accepts_no_host_config() -> None:
    with pytest.raises(UsageError, match="fake accepts no HostConfig"):
        findings(ALL["docker-memory"])
