"""The machines of a session: one station, or two whose examples are compared without the engine."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.profiles import profile_names
from memqos.config.settings import Settings
from memqos.config.systems import systems_of
from memqos.engine.answer.finding import Finding, Setter
from memqos.errors import UsageError
from memqos.exploration.examples import Example, Kind
from memqos.exploration.judge import ExampleResult, Judge
from memqos.exploration.session import ExampleRunner, Known
from memqos.laboratory.bench import Disposal
from memqos.laboratory.known_deviations import known_fault_or_not
from memqos.laboratory.station import Notices, Station, Stations
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.requests.differential import differences
from memqos.place.opening import check_host, check_places, prepare_places

__all__ = ["Comparison", "OpenedSystem", "opened_system"]


class Comparison:
    """Runs examples on two systems and reports their differences as findings.

    names: the two systems' names in findings.
    """

    def __init__(self, one: ExampleRunner, other: ExampleRunner, names: tuple[str, str]) -> None:
        self._one = one
        self._other = other
        self._names = names

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[ExampleResult]:
        """The differences of each example."""
        mine = self._one.try_all(examples, alone=alone)
        others = self._other.try_all(examples, alone=alone)
        return [self._compared(one, other) for one, other in zip(mine, others, strict=True)]

    def _compared(self, one: ExampleResult, other: ExampleResult) -> ExampleResult:
        """The comparison of one example; empty if a system skipped it or could not start its pods."""
        if one.skipped or other.skipped or one.trouble or other.trouble:
            return dataclasses.replace(
                one, findings=(), above=(), skipped=one.skipped or other.skipped, trouble=one.trouble or other.trouble
            )
        kind = str(one.example.kind)
        found = list(differences(kind, _of_runtimes(one.findings), _of_runtimes(other.findings), self._names))
        return dataclasses.replace(one, findings=found, above=(), containers=one.containers + other.containers)


def _of_runtimes(findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings about containers: memqos itself wrote the files above them on both systems."""
    return [one for one in findings if one.set_by is not Setter.MEMQOS]


_CHAPTERS = {
    Kind.PODS: ("values", "requests", "refusal", "swap"),
    Kind.RESIZE: ("resize", "values", "requests"),
    Kind.RESTART: ("lifecycle", "values", "succession"),
    Kind.KERNEL: ("protection", "throttling", "limits", "swap"),
    Kind.LIFECYCLE: ("requests", "lifecycle", "refusal", "oci", "cri", "values"),
}
"""By kind of example, the chapters whose listed deviations it may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSystem:
    """The opened machines of a session.

    system: the machine and its runtimes as text. node, driver: of the first station.
    """

    tries: ExampleRunner
    known: Known
    system: Sequence[str]
    node: NodeFacts
    driver: CgroupDriver


@contextlib.contextmanager
def opened_system(settings: Settings, *, enactor: str, against: str = "", notices: Notices) -> Iterator[OpenedSystem]:
    """Open the machine of these settings until the context ends.

    enactor: the name of the program that carries out plans. against: a runtime or a profile to compare with, "" for
    none. Raises UsageError if the settings name several systems; otherwise as `Stations.opened`.
    """
    mine, other = _systems(settings, against)
    builds = check_places(mine)
    check_host(mine)
    [key], [other_key] = systems_of(mine), systems_of(other)
    prepare_places(mine, progress=notices)
    if against:
        prepare_places(other, progress=notices)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memqos-explore-")))
        owner = Disposal()
        stations = Stations(mine, results=folder, notices=notices, owner=owner, builds=builds, enactor=enactor)
        station = stack.enter_context(stations.opened(key))
        ground = _opened(station, mine)
        if against:
            if stations.are_of_one_machine(key, other_key):
                second = stack.enter_context(stations.turned(station, other_key))
            else:
                second = stack.enter_context(stations.opened(other_key))
            names = (key.runtime, other_key.runtime) if key.runtime != other_key.runtime else (key.profile, against)
            tries = Comparison(Judge(station.node), Judge(second.node), names)
            system = [*ground.system, *(one for one in _system(second) if one not in ground.system)]
            ground = dataclasses.replace(ground, tries=tries, known=_unlisted, system=system)
        try:
            yield ground
        finally:
            owner.ends = True


def _opened(station: Station, settings: Settings) -> OpenedSystem:
    def known(finding: Finding, kind: Kind) -> Finding:
        return known_fault_or_not(finding, _CHAPTERS[kind], station, settings.known)

    return OpenedSystem(
        tries=Judge(station.node),
        known=known,
        system=_system(station),
        node=station.node.facts,
        driver=station.key.driver,
    )


def _system(station: Station) -> list[str]:
    return [str(station.key), *station.runtimes, f"linux {station.node.facts.kernel}"]


def _unlisted(finding: Finding, _: Kind) -> Finding:
    """The finding itself: lists have no entries for differences between two runtimes; their models' traits do."""
    return finding


def _systems(settings: Settings, against: str) -> tuple[Settings, Settings]:
    """The settings of the one system, and those of the other."""
    if len(systems_of(settings)) > 1:
        raise UsageError(
            "memqos explore runs on one system: one profile, one runtime and one driver.",
            next_step="Run it once for each system, or compare two: --against RUNTIME.",
        )
    if not against:
        return settings, settings
    if against in profile_names() and not settings.target:
        return settings, dataclasses.replace(settings, image=None, profile=(against,))
    [runtime] = settings.runtime
    name = f"oci:{against}" if runtime.startswith("oci:") and ":" not in against else against
    name = name if ":" in name or "+" in name else f"containerd+{name}"
    if name == runtime:
        raise UsageError(f"--against names the runtime itself, {runtime}.", next_step="Name another one.")
    return settings, dataclasses.replace(settings, runtime=(name,))
