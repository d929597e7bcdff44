"""A station: a place of a run with one of its runtimes and its node, and where its evidence goes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.config.table import offered_name
from memqos.enactor.admission import patience_with_pods
from memqos.enactor.patience import Patience
from memqos.node.on_place import node_on
from memqos.node.under_test import NodeUnderTest
from memqos.place.base import Place, PlaceKey, called
from memqos.place.opening import Places
from memqos.plugin.evidence import Folder, MachineLog, capture
from memqos.plugin.in_use import RuntimesInUse, runtimes_in_use
from memqos.plugin.keeping import keep_chosen, leaves, lingers
from memqos.plugin.keys import BUILDS, RESULTS, SETTINGS_KEY, worker_id
from memqos.plugin.telling import Telling
from memqos.runtime.base import Runtime

__all__ = ["Station", "open_station"]

FIRST_WORD_SECONDS = 60.0

_NUMBER = pytest.StashKey[int]()
_PLACES = pytest.StashKey[Places]()
_PATIENCE = pytest.StashKey[dict[PlaceKey, Patience]]()
"""By the sort of machine: where pods failed in a row, a new one gets one attempt, and not all of them again."""


class Station:
    """A place with its node, and where its evidence goes. key: the sort of place that it is."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the word that bundles use
        key: PlaceKey,
        place: Place,
        node: NodeUnderTest,
        log: MachineLog,
        folder: Folder,
    ) -> None:
        self.id = id
        self.key = key
        self.place = place
        self.node = node
        self.log = log
        self.folder = folder

    def capture(self, folder: Path) -> None:
        """Gather what explains a failure in this folder."""
        capture(self.place, Folder(folder), used=self.log.current)


@contextlib.contextmanager
def open_station(config: pytest.Config, key: PlaceKey) -> Iterator[Station]:
    """Get a place, connect to its runtime, and learn what it has; all is gone when the context ends."""
    settings, telling = config.stash[SETTINGS_KEY], Telling(config)
    places = config.stash.setdefault(_PLACES, Places(settings, progress=telling, builds=config.stash[BUILDS]))
    station_id = f"{worker_id(config)}-{_next_number(config)}"
    folder = Folder(config.stash[RESULTS] / "machines" / station_id)
    began = SYSTEM_CLOCK.now()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(places.opened(key, folder=folder.path))
        stack.callback(keep_chosen, config, place, folder)
        log = MachineLog(folder)
        name = offered_name(settings.runtime)
        deadline = Deadline.after(FIRST_WORD_SECONDS)
        runtime = stack.enter_context(place.connect(name, settings.driver, record=log.call, deadline=deadline))
        version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
        in_use = runtimes_in_use(version, place.runtimes[name], settings)
        if in_use.doubt:
            telling.note(in_use.doubt)
        node = _node(config, place, runtime, log=log, in_use=in_use, key=key)
        folder.write("machine.json", _provenance(station_id, place, node, in_use, key))
        telling.line(f"{station_id}: {called(key)} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
        yield Station(id=station_id, key=key, place=place, node=node, log=log, folder=folder)


def _node(
    config: pytest.Config, place: Place, runtime: Runtime, *, log: MachineLog, in_use: RuntimesInUse, key: PlaceKey
) -> NodeUnderTest:
    settings: Settings = config.stash[SETTINGS_KEY]
    return node_on(
        place,
        runtime,
        recorder=log,
        driver=settings.driver,
        runtimes=in_use.runtimes,
        facts=config.hook.pytest_memqos_node_facts(facts=place.facts.node, config=config),
        parallel=settings.parallel,
        leaves=lambda: leaves(config, place),
        lingers=lambda: lingers(config),
        patience=config.stash.setdefault(_PATIENCE, {}).setdefault(key, patience_with_pods()),
    )


def _next_number(config: pytest.Config) -> int:
    number = config.stash.get(_NUMBER, 0)
    config.stash[_NUMBER] = number + 1
    return number


def _provenance(
    station_id: str, place: Place, node: NodeUnderTest, in_use: RuntimesInUse, key: PlaceKey
) -> dict[str, Any]:
    """What a bundle says of a machine."""
    profile, topology = key
    return {
        **place.provenance,
        "id": station_id,
        "profile": profile,
        "topology": topology,
        "kernel": node.facts.kernel,
        "runtimes": in_use.shown,
        "cri": in_use.cri.api_version if in_use.cri else "",
        "facts": node.facts,
    }
