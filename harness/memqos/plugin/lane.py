"""A lane: what one pytest worker runs its memqos tests on, one machine after another, each restored when needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType

import pytest

from memqos.errors import MachineryError, MemqosError, UsageError
from memqos.plugin.keeping import choose, is_for_keeps
from memqos.plugin.station import Station, open_station
from memqos.plugin.telling import Telling
from memqos.vm.boot import DAMAGED
from memqos.vm.host.ownership import end_with_parent
from memqos.vm.options import LATE

__all__ = ["Lane"]


class Lane:
    """The machines of one worker, by profile and topology; a context manager.

    One stays open from one module to the next, for as long as modules leave it as they found it. What could never be
    opened is not tried again: its first failure is repeated. So is the refusal of a file that is put into every machine
    of a profile, whatever their topology.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = contextlib.ExitStack()
        self._open: tuple[tuple[str, str], Station] | None = None
        self._failures: dict[tuple[str, str], MemqosError] = {}
        self._known: set[tuple[str, str]] = set()
        """Of what there has been a machine."""
        self._refused: dict[str, UsageError] = {}
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
    def opened(self, profile: str, topology: str) -> Iterator[Station]:
        """The station for one module, known to the whole worker while the module runs."""
        key = (profile, topology)
        if self._open is not None and self._open[0] != key:
            self._close()
        if self._open is None:
            self._open = key, self._enter(self._stack, key)
        station = self.station = self._open[1]
        try:
            yield station
        finally:
            self.station = None
            if reason := self._why_not_again(station):
                Telling(self._config).line(f"{station.id} is given up: {reason}")
                self._close()

    @contextlib.contextmanager
    def fresh(self, profile: str, topology: str) -> Iterator[Station]:
        """A station for one test, beside the one that may be open; it is the worker's for as long as the test runs."""
        before = self.station
        with contextlib.ExitStack() as stack:
            station = self.station = self._enter(stack, (profile, topology))
            try:
                yield station
            finally:
                self.station = before

    @property
    def lost(self) -> str:
        """Why the module that is running needs another machine from its next test on, "" if it does not."""
        if self._open is None:
            return ""
        try:
            self._open[1].machine.check_alive()
        except MachineryError as error:
            return error.what.splitlines()[0]
        return self._spoilt

    def spoil(self, reason: str) -> None:
        """Use the module's machine for no further test, though it answers."""
        if self._open is None:
            return
        self._spoilt = reason
        if (machine := self._open[1].machine).state.is_usable:
            machine.mark_dirty(reason)

    def keep(self, station: Station) -> None:
        """Leave the machine of this failure as it is, if that was asked for: its module goes on on another one."""
        if choose(self._config, station.machine) and self._open is not None and self._open[1] is station:
            self.spoil("it is kept with what a test failed on")

    def _why_not_again(self, station: Station) -> str:
        """Why no further module may use a machine, "" if it is as it was when it was restored."""
        machine = station.machine
        if not machine.state.is_usable:
            return f"it is {machine.state}"
        if is_for_keeps(self._config, machine):
            return "it is kept, because a test failed on it"
        try:
            left = station.node.leftovers()
        except MachineryError as error:
            return error.what.splitlines()[0]
        if left:
            machine.mark_dirty(f"cgroups were left on it: {', '.join(left)}")
        return str(machine.provenance.get("dirty", ""))

    def _enter(self, stack: contextlib.ExitStack, key: tuple[str, str]) -> Station:
        if failure := self._failures.get(key) or self._refused.get(key[0]):
            raise failure
        try:
            station = self._entered(stack, key)
        except MemqosError as error:
            if key not in self._known or not isinstance(error, MachineryError):
                self._failures[key] = error
            if isinstance(error, UsageError) and LATE & set(error.where.split(", ")):
                self._refused[key[0]] = error
            raise
        self._known.add(key)
        return station

    def _entered(self, stack: contextlib.ExitStack, key: tuple[str, str]) -> Station:
        try:
            return stack.enter_context(open_station(self._config, *key))
        except MachineryError as error:
            if DAMAGED not in error.data:
                raise
        # Its checkpoint was damaged: the next machine comes of another one.
        return stack.enter_context(open_station(self._config, *key))

    def _close(self) -> None:
        self._open, self._spoilt = None, ""
        self._stack.close()
