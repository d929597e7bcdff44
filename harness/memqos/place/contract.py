"""The contract of the place port as a function, for memqos's adapters, the fake, and adapters of others.

def test_my_place() -> None:
    check_place_contract(my_case)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memqos.clock import Deadline, wait
from memqos.errors import MachineryError, UsageError
from memqos.model.node import CgroupDriver
from memqos.place.base import Place, PlaceState

__all__ = ["PlaceCase", "check_place_contract"]

_SECONDS = 60.0
_KERNEL = "/proc/sys/kernel/osrelease"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCase:
    """A place that was just opened, not as keepable. lose: ends the machine or the connection, like an accident."""

    place: Place
    lose: Callable[[], None]


def check_place_contract(factory: Callable[[], AbstractContextManager[PlaceCase]]) -> None:
    """Check an adapter against the port's promises; AssertionError names the broken one."""
    with factory() as case:
        for check in (
            _is_as_it_was,
            _tells_what_the_target_has,
            _speaks_to_its_runtimes,
            _refuses_what_it_does_not_offer,
            _names_its_evidence,
            _is_not_kept_unless_it_was_lent_so,
            _is_spoilt_for_the_first_reason,
        ):
            check(case.place)
        _stays_broken(case)


def _is_as_it_was(place: Place) -> None:
    _promise(place.condition is PlaceState.SOUND and place.spoilt == "", "a place is sound when it is lent")
    place.check_alive()
    place.examine(MachineryError("something went wrong elsewhere."))
    _promise(place.origin_is_whole(), "what a place was made of is whole when it is lent")
    _promise(place.condition is PlaceState.SOUND, "looking at a place does not change it")


def _tells_what_the_target_has(place: Place) -> None:
    _promise("://" in place.target.address, f"the target's address is a URL, and is {place.target.address!r}")
    kernel = place.target.read(_KERNEL, deadline=_soon()) or b""
    told = place.facts.node.kernel
    _promise(
        kernel.decode().strip() == told,
        f"facts are the target's: its kernel is {kernel!r}, not {told!r}",
    )
    _promise(place.facts.node.memory > 0 and place.facts.node.cpus > 0, "facts give memory and processors")
    _promise(bool(json.dumps(dict(place.provenance), default=str)), "provenance is a document")


def _speaks_to_its_runtimes(place: Place) -> None:
    _promise(bool(place.runtimes), "a place offers a runtime")
    for name, offer in place.runtimes.items():
        _promise(name == offer.name, f"a runtime is offered by its name: {name!r} is called {offer.name!r}")
        _promise(bool(offer.oci.name), f"{name} names the OCI runtime below it")
        _promise(bool(offer.handlers), f"{name} runs under a cgroup driver")
        for driver in offer.handlers:
            with place.connect(name, driver, record=lambda _: None, deadline=_soon()) as runtime:
                _promise(runtime.name == name, f"asked for {name}, it connects to that, and not to {runtime.name}")
                _promise(bool(runtime.version(deadline=_soon()).name), f"{name} reports its name")


def _refuses_what_it_does_not_offer(place: Place) -> None:
    try:
        with place.connect("no-such-runtime", CgroupDriver.SYSTEMD, record=lambda _: None, deadline=_soon()):
            pass
    except UsageError as error:
        _promise(all(name in str(error) for name in place.runtimes), f"a refusal names the runtimes, and says: {error}")
    else:
        _promise(False, "a runtime that is not offered is a UsageError")


def _names_its_evidence(place: Place) -> None:
    sources = place.evidence
    for name, argv in sources.commands.items():
        _promise("/" not in name and bool(name), f"evidence is kept in files of the test's folder, not in {name!r}")
        place.target.run(argv, deadline=_soon())
    for file in sources.files:
        _promise(file.is_file(), f"evidence of this host is there while the place is, and {file.name} is not")


def _is_not_kept_unless_it_was_lent_so(place: Place) -> None:
    try:
        place.keep()
    except MachineryError:
        place.check_alive()
    else:
        _promise(False, "a place that was not lent to be kept cannot be")


def _is_spoilt_for_the_first_reason(place: Place) -> None:
    place.spoil("a test left something behind")
    place.spoil("and another did")
    _promise(place.condition is PlaceState.SPOILT, "a place that was spoilt is spoilt")
    _promise(place.spoilt == "a test left something behind", f"the first reason stays, not {place.spoilt!r}")
    place.check_alive()
    _promise(place.target.run(["true"], deadline=_soon()).status == 0, "a spoilt place still runs commands")


def _stays_broken(case: PlaceCase) -> None:
    place, target = case.place, case.place.target
    case.lose()
    _promise(_failure(lambda: target.run(["true"], deadline=_soon())) is not None, "a lost place runs no command")
    first = _promised(lambda: place.examine(MachineryError("the connection is gone.")), "examine reports a lost place")
    wait("the place is known to be lost", lambda: _failure(place.check_alive) is not None, deadline=_soon())
    _promise(place.condition is PlaceState.BROKEN, f"a place that is lost is broken, not {place.condition}")
    again = _promised(place.check_alive, "check_alive reports a lost place")
    _promise(str(first) == str(again), f"a failure is repeated as it was: first {first}, then {again}")
    _promised(lambda: place.target, "the target of a lost place repeats its failure")
    place.spoil("a third reason")
    _promise(place.condition is PlaceState.BROKEN, "nothing repairs a lost place")


def _promised(act: Callable[[], object], promise: str) -> MachineryError:
    error = _failure(act)
    if error is None:
        raise AssertionError(f"the place port's contract is broken: {promise}")
    return error


def _failure(act: Callable[[], object]) -> MachineryError | None:
    try:
        act()
    except MachineryError as error:
        return error
    return None


def _soon() -> Deadline:
    return Deadline.after(_SECONDS)


def _promise(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(f"the place port's contract is broken: {promise}")
