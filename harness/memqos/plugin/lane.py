"""A lane: a worker's places, one after another, each lent anew when it is not as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType

import pytest

from memqos.errors import DamagedOriginError, MachineryError, MemqosError, UnfitFileError
from memqos.ownership import end_with_parent
from memqos.place.base import PlaceKey
from memqos.plugin.keeping import choose, is_for_keeps
from memqos.plugin.station import Station, open_station
from memqos.plugin.telling import Telling

__all__ = ["Lane"]


class Lane:
    """The stations of one worker, by the sort of place; a context manager.

    One stays open from one module to the next, for as long as modules leave it as they found it. What could never be
    opened is not tried again: its first failure is repeated. So is the refusal of a file that is put into every machine
    of a profile, whatever their topology.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = contextlib.ExitStack()
        self._open: Station | None = None
        self._failures: dict[PlaceKey, MemqosError] = {}
        self._known: set[PlaceKey] = set()
        """Of what there has been a place."""
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
    def opened(self, key: PlaceKey) -> Iterator[Station]:
        """The station for one module, known to the whole worker while the module runs."""
        if self._open is not None and self._open.key != key:
            self._close()
        if self._open is None:
            self._open = self._enter(self._stack, key)
        station = self.station = self._open
        try:
            yield station
        finally:
            self.station = None
            if reason := self._why_not_again(station):
                Telling(self._config).line(f"{station.id} is given up: {reason}")
                self._close()

    @contextlib.contextmanager
    def fresh(self, key: PlaceKey) -> Iterator[Station]:
        """A station for one test, beside the one that may be open; it is the worker's for as long as the test runs."""
        before = self.station
        with contextlib.ExitStack() as stack:
            station = self.station = self._only_one(key) or self._enter(stack, key)
            try:
                yield station
            finally:
                self.station = before

    def _only_one(self, key: PlaceKey) -> Station | None:
        """The station that is open, if there can be no other of its sort: of a machine that is there."""
        one = self._open
        return one if one is not None and one.key == key and not one.place.is_disposable else None

    @property
    def lost(self) -> str:
        """Why the module that is running needs another place from its next test on, "" if it does not."""
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

    def keep(self, station: Station) -> None:
        """Leave the place of this failure as it is, if that was asked for: its module goes on on another one."""
        if choose(self._config, station.place) and self._open is station:
            self.spoil("it is kept with what a test failed on")

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
            place.spoil(f"cgroups were left on it: {', '.join(left)}")
        return place.spoilt

    def _enter(self, stack: contextlib.ExitStack, key: PlaceKey) -> Station:
        profile = key[0]
        if failure := self._failures.get(key) or self._unfit.get(profile):
            raise failure
        try:
            station = self._entered(stack, key)
        except UnfitFileError as error:
            self._unfit[profile] = error
            raise
        except MemqosError as error:
            if key not in self._known or not isinstance(error, MachineryError):
                self._failures[key] = error
            raise
        self._known.add(key)
        return station

    def _entered(self, stack: contextlib.ExitStack, key: PlaceKey) -> Station:
        try:
            return stack.enter_context(open_station(self._config, key))
        except DamagedOriginError:
            # What comes next is made of something else.
            return stack.enter_context(open_station(self._config, key))

    def _close(self) -> None:
        self._open, self._spoilt = None, ""
        self._stack.close()
