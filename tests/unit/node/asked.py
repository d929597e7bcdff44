"""An in-memory runtime that is called directly and made wrong in one way by a test; and its findings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memqos import claims
from memqos.cases import cases_of
from memqos.catalog.requests import DockerRequestCase, RequestCase, load_requests
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.verbs import perform, verbs_of
from memqos.place.fake import FakePlace
from memqos.plugin.collection.catalogue import Catalogue
from tests.unit.node.fakes import Log

CATALOGUE = Catalogue()
ALL = load_requests()
MODELLED = sorted(name for name, case in ALL.items() if not case.refused and "huge-pages" not in name)
"""The requests that need no kernel which refuses by itself."""

FORKY = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of("crun", "1.28"))
DIRECT = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)


CASES = cases_of(claims.load(Path(__file__).parents[3] / "suites").values())
"""The rows of the suites."""


def verbs_asked_of(kind: type) -> dict[str, Callable[[Any], Sequence[Finding]]]:
    """The verbs of `LifecycleVerbs` and `CriVerbs` in the suites' cases, by the names of their claims."""
    asked = {case.name: case.asks for case in CASES if case.asks.verb in verbs_of(kind)}
    return {name: functools.partial(perform, asks=asks, request=CATALOGUE.request) for name, asks in asked.items()}


class Asked:
    """A fake runtime that a test makes wrong in one way; everything else is the fake's."""

    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        self.fake = place.runtime(driver)
        self.cgroups = place.cgroups
        self.handles: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.create(sandbox, spec, deadline=deadline)
        self.handles.append(handle)
        return handle

    def path(self, handle: Any) -> CgroupPath:
        return self.fake.cgroup_of(handle)


def findings(
    request: str | RequestCase | DockerRequestCase,
    kind: type[Asked] = Asked,
    runtimes: Runtimes = TRIXIE,
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
) -> Sequence[Finding]:
    place = FakePlace(runtimes=runtimes)
    node = node_on(place, kind(place, driver), recorder=NoRecorder(), driver=driver, runtimes=runtimes)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        return requests.judge(CATALOGUE.request(request) if isinstance(request, str) else request)


def kept_of(
    verb: Callable[[Any], Sequence[Finding]], kind: Callable[[Requests], Any] = lambda requests: requests
) -> Log:
    """The findings that a verb returns, once the pod runs."""
    place, kept = FakePlace(runtimes=TRIXIE), Log()
    runtime = place.runtime(CgroupDriver.SYSTEMD)
    node = node_on(place, runtime, recorder=kept, driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        kept.readings.clear()
        verb(requests if kind is None else kind(requests))
    return kept


def deviating(found: Sequence[Finding]) -> set[str]:
    return {finding.knob for finding in found if finding.verdict is Verdict.DEVIATES}


class DropsUnified(Asked):
    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        resources = dataclasses.replace(spec.resources, unified={})
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)
