"""The place for an existing machine: reached by a URL, used with its own runtimes, and restored at the end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError, TargetError
from memqos.model.node import CgroupDriver
from memqos.model.path import ROOT
from memqos.ownership import ProcessGroup
from memqos.place.base import Health, KeptPlace, OfferedRuntime, PlaceState, RequestRecorder, Sources, offered
from memqos.place.discovery import MACHINE_LOGS, discovered, runtime_connected, with_subgroup
from memqos.place.guard import guarded
from memqos.place.provisioning import (
    architecture_of,
    bring_images,
    bring_images_to_docker,
    bring_memwatch,
    bring_roots,
)
from memqos.probe.facts import TargetFacts, target_facts
from memqos.probe.sampler import MEMWATCH, GuestSampler, Sampler
from memqos.runtime.base import Runtime
from memqos.runtime.cri import connect
from memqos.target.base import Target, checked
from memqos.target.opening import opened_target
from memqos.target.ssh import SshTarget

__all__ = ["ExistingMachine", "opened_existing", "reached", "require_free", "require_rights"]

KUBELETS = ("kubelet", "kubelite", "k3s", "k0s", "rke2")
"""Prefixes of the names of programs that are or contain a kubelet."""

_LOOK = """\
id -u
for file in /proc/[0-9]*/comm; do read -r name <"$file" && echo "$name"; done 2>/dev/null
exit 0
"""

_SHOWN = 3


def require_rights(target: Target, *, deadline: Deadline) -> None:
    """Raise EnvironmentNotAbleError unless memqos is root there and no kubelet runs. Changes nothing."""
    user, *names = checked(target.run(["sh", "-c", _LOOK], deadline=deadline), where=target.address).text.split("\n")
    if user != "0":
        raise EnvironmentNotAbleError(
            "cgroups and runtimes require root.",
            where=target.address,
            next_step="Allow ssh as root, add ?sudo=true for a user with passwordless sudo, or run memqos as "
            "root for local://.",
        )
    if kubelets := sorted({name for name in names if name.startswith(KUBELETS)}):
        raise EnvironmentNotAbleError(
            f"a kubelet runs there ({', '.join(kubelets)}), and memqos would interfere with it.",
            where=target.address,
            next_step="Drain the node and stop it, or name a machine without one.",
        )


def require_free(target: Target, hierarchy: Hierarchy, offers: Iterable[OfferedRuntime], *, deadline: Deadline) -> None:
    """Raise EnvironmentNotAbleError if the machine has cgroups or sandboxes of other pods. Changes nothing."""
    names = target.list(hierarchy.folder(ROOT), deadline=deadline) or ()
    if found := [name for name in names if name.startswith(("kubepods", "kubelet"))]:
        raise EnvironmentNotAbleError(
            f"it has cgroups of a kubelet: {', '.join(found)}.",
            where=target.address,
            next_step="Remove the kubelet's leftovers (kubeadm reset), or name a machine that never had one.",
        )
    for socket in sorted({offer.socket for offer in offers} - {""}):
        with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
            if others := runtime.foreign_sandboxes(deadline=deadline):
                more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
                raise EnvironmentNotAbleError(
                    f"{socket} has pods that memqos did not create: {', '.join(others[:_SHOWN])}{more}.",
                    where=target.address,
                    next_step="Name a machine without pods.",
                )


CONNECT_SECONDS = 60.0
LOOK_SECONDS = 60.0
USE_SECONDS = 300.0
PING_SECONDS = 20.0


class ExistingMachine:
    """An existing machine as a place; see the port. Made by `opened_existing`."""

    def __init__(
        self,
        target: Target,
        health: Health,
        *,
        facts: TargetFacts,
        runtimes: Mapping[str, OfferedRuntime],
    ) -> None:
        self._target = target
        self._health = health
        self._facts = facts
        self._runtimes = dict(runtimes)
        self._memwatch = MEMWATCH

    @property
    def target(self) -> Target:
        """The machine."""
        self._health.check()
        return self._target

    @property
    def facts(self) -> TargetFacts:
        """Its facts when it was opened."""
        return self._facts

    @property
    def sampler(self) -> Sampler:
        """memwatch: part of memqos's images, and installed on other machines while they are in use."""
        return GuestSampler(self.target, self._facts.hierarchy, program=self._memwatch)

    @contextlib.contextmanager
    def used(self, runtime: str, driver: CgroupDriver) -> Iterator[None]:
        """Prepare it for memqos's pods, under guard: nothing of them is left on it when the context ends.

        Raises UsageError for a runtime or driver that it does not offer. Raises EnvironmentNotAbleError, before any
        change, if this installation has no programs for its CPU, and if it is not free: it runs a kubelet, has pods
        that memqos did not create, or is used by another run.
        """
        offer, target = offered(self, runtime, driver), self.target
        deadline = Deadline.after(USE_SECONDS)
        require_rights(target, deadline=deadline)
        architecture = architecture_of(target, deadline=deadline)
        with guarded(
            target,
            socket=offer.socket,
            engine=offer.docker_sockets.get(driver, ""),
            bundles=offer.is_direct,
            hierarchy=self._facts.hierarchy,
            is_lost=lambda: not self.condition.is_usable,
        ) as guard:
            require_free(target, self._facts.hierarchy, self._runtimes.values(), deadline=deadline)
            if offer.docker_sockets:
                bring_images_to_docker(target, offer, driver, architecture, deadline=deadline)
            elif offer.socket:
                bring_images(target, offer, guard, architecture, deadline=deadline)
            else:
                bring_roots(target, architecture, deadline=deadline)
                oci = with_subgroup(target, offer.oci, deadline=deadline)
                self._runtimes[runtime] = replace(offer, oci=oci)
            self._memwatch = bring_memwatch(target, architecture, deadline=deadline)
            yield

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """The runtimes that answered on the usual sockets, and the requested ones without a server."""
        return self._runtimes

    def connect(
        self, runtime: str, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
    ) -> contextlib.AbstractContextManager[Runtime]:
        """Connect to one of its runtimes: over a forwarded socket, or by the runtime's own commands."""
        return runtime_connected(self.target, offered(self, runtime, driver), driver, record=record, deadline=deadline)

    @property
    def is_disposable(self) -> bool:
        """False: memqos cleans it up, after an interrupt too."""
        return False

    def check_alive(self) -> None:
        """Raise its failure; a lost connection is one."""
        self._health.check()
        if isinstance(self._target, SshTarget) and not self._target.is_connected():
            raise self._health.fail(_lost(self._target, "it was in use"))

    def examine(self, error: MachineryError) -> None:
        """Raise its failure if it cannot run `true`."""
        self.check_alive()
        try:
            self._target.run(["true"], deadline=Deadline.after(PING_SECONDS))
        except MachineryError as late:
            raise self._health.fail(late) from error

    @property
    def condition(self) -> PlaceState:
        """The state recorded by `health`."""
        return self._health.condition

    @property
    def spoilt(self) -> str:
        """The reason recorded by `health`."""
        return self._health.spoilt

    def spoil(self, reason: str) -> None:
        """Remember the first reason."""
        self._health.spoil(reason)

    @property
    def origin(self) -> str:
        """Empty: it was not made from an image."""
        return ""

    def origin_is_whole(self) -> bool:
        """True: it was not made from an image."""
        return True

    @property
    def evidence(self) -> Sources:
        """The evidence that it provides about itself."""
        return Sources(commands=MACHINE_LOGS)

    def keep(self) -> KeptPlace:
        """MachineryError: it stays anyway, without memqos's pods."""
        raise MachineryError("an existing machine is not kept.", where=self._target.address)

    @property
    def provenance(self) -> Mapping[str, object]:
        """Its address."""
        return {"target": self._target.address}


