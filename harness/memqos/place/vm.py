"""The place for a virtual machine of a profile: booted or restored when opened, and removed at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.cgroupfs.hierarchy import Unified
from memqos.clock import Deadline
from memqos.engine.translate.versions import OCI_RUNTIMES
from memqos.errors import MachineryError, UnfitFileError
from memqos.model.node import CgroupDriver
from memqos.place.base import (
    KeptPlace,
    OciProgram,
    OfferedRuntime,
    PlaceKey,
    PlaceState,
    RequestRecorder,
    Sources,
    offered,
)
from memqos.place.discovery import (
    CONTAINERD_SOCKET,
    MACHINE_LOGS,
    oci_program,
    runtime_connected,
    served_at,
    with_subgroup,
)
from memqos.place.provisioning import bring_images_served
from memqos.place.rootless import rootless_connected
from memqos.probe.facts import TargetFacts, target_facts
from memqos.probe.sampler import MEMWATCH, GuestSampler, Sampler
from memqos.runtime.base import Runtime
from memqos.target.base import Target, checked
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.guest.installing import program_place
from memqos.vm.host.progress import Progress
from memqos.vm.kept import keep
from memqos.vm.options import BootOptions
from memqos.vm.qemu.machine import Machine, MachineState

__all__ = ["ProfileRuntimes", "VmPlace", "opened_vm"]

FACTS_SECONDS = 60.0

SERVER_SECONDS = 120.0
"""Seconds for the user's own CRI server to report its runtimes, and to accept images."""

DOCKER = "docker"
"""The addition to a profile with the Docker Engine (vm/additions), and its unit for each cgroup driver."""

DOCKER_SOCKETS = "/run/memqos-docker/"
"""The folder of its sockets, one for each cgroup driver."""

PODMAN = "podman"
"""The addition with Podman, and its unit for each cgroup driver."""

PODMAN_SOCKETS = "/run/memqos-podman/"
"""The folder of its service's sockets, one for each cgroup driver."""

GVISOR = "runsc"
"""The addition with gVisor's runsc; the same name as the program."""


class ProfileRuntimes:
    """The runtimes of a profile's machine, and those that the user brought into it."""

    def __init__(
        self,
        machine: Machine,
        served: Mapping[str, OfferedRuntime] | None = None,
        *,
        others: Mapping[str, OciProgram] | None = None,
        own_user_namespace: bool = True,
    ) -> None:
        """served: the runtimes of the user's own server; they override the image's own of the same name.

        others: further OCI runtimes, by the names under which they are requested. own_user_namespace: of rootless
        ones, as of `OfferedRuntime`.
        """
        self._own_user_namespace = own_user_namespace
        self._machine = machine
        self._served = served or {}
        self._others = others or {}

    def offered(self) -> Mapping[str, OfferedRuntime]:
        """Containerd over each OCI runtime, with a handler for each (vm/guest), and each alone.

        Docker and Podman over each, and runsc alone, if the image has them; each run by an ordinary user.
        """
        ways = [self._over_containerd, self._directly, self._rootless]
        if self._has(DOCKER):
            ways.append(self._below_docker)
        if self._has(PODMAN):
            ways.append(self._below_podman)
        offers = [offer(name) for offer in ways for name in dict.fromkeys([*map(str, OCI_RUNTIMES), *self._others])]
        offers += [self._directly(GVISOR)] if self._has(GVISOR) else []
        return {offer.name: offer for offer in (*offers, *map(self._with_brought, self._served.values()))}

    def _with_brought(self, offer: OfferedRuntime) -> OfferedRuntime:
        """The OCI runtime, or the user's file that replaces it."""
        brought = self._machine.contents.brought
        return dataclasses.replace(offer, oci=self._program(offer.oci.name)) if offer.oci.name in brought else offer

    def _has(self, addition: str) -> bool:
        profile = self._machine.profile
        return profile is not None and addition in profile.additions

    def _program(self, name: str) -> OciProgram:
        contents = self._machine.contents
        if name in self._others:
            return self._others[name]
        if (told := contents.brought.get(name)) is not None:
            return OciProgram(name=told.name or name, version=told.version, is_brought=True)
        return OciProgram(name=name, version=contents.versions.get(name, ""))

    def _directly(self, name: str) -> OfferedRuntime:
        handlers = dict.fromkeys(CgroupDriver, self._machine.contents.places.get(name, name))
        return OfferedRuntime(name=f"oci:{name}", socket="", handlers=handlers, oci=self._program(name))

    def _rootless(self, name: str) -> OfferedRuntime:
        return dataclasses.replace(
            self._directly(name),
            name=f"rootless:{name}",
            hugetlb=False,
            is_rootless=True,
            own_user_namespace=self._own_user_namespace,
        )

    def _over_containerd(self, name: str) -> OfferedRuntime:
        return OfferedRuntime(
            name=f"containerd+{name}",
            socket=CONTAINERD_SOCKET,
            handlers={CgroupDriver.SYSTEMD: name, CgroupDriver.CGROUPFS: f"{name}-cgroupfs"},
            oci=self._program(name),
            hugetlb=self._machine.contents.hugetlb,
        )

    def _below_docker(self, name: str) -> OfferedRuntime:
        return OfferedRuntime(
            name=f"docker+{name}",
            socket="",
            docker_sockets={driver: f"{DOCKER_SOCKETS}{driver}.sock" for driver in CgroupDriver},
            handlers=dict.fromkeys(CgroupDriver, name),
            oci=self._program(name),
            hugetlb=False,
        )

    def _below_podman(self, name: str) -> OfferedRuntime:
        offer = self._below_docker(name)
        sockets = {driver: f"{PODMAN_SOCKETS}{driver}-{name}.sock" for driver in CgroupDriver}
        return dataclasses.replace(offer, name=f"podman+{name}", docker_sockets=sockets)


