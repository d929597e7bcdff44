"""The place port: a machine with runtimes, opened for a while, and the port's values.

A context manager opens a place. Until it ends, commands go through the place's target, runtimes are connected by name,
and the place reports whether it is unchanged. The adapter does what its kind of machine needs (boot one, connect to
one).

`Health` keeps the state of a place: its failure, and why it is no longer unchanged.
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
"""The kind of a place: profile and topology, or the address of an existing machine and ""."""

RequestRecorder = Callable[[object], None]
"""Receives each request to a runtime with its reply, for evidence."""


class PlaceState(StrEnum):
    """The state of a place: unchanged since it was opened, changed but usable, or unusable."""

    SOUND = "sound"
    SPOILT = "spoilt"
    BROKEN = "broken"

    @property
    def is_usable(self) -> bool:
        """Whether commands can be run on it."""
        return self is not PlaceState.BROKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class OciProgram:
    """An OCI runtime by the name and version that it reports; "" is an unknown version.

    is_brought: whether the user's file replaces the machine's own. place: where it is, "" for the usual one.
    below: of one that is not modelled, the cgroup below a systemd scope in which it keeps processes, "" for the scope.
    """

    name: str
    version: str
    is_brought: bool = False
    place: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRuntime:
    """A runtime of a place, and how to connect to it.

    name: as in reports, containerd+runc, or oci:runc for one that is driven directly. socket: the CRI socket on the
    target; "" for a runtime that is driven by its commands, and for Docker, which has an API socket for each driver
    (`docker_sockets`). handlers: by cgroup driver, the handler of RunPodSandbox (or the program, or Docker's runtime)
    with this OCI runtime; a missing driver is not offered. oci: the OCI runtime. hugetlb: whether the daemon is
    configured to pass huge page limits on. is_rootless: whether an ordinary user runs it; own_user_namespace: whether
    each container then has a user namespace of its own.
    """

    name: str
    socket: str
    handlers: Mapping[CgroupDriver, str]
    oci: OciProgram
    hugetlb: bool = True
    docker_sockets: Mapping[CgroupDriver, str] = field(default_factory=dict)
    is_rootless: bool = False
    own_user_namespace: bool = True

    @property
    def is_direct(self) -> bool:
        """Whether there is no daemon between requests and the OCI runtime."""
        return not self.socket and not self.docker_sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a failure's evidence, by the names of the evidence files.

    commands: run on the target. files: files of this host, such as a console log; they may grow.
    """

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlace:
    """A place that was kept for the user. enter, end: the commands for it. document: its entry in a bundle."""

    name: str
    machine: str
    enter: str
    end: str
    document: Mapping[str, object]


@runtime_checkable
class Place(Protocol):
    """A machine with runtimes, until its context ends."""

    @property
    def target(self) -> Target:
        """The target to run commands on. A broken place raises its failure, a MachineryError."""
        ...

    @property
    def facts(self) -> TargetFacts:
        """The machine's facts when it was opened."""
        ...

    @property
    def sampler(self) -> Sampler:
        """The sampler that watches its cgroups."""
        ...

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """Its runtimes, by name."""
        ...

    def connect(
        self, runtime: str, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
    ) -> contextlib.AbstractContextManager[Runtime]:
        """Connect to one of its runtimes, under a cgroup driver, until the context ends.

        Raises UsageError for a runtime or a driver that it does not offer, MachineryError if nothing answers.
        """
        ...

    @property
    def is_disposable(self) -> bool:
        """Whether it is deleted at the end, so that an interrupt need not wait for any cleanup on it."""
        ...

    def check_alive(self) -> None:
        """Raise its first failure, a MachineryError, if it is known to be broken. Returns at once."""
        ...

    def examine(self, error: MachineryError) -> None:
        """Raise its failure if that is the cause of this error. Takes longer, and finds new failures."""
        ...

    @property
    def condition(self) -> PlaceState:
        """The known state of the place."""
        ...

    @property
    def spoilt(self) -> str:
        """The first reason why it is changed; "" without one."""
        ...

    def spoil(self, reason: str) -> None:
        """Mark it as changed, so that no other test uses it. A broken place keeps its first reason."""
        ...

    @property
    def origin(self) -> str:
        """The name of the image or checkpoint it was made from; "" for an existing machine."""
        ...

    def origin_is_whole(self) -> bool:
        """Whether that image or checkpoint is undamaged. May take seconds; called after a failure."""
        ...

    @property
    def evidence(self) -> Sources:
        """The sources of evidence about a failure on it."""
        ...

    def keep(self) -> KeptPlace:
        """Keep it for the user when the context ends. MachineryError if it was not opened as keepable."""
        ...

    @property
    def provenance(self) -> Mapping[str, object]:
        """Its description in a bundle, for people; memqos does not read it."""
        ...


def offered(place: Place, runtime: str, driver: CgroupDriver) -> OfferedRuntime:
    """A runtime of this place; UsageError, listing the existing ones, if it is not offered under this driver."""
    if runtime not in place.runtimes:
        raise UnknownNameError.of("runtime on the machine", runtime, sorted(place.runtimes), where="--runtime")
    found = place.runtimes[runtime]
    if driver not in found.handlers:
        known = " and ".join(found.handlers)
        raise UsageError(
            f"{runtime} of this machine does not run under the {driver} driver, only under {known}.",
            where="--driver",
            next_step=f"Give --driver {','.join(found.handlers)}, or configure the runtime for {driver}.",
        )
    return found


class Health:
    """The state of a place; the first failure and the first reason stay."""

    def __init__(self) -> None:
        self.spoilt = ""
        self._failure: MachineryError | None = None

    def fail(self, error: MachineryError) -> MachineryError:
        """Mark it as broken by this error, unless it already is; returns its failure."""
        self._failure = self._failure or error
        return self._failure

    def check(self) -> None:
        """Raise its failure."""
        if self._failure is not None:
            raise self._failure

    @property
    def condition(self) -> PlaceState:
        """The known state."""
        if self._failure is not None:
            return PlaceState.BROKEN
        return PlaceState.SPOILT if self.spoilt else PlaceState.SOUND

    def spoil(self, reason: str) -> None:
        """Mark it as changed."""
        if self.condition is PlaceState.SOUND:
            self.spoilt = reason