def _lost(target: Target, doing: str) -> TargetError:
    return TargetError(
        f"the connection was lost while {doing}.",
        where=target.address,
        next_step="Check whether the machine is still up.",
    )


@contextlib.contextmanager
def opened_existing(
    url: str, *, cri_socket: str = "", engine: bool = False, direct: Sequence[str] = ()
) -> Iterator[ExistingMachine]:
    """Connect to a machine and read its facts and runtimes, without changing it; the connection ends with the context.

    cri_socket: a socket to try before the usual ones, "" for none. engine: whether to look for the Docker Engine too.
    direct: OCI runtimes in the machine's PATH to use without a server.

    Raises UsageError for an invalid URL, TargetError if it cannot be reached, EnvironmentNotAbleError if it has no
    container runtime or no memory controller.
    """
    health = Health()
    with reached(url, health) as target:
        facts = target_facts(target, deadline=Deadline.after(LOOK_SECONDS))
        runtimes = discovered(
            target, first=cri_socket, engine=engine, direct=direct, deadline=Deadline.after(LOOK_SECONDS)
        )
        yield ExistingMachine(target, health, facts=facts, runtimes=runtimes)


@contextlib.contextmanager
def reached(url: str, health: Health) -> Iterator[Target]:
    """Connect to the machine until the context ends; a lost connection is its failure.

    Raises UsageError for an invalid URL, TargetError if it cannot be reached.
    """
    found: list[Target] = []

    def diagnose(doing: str, *, lost: bool) -> MachineryError | None:
        return health.fail(_lost(found[0], doing)) if lost and found else None

    with (
        _own_folder() as folder,
        ProcessGroup(folders=(folder,)) as group,
        opened_target(
            url, start=group.start, folder=folder, deadline=Deadline.after(CONNECT_SECONDS), diagnose=diagnose
        ) as target,
    ):
        found.append(target)
        yield target


@contextlib.contextmanager
def _own_folder() -> Iterator[Path]:
    """A private folder below /tmp for sockets, whose paths must be short; ignores TMPDIR."""
    with tempfile.TemporaryDirectory(prefix=f"memqos-{os.getpid()}-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
