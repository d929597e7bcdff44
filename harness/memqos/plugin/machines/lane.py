"""A lane: a worker's places in turn; a place that is no longer pristine is replaced.

--keep-vm: the place of a worker's first failure keeps running in that state, with its pods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType

import pytest

from memqos.config.systems import SystemKey
from memqos.errors import DamagedOriginError, MachineryError, MemqosError, UnfitFileError
from memqos.laboratory.evidence import Folder
from memqos.laboratory.station import Station, Stations
from memqos.model.node import NodeFacts
from memqos.ownership import end_with_parent
from memqos.place.base import Place
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import BUILDS, INTERRUPTION, LANE, RESULTS, SETTINGS_KEY, host_of, worker_id

__all__ = ["Lane", "leaves", "turned_station"]

_CHOSEN = pytest.StashKey[Place]()
"""The place that this worker keeps."""


def choose(config: pytest.Config, place: Place) -> bool:
    """Keep this place, on which a test failed, if the settings want it and it is the first one; returns whether."""
    if not lingers(config):
        return False
    config.stash[_CHOSEN] = place
    return True


def is_for_keeps(config: pytest.Config, place: Place) -> bool:
    """Whether this place is left to the user."""
    return config.stash.get(_CHOSEN, None) is place


def lingers(config: pytest.Config) -> bool:
    """Whether pods stay until their node is used again: their test may still be reported as failed."""
    settings = config.stash[SETTINGS_KEY]
    # An existing machine stays anyhow, and nothing of memqos's stays on it.
    return settings.keep_vm and not settings.target and _CHOSEN not in config.stash


def leaves(config: pytest.Config, place: Place) -> bool:
    """Whether a place is left as it is, with the pods that were tested on it.

    It is if it will be kept, and if it is broken: the breakage was already reported, and the next test, on another
    place, must not get the error of tidying up. It also is if the place is given up for what a test left on it, or a
    signal ends the run: its processes may hang, and the run does not wait for them.
    """
    lane = config.stash.get(LANE, None)
    is_given_up = lane is not None and lane.has_given_up(place)
    ends = place.is_disposable and (is_given_up or config.stash[INTERRUPTION].came)
    return ends or not place.condition.is_usable or is_for_keeps(config, place)


def keep_chosen(config: pytest.Config, place: Place, folder: Folder) -> None:
    """Leave a chosen place to the user, print how to enter and end it, and note its name in the folder.

    If it has broken since, the next place on which a test fails is kept instead.
    """
    if not is_for_keeps(config, place):
        return
    if not place.condition.is_usable:
        del config.stash[_CHOSEN]
        return
    kept = place.keep()
    folder.write("kept.json", kept.document)
    Messenger(config).line(
        f"{kept.machine} keeps running as {kept.name}, with the pods of the failure: "
        f"`{kept.enter}` enters it, `{kept.end}` ends it"
    )


_STATIONS = pytest.StashKey[Stations]()


class _Owner:
    """Decisions about machines and pods from pytest's settings and this worker's failures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def leaves(self, place: Place) -> bool:
        """Whether pods stay on this machine; see `keeping.leaves`."""
        return leaves(self._config, place)

    def lingers(self) -> bool:
        """Whether pods stay until their node is used again; see `keeping.lingers`."""
        return lingers(self._config)

    def closes(self, place: Place, folder: Folder) -> None:
        """Keep the machine if a failure chose it."""
        keep_chosen(self._config, place, folder)


def stations(config: pytest.Config) -> Stations:
    """This worker's stations."""
    if _STATIONS not in config.stash:

        def facts(found: NodeFacts) -> NodeFacts:
            corrected: NodeFacts = config.hook.pytest_memqos_node_facts(facts=found, config=config)
            return corrected

        config.stash[_STATIONS] = Stations(
            config.stash[SETTINGS_KEY],
            results=config.stash[RESULTS],
            notices=Messenger(config),
            owner=_Owner(config),
            builds=config.stash[BUILDS],
            worker=worker_id(config),
            address=host_of(config),
            facts=facts,
        )
    return config.stash[_STATIONS]


def open_station(config: pytest.Config, key: SystemKey) -> contextlib.AbstractContextManager[Station]:
    """A station on a machine of its own; both are removed when the context ends."""
    return stations(config).opened(key)


def turned_station(
    config: pytest.Config, station: Station, key: SystemKey
) -> contextlib.AbstractContextManager[Station]:
    """A station of another system on this one's machine, which outlives it."""
    return stations(config).turned(station, key)


def are_of_one_machine(config: pytest.Config, one: SystemKey, other: SystemKey) -> bool:
    """Whether a machine with the one system also has the other."""
    return stations(config).are_of_one_machine(one, other)


