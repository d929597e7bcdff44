"""The port "a machine with runtimes on it, lent for a while", and the values that go through it.

A place is lent by a context manager. While it lasts the place is reached over its target, its runtimes are spoken to by
name, and it tells whether it is still as it was when it was lent. What it takes to have such a machine (booting one,
connecting to one) is its adapter's matter.

What is known of how a place is, where nothing else remembers it: its failure, and why it is not as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from memqos.clock import Deadline
from memqos.errors import MachineryError, UnknownNameError, UsageError
from memqos.model.node import CgroupDriver
from memqos.probe.facts import TargetFacts
from memqos.probe.sampler import Sampler
from memqos.runtime.base import Runtime
from memqos.target.base import Target

__all__ = [
    "Health",
    "KeptPlace",
    "OciProgram",
    "OfferedRuntime",
    "Place",
    "PlaceKey",
    "PlaceState",
    "RequestRecorder",
    "Sources",
    "offered",
]

PlaceKey = tuple[str, str]
"""Which sort of place is meant: a profile and a topology, or the address of a machine that is there and ""."""

RequestRecorder = Callable[[object], None]
"""Is given each request to a runtime with its reply, for evidence."""


class PlaceState(StrEnum):
    """How a place is: as it was when it was lent, changed but of use, or of no use any more."""

    SOUND = "sound"
    SPOILT = "spoilt"
    BROKEN = "broken"

    @property
    def is_usable(self) -> bool:
        """Whether commands can be run on it."""
        return self is not PlaceState.BROKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class OciProgram:
    """An OCI runtime by the name and version that it says it is; "" is an unknown version.

    is_brought: a person's file stands in the place of the machine's own. place: where it is, "" for the usual one.
    below: of one that is not modelled, the cgroup below a systemd scope in which it keeps processes, "" for the scope.
    """

    name: str
    version: str
    is_brought: bool = False
    place: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRuntime:
    """A runtime that a place has, and how one speaks to it.

    name: as reports call it, containerd+runc, or oci:runc for one that is driven directly. socket: where CRI is spoken,
    on the target; "" for one that is driven by its own commands, and for Docker, which speaks its own language on a
    socket for each driver (`docker_sockets`). handlers: which handler of RunPodSandbox, or which program or runtime of
    Docker's, has this OCI runtime under each cgroup driver; a driver without one cannot be had.
    oci: the program below. hugetlb: whether the daemon is configured to pass huge page limits on.
    """

    name: str
    socket: str
    handlers: Mapping[CgroupDriver, str]
    oci: OciProgram
    hugetlb: bool = True
    docker_sockets: Mapping[CgroupDriver, str] = field(default_factory=dict)

    @property
    def is_direct(self) -> bool:
        """Whether there is no daemon between requests and the OCI runtime."""
        return not self.socket and not self.docker_sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the evidence of a failure comes from, by the names of the files that it is kept in.

    commands: run on the target, each as it is. files: of this host, such as a console's; they may grow.
    """

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlace:
    """A place that was left to a person. enter, end: the commands for it; document: what a bundle says of it."""

    name: str
    machine: str
    enter: str
    end: str
    document: Mapping[str, object]


@runtime_checkable
class Place(Protocol):
    """A machine with runtimes on it, for as long as it is lent."""

    @property
    def target(self) -> Target:
        """The machine as something that commands are run on. A broken place repeats its failure, a MachineryError."""
        ...

    @property
    def facts(self) -> TargetFacts:
        """What the machine has, as it was when it was lent."""
        ...

    @property
    def sampler(self) -> Sampler:
        """What watches its cgroups from inside."""
        ...

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """What runs containers on it, by name."""
        ...

    def connect(
        self, runtime: str, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
    ) -> contextlib.AbstractContextManager[Runtime]:
        """Speak to one of its runtimes, under a cgroup driver, for as long as the context lives.

        Raises UsageError for a runtime or a driver that it does not offer, MachineryError if nothing answers.
        """
        ...

    @property
    def is_disposable(self) -> bool:
        """Whether it is thrown away at the end: then an interrupt need not wait for anything to be removed from it."""
        ...

    def check_alive(self) -> None:
        """Raise its failure, a MachineryError, if it is known to be broken: always the first one, and at once."""
        ...

    def examine(self, error: MachineryError) -> None:
        """Raise its failure if this error comes of it; takes longer, and finds one that is not known yet."""
        ...

    @property
    def condition(self) -> PlaceState:
        """Whether it is as it was when it was lent, as far as it was told so."""
        ...

    @property
    def spoilt(self) -> str:
        """Why it is not as it was, by the first reason that was told; "" if none was."""
        ...

    def spoil(self, reason: str) -> None:
        """Mark it as changed: it must serve no other test. A broken place keeps its first reason."""
        ...

    @property
    def origin(self) -> str:
        """What it was made of, by a name that others made of it share; "" for a machine that was made of nothing."""
        ...

    def origin_is_whole(self) -> bool:
        """Whether that is all that it was; may take seconds, and is asked after a failure."""
        ...

    @property
    def evidence(self) -> Sources:
        """What explains a failure on it."""
        ...

    def keep(self) -> KeptPlace:
        """Leave it to a person, as it is, when the loan ends. MachineryError if it was not lent to be kept."""
        ...

    @property
    def provenance(self) -> Mapping[str, object]:
        """What a bundle says of it: a document for people; memqos decides nothing by it."""
        ...


def offered(place: Place, runtime: str, driver: CgroupDriver) -> OfferedRuntime:
    """A runtime of this place; UsageError naming those there are if it does not offer it under this cgroup driver."""
    if runtime not in place.runtimes:
        raise UnknownNameError.of("runtime on the machine", runtime, sorted(place.runtimes), where="--runtime")
    found = place.runtimes[runtime]
    if driver not in found.handlers:
        known = " and ".join(found.handlers)
        raise UsageError(
            f"{runtime} of this machine does not run under the {driver} driver, only under {known}.", where="--driver"
        )
    return found


class Health:
    """The first failure stays, and the first reason."""

    def __init__(self) -> None:
        self.spoilt = ""
        self._failure: MachineryError | None = None

    def fail(self, error: MachineryError) -> MachineryError:
        """It is broken, by this error unless it was before; its failure."""
        self._failure = self._failure or error
        return self._failure

    def check(self) -> None:
        """Raise its failure."""
        if self._failure is not None:
            raise self._failure

    @property
    def condition(self) -> PlaceState:
        """As it was told."""
        if self._failure is not None:
            return PlaceState.BROKEN
        return PlaceState.SPOILT if self.spoilt else PlaceState.SOUND

    def spoil(self, reason: str) -> None:
        """It is not as it was."""
        if self.condition is PlaceState.SOUND:
            self.spoilt = reason