class VmPlace:
    """A virtual machine as a place; see the port. Created by `opened_vm`, and by `disk_image.opened_image`."""

    def __init__(
        self,
        machine: Machine,
        facts: TargetFacts,
        runtimes: Callable[[], Mapping[str, OfferedRuntime]],
        *,
        memwatch: str = MEMWATCH,
    ) -> None:
        """runtimes: its current ones. memwatch: its path in the guest."""
        self._machine = machine
        self._facts = facts
        self._runtimes = runtimes
        self._memwatch = memwatch

    @property
    def machine(self) -> Machine:
        """The machine itself."""
        return self._machine

    @property
    def target(self) -> Target:
        """The guest."""
        return self._machine.target

    @property
    def facts(self) -> TargetFacts:
        """The guest's facts."""
        return self._facts

    @property
    def sampler(self) -> Sampler:
        """The memwatch of the image, or the one that memqos installed."""
        return GuestSampler(self.target, self._facts.hierarchy, program=self._memwatch)

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """The image's runtimes, and the user's."""
        return self._runtimes()

    def connect(
        self, runtime: str, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
    ) -> contextlib.AbstractContextManager[Runtime]:
        """Connect to a daemon with this OCI runtime, or to the OCI runtime itself.

        The Docker and the Podman of memqos's images start with the first test under a driver.
        """
        offer = offered(self, runtime, driver)
        cgroups = self._facts.hierarchy
        if offer.is_rootless and isinstance(cgroups, Unified):
            return rootless_connected(self.target, cgroups, offer, driver, record=record, deadline=deadline)
        if offer.docker_sockets.get(driver, "").startswith(PODMAN_SOCKETS):
            unit = f"memqos-podman@{driver}-{offer.handlers[driver]}.service"
            checked(self.target.run(["systemctl", "start", unit], deadline=deadline), where=self.target.address)
        if offer.docker_sockets.get(driver, "").startswith(DOCKER_SOCKETS):
            start = self.target.run(["systemctl", "start", f"memqos-docker@{driver}.service"], deadline=deadline)
            checked(start, where=self.target.address)
        return runtime_connected(self.target, offer, driver, record=record, deadline=deadline)

    @property
    def is_disposable(self) -> bool:
        """True: it is deleted at the end."""
        return True

    def check_alive(self) -> None:
        """Raise the machine's failure if QEMU or the guest is dead."""
        self._machine.check_alive()

    def examine(self, error: MachineryError) -> None:
        """Raise the machine's failure if it is dead, hangs, or its disk is full."""
        self._machine.examine(error)

    @property
    def condition(self) -> PlaceState:
        """The machine's state."""
        return {MachineState.READY: PlaceState.SOUND, MachineState.DIRTY: PlaceState.SPOILT}.get(
            self._machine.state, PlaceState.BROKEN
        )

    @property
    def spoilt(self) -> str:
        """The first change that was left in the guest."""
        return self._machine.dirty

    def spoil(self, reason: str) -> None:
        """Mark the machine as dirty."""
        if self.condition.is_usable:
            self._machine.mark_dirty(reason)

    @property
    def origin(self) -> str:
        """The name of its checkpoint, or of its image for one that booted."""
        image = self._machine.image
        return self._machine.checkpoint_name or (image.name if image else "")

    def origin_is_whole(self) -> bool:
        """Check checkpoint and image in full; a damaged one is discarded."""
        return self._machine.recheck()

    @property
    def evidence(self) -> Sources:
        """The guest's logs and its console."""
        return Sources(commands=MACHINE_LOGS, files=(self._machine.console.path,))

    def keep(self) -> KeptPlace:
        """Leave it running; MachineryError unless it was opened as keepable."""
        kept = keep(self._machine)
        return KeptPlace(
            name=kept.name,
            machine=kept.machine,
            enter=f"memqos vm shell {kept.name}",
            end=f"memqos vm rm {kept.name}",
            document=dataclasses.asdict(kept),
        )

    @property
    def provenance(self) -> Mapping[str, object]:
        """The files added to it, its image or checkpoint, and the durations."""
        image = self._machine.image
        return {**self._machine.provenance, **({"image_manifest": image.manifest} if image else {})}