class Lane:
    """The stations of one worker, by the system under test; a context manager.

    One stays open from module to module while modules leave it as they found it; its machine goes on to the next system
    that it has. A station that could never be opened is not tried again: its first failure is repeated. The same holds
    for a rejected file that goes into every machine of a profile, whatever the topology.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = contextlib.ExitStack()
        self._turned = contextlib.ExitStack()
        """Later systems on the open machine that are ready."""
        self._open: Station | None = None
        self._failures: dict[SystemKey, MemqosError] = {}
        self._known: set[SystemKey] = set()
        """The systems that have had a place."""
        self._unfit: dict[str, UnfitFileError] = {}
        """By profile."""
        self._spoilt = ""
        self.station: Station | None = None

    def __enter__(self) -> Lane:
        if hasattr(self._config, "workerinput"):
            end_with_parent()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @contextlib.contextmanager
    def opened(self, key: SystemKey) -> Iterator[Station]:
        """The station for one module, known to the whole worker while the module runs."""
        before = self._open
        if before is not None and before.key != key:
            if are_of_one_machine(self._config, before.key, key):
                self._turn(before, key)
            else:
                self._close()
        if self._open is None:
            self._open = self._enter(self._stack, key)
        station = self.station = self._open
        try:
            yield station
        finally:
            self.station = None
            if self._open is station and (reason := self._why_not_again(station)):
                Messenger(self._config).line(f"{station.id} is given up: {reason}")
                self._close()

    @contextlib.contextmanager
    def fresh(self, key: SystemKey) -> Iterator[Station]:
        """A station for one test, in addition to an open one; it is the worker's for as long as the test runs."""
        before = self.station
        if self._open is not None and self._open.key != key and not self._open.place.is_disposable:
            # A machine is not prepared for two runtimes at a time.
            self._close()
        with contextlib.ExitStack() as stack:
            station = self.station = self._only_one(key) or self._enter(stack, key)
            try:
                yield station
            finally:
                self.station = before

    def _only_one(self, key: SystemKey) -> Station | None:
        """The open station, if there can be no other of its kind: of an existing machine."""
        one = self._open
        return one if one is not None and one.key == key and not one.place.is_disposable else None

    @property
    def lost(self) -> str:
        """Why the running module needs another place from its next test on, "" if it does not."""
        if self._open is None:
            return ""
        try:
            self._open.place.check_alive()
        except MachineryError as error:
            return error.what.splitlines()[0]
        return self._spoilt

    def spoil(self, reason: str) -> None:
        """Use the module's place for no further test, though it answers."""
        if self._open is not None:
            self._spoilt = reason
            self._open.place.spoil(reason)

    def has_given_up(self, place: Place) -> bool:
        """Whether this place was spoilt, and is used for no further test."""
        return bool(self._spoilt) and self._open is not None and self._open.place is place

    def keep(self, station: Station) -> None:
        """Keep the place of this failure, if that was requested: its module goes on on another one."""
        if choose(self._config, station.place) and self._open is station:
            self.spoil("it is kept with the pods of a failed test")

    def _why_not_again(self, station: Station) -> str:
        """Why no further module may use a place, "" if it is as it was when it was lent."""
        place = station.place
        if not place.condition.is_usable:
            return f"it is {place.condition}"
        if is_for_keeps(self._config, place):
            return "it is kept, because a test failed on it"
        try:
            left = station.node.leftovers()
        except MachineryError as error:
            return error.what.splitlines()[0]
        if left:
            place.spoil(f"it has leftover cgroups: {', '.join(left)}")
        return place.spoilt

    def _enter(self, stack: contextlib.ExitStack, key: SystemKey) -> Station:
        return self._tried(key, lambda: self._entered(stack, key))

    def _tried(self, key: SystemKey, opening: Callable[[], Station]) -> Station:
        """Open a station, and remember a failure."""
        self._need_hope(key)
        try:
            station = opening()
        except UnfitFileError as error:
            self._unfit[key.profile] = error
            raise
        except MemqosError as error:
            if key not in self._known or not isinstance(error, MachineryError):
                self._failures[key] = error
            raise
        self._known.add(key)
        return station

    def _need_hope(self, key: SystemKey) -> None:
        """Repeat the failure of a station that cannot be opened."""
        if failure := self._failures.get(key) or self._unfit.get(key.profile):
            raise failure

    def _turn(self, station: Station, key: SystemKey) -> None:
        """Go on with another system on the open machine; with none open if that fails."""
        self._need_hope(key)
        self._turned.close()
        try:
            self._open = self._tried(
                key, lambda: self._turned.enter_context(turned_station(self._config, station, key))
            )
        except MemqosError:
            self._close()
            raise

    def _entered(self, stack: contextlib.ExitStack, key: SystemKey) -> Station:
        try:
            return stack.enter_context(open_station(self._config, key))
        except DamagedOriginError:
            # The next one is built from something else.
            return stack.enter_context(open_station(self._config, key))

    def _close(self) -> None:
        self._open, self._spoilt = None, ""
        with self._stack:
            self._turned.close()
