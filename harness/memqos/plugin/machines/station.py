"""A station: a place of a run with one of its runtimes and its node, and where its evidence goes.

What one place has of several runtimes is a station each, one after another: of its own number, so that nothing that is
kept of them can be mixed up.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.config.systems import SystemKey
from memqos.enactor.admission import patience_with_pods
from memqos.enactor.patience import Patience
from memqos.node.on_place import node_on
from memqos.node.under_test import NodeUnderTest
from memqos.place.base import Place
from memqos.place.opening import Places
from memqos.plugin.face.telling import Telling
from memqos.plugin.keys import BUILDS, RESULTS, SETTINGS_KEY, host_of, worker_id
from memqos.plugin.machines.in_use import RuntimesInUse, runtimes_in_use
from memqos.plugin.machines.keeping import keep_chosen, leaves, lingers
from memqos.plugin.results.evidence import Folder, MachineLog, capture
from memqos.plugin.results.provenance import host
from memqos.runtime.base import Runtime
from memqos.target.attended import attended
from memqos.target.base import Target

__all__ = ["Station", "are_of_one_machine", "open_station", "turned_station"]

FIRST_WORD_SECONDS = 60.0

_NUMBER = pytest.StashKey[int]()
_PLACES = pytest.StashKey[Places]()
_PATIENCE = pytest.StashKey[dict[SystemKey, Patience]]()
"""By the system under test: where pods failed in a row, a new one gets one attempt, and not all of them again."""


class Station:
    """A place with its node, and where its evidence goes. key: the system under test.

    runtimes: what runs its containers, by name and version as reports show them. first: the station
    that was the first on its machine, itself unless another one is said.
    """

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the word that bundles use
        key: SystemKey,
        place: Place,
        node: NodeUnderTest,
        log: MachineLog,
        folder: Folder,
        runtimes: Sequence[str] = (),
        first: str = "",
    ) -> None:
        self.id = id
        self.key = key
        self.place = place
        self.node = node
        self.log = log
        self.folder = folder
        self.runtimes = runtimes
        self.first = first or id

    def capture(self, folder: Path) -> None:
        """Gather what explains a failure in this folder."""
        capture(self.place, Folder(folder), used=self.log.current)


@contextlib.contextmanager
def open_station(config: pytest.Config, key: SystemKey) -> Iterator[Station]:
    """Get a place, connect to its runtime, and learn what it has; all is gone when the context ends."""
    station_id, began = _next_id(config), SYSTEM_CLOCK.now()
    folder = _folder(config, station_id)
    with _places(config).opened(key, folder=folder.path) as place, contextlib.ExitStack() as stack:
        stack.callback(keep_chosen, config, place, folder)
        station = stack.enter_context(_station(config, key, place, station_id))
        Telling(config).line(f"{station_id}: {key} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
        yield station


@contextlib.contextmanager
def turned_station(config: pytest.Config, station: Station, key: SystemKey) -> Iterator[Station]:
    """A station of another system on the place of this one, which has it too, and outlives it."""
    station_id = _next_id(config)
    with _station(config, key, station.place, station_id, same_machine_as=station.first) as turned:
        Telling(config).line(f"{station_id}: {key}, on the machine of {station.id}")
        yield turned


def are_of_one_machine(config: pytest.Config, one: SystemKey, other: SystemKey) -> bool:
    """Whether a machine with the one system has the other too."""
    return one.place == other.place and _places(config).are_of_one(one, other)


@contextlib.contextmanager
def _station(
    config: pytest.Config, key: SystemKey, place: Place, station_id: str, *, same_machine_as: str = ""
) -> Iterator[Station]:
    """Connect to the system's runtime, and learn what it is."""
    folder = _folder(config, station_id)
    log = MachineLog(folder)
    deadline = Deadline.after(FIRST_WORD_SECONDS)
    with (
        attended(place.target) as target,
        place.connect(key.runtime, key.driver, record=log.call, deadline=deadline) as runtime,
    ):
        version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
        in_use = runtimes_in_use(version, place.runtimes[key.runtime], config.stash[SETTINGS_KEY])
        if in_use.doubt:
            Telling(config).note(in_use.doubt)
        node = _node(config, place, runtime, target=target, log=log, in_use=in_use, key=key)
        shared = {"same_machine_as": same_machine_as} if same_machine_as else {}
        folder.write(
            "machine.json", {**_provenance(station_id, place, node, in_use, key, address=host_of(config)), **shared}
        )
        try:
            yield Station(
                id=station_id,
                key=key,
                place=place,
                node=node,
                log=log,
                folder=folder,
                runtimes=in_use.shown,
                first=same_machine_as,
            )
        finally:
            if told := log.timing.told():
                folder.write("timing.json", told)
            if log.overhead:
                folder.write("overhead.json", log.overhead)


def _node(
    config: pytest.Config,
    place: Place,
    runtime: Runtime,
    *,
    target: Target,
    log: MachineLog,
    in_use: RuntimesInUse,
    key: SystemKey,
) -> NodeUnderTest:
    settings: Settings = config.stash[SETTINGS_KEY]
    return node_on(
        place,
        runtime,
        target=target,
        recorder=log,
        driver=key.driver,
        runtimes=in_use.runtimes,
        facts=config.hook.pytest_memqos_node_facts(facts=place.facts.node, config=config),
        parallel=settings.parallel,
        leaves=lambda: leaves(config, place),
        lingers=lambda: lingers(config),
        patience=config.stash.setdefault(_PATIENCE, {}).setdefault(key, patience_with_pods()),
    )


def _places(config: pytest.Config) -> Places:
    settings = config.stash[SETTINGS_KEY]
    return config.stash.setdefault(_PLACES, Places(settings, progress=Telling(config), builds=config.stash[BUILDS]))


def _folder(config: pytest.Config, station_id: str) -> Folder:
    return Folder(config.stash[RESULTS] / "machines" / station_id)


def _next_id(config: pytest.Config) -> str:
    """A name that no other station of the run has."""
    number = config.stash.get(_NUMBER, 0)
    config.stash[_NUMBER] = number + 1
    return f"{worker_id(config)}-{number}"


def _provenance(
    station_id: str, place: Place, node: NodeUnderTest, in_use: RuntimesInUse, key: SystemKey, *, address: str
) -> dict[str, Any]:
    """What a bundle says of a machine; of its host where that is another than the run's."""
    return {
        **place.provenance,
        "id": station_id,
        "profile": key.profile,
        "topology": key.topology,
        "runtime": key.runtime,
        "driver": key.driver,
        "kernel": node.facts.kernel,
        "runtimes": in_use.shown,
        "cri": in_use.cri.api_version if in_use.cri else "",
        "facts": node.facts,
        **({"host": {"address": address, "name": platform.node(), **host()}} if address else {}),
    }