@contextlib.contextmanager
def opened_vm(
    key: PlaceKey,
    options: BootOptions,
    *,
    folder: Path,
    progress: Progress,
    keepable: bool = False,
    cri_socket: str = "",
    handlers: Mapping[str, str] | None = None,
    others: Sequence[str] = (),
    additions: Sequence[str] = (),
    own_user_namespace: bool = True,
) -> Iterator[VmPlace]:
    """A machine of this profile and topology, as `memqos.vm.boot.boot` returns it, with logs in this folder.

    cri_socket: the socket of the user's own CRI server, "" for none; handlers: its requested handlers, by the names of
    the runtimes that they stand for. others: OCI runtimes of the run that no image has; UnfitFileError for one that the
    machine does not have. additions: additions to the profile's image (vm/additions). own_user_namespace: of rootless
    runtimes, as of `OfferedRuntime`.
    """
    profile, topology = key
    with boot(
        load_profile(profile, additions=additions),
        load_topology(topology),
        image_cache=default_cache(os.environ),
        log_dir=folder,
        options=options,
        progress=progress,
        keepable=keepable,
    ) as machine:
        target, served = machine.target, None
        if cri_socket:
            served = served_at(target, cri_socket, handlers=handlers or {}, deadline=Deadline.after(SERVER_SECONDS))
            bring_images_served(target, cri_socket, deadline=Deadline.after(SERVER_SECONDS))
        found = dict(_others(machine, dict.fromkeys([*others, *machine.contents.places])))
        facts = target_facts(target, deadline=Deadline.after(FACTS_SECONDS))
        runtimes = ProfileRuntimes(machine, served, others=found, own_user_namespace=own_user_namespace)
        yield VmPlace(machine, facts, runtimes.offered)


def _others(machine: Machine, asked: Iterable[str]) -> Iterator[tuple[str, OciProgram]]:
    """These OCI runtimes, which no image has or which replace an image's own, by name."""
    deadline = Deadline.after(FACTS_SECONDS)
    for name in asked:
        place = program_place(machine, name, deadline=deadline)
        if not place:
            raise UnfitFileError(
                f"the machine has no program '{name}'.",
                where="--runtime",
                next_step=f"Install it: --runtime-binary {name}=PATH, or --guest-file PATH:/usr/local/bin/{name}:755.",
            )
        told = machine.contents.brought.get(name)
        if told is None:
            found = oci_program(machine.target, name, place, deadline=deadline)
            found = dataclasses.replace(found, place=place)
        else:
            found = OciProgram(name=told.name or name, version=told.version, is_brought=True, place=place)
        yield name, with_subgroup(machine.target, found, deadline=Deadline.after(SERVER_SECONDS))
