"""The place that is a machine from a distribution's own disk image: booted for the loan, and thrown away after it.

Its kernel and runtimes are found as those of an existing machine are. Programs and container images of ours are put
into it before it is saved, so that each restored machine has them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memqos.catalog.topologies import load_topology
from memqos.clock import Deadline
from memqos.errors import MachineryError, UnfitFileError
from memqos.model.node import CgroupDriver
from memqos.place.base import KeptPlace, OfferedRuntime, PlaceState, RequestRecorder, Sources, offered
from memqos.place.discovery import MACHINE_LOGS, discovered, runtime_connected
from memqos.place.existing_machine import require_free, require_rights
from memqos.place.provisioning import architecture_of, bring_images, bring_images_to_docker, bring_memwatch, memwatch_of
from memqos.probe.facts import TargetFacts, target_facts
from memqos.probe.sampler import GuestSampler, Sampler
from memqos.runtime.base import Runtime
from memqos.target.base import Target, checked
from memqos.vm.cache.store import default_cache
from memqos.vm.cloud.booting import Login, boot_image
from memqos.vm.cloud.disk_file import OPTION, DiskFile
from memqos.vm.host.progress import Progress
from memqos.vm.kept import keep
from memqos.vm.qemu.machine import Machine, MachineState

__all__ = ["DiskImagePlace", "booted_image", "opened_image"]

LOOK_SECONDS = 120.0
BRING_SECONDS = 300.0

_SYSTEM = '. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME"; uname -r; systemctl --version 2>/dev/null | head -n 1'


class DiskImagePlace:
    """A machine from an image of others as a place; see the port. Made by `opened_image`."""

    def __init__(
        self, machine: Machine, *, facts: TargetFacts, runtimes: Mapping[str, OfferedRuntime], memwatch: str
    ) -> None:
        self._machine = machine
        self._facts = facts
        self._runtimes = runtimes
        self._memwatch = memwatch

    @property
    def target(self) -> Target:
        """The guest."""
        return self._machine.target

    @property
    def facts(self) -> TargetFacts:
        """What the guest has."""
        return self._facts

    @property
    def sampler(self) -> Sampler:
        """memwatch, which it has from us."""
        return GuestSampler(self.target, self._facts.hierarchy, program=self._memwatch)

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """What answered on the usual sockets."""
        return self._runtimes

    def connect(
        self, runtime: str, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
    ) -> contextlib.AbstractContextManager[Runtime]:
        """Speak to one of its runtimes over its forwarded socket."""
        return runtime_connected(self.target, offered(self, runtime, driver), driver, record=record, deadline=deadline)

    @property
    def is_disposable(self) -> bool:
        """It is: nothing of it outlives the loan."""
        return True

    def check_alive(self) -> None:
        """Raise the machine's failure if QEMU or the guest is dead."""
        self._machine.check_alive()

    def examine(self, error: MachineryError) -> None:
        """Raise the machine's failure if it is dead, hangs, or its disk is full."""
        self._machine.examine(error)

    @property
    def condition(self) -> PlaceState:
        """As the machine's state has it."""
        return {MachineState.READY: PlaceState.SOUND, MachineState.DIRTY: PlaceState.SPOILT}.get(
            self._machine.state, PlaceState.BROKEN
        )

    @property
    def spoilt(self) -> str:
        """What was left behind in the guest."""
        return self._machine.dirty

    def spoil(self, reason: str) -> None:
        """The machine is dirty from now on."""
        if self.condition.is_usable:
            self._machine.mark_dirty(reason)

    @property
    def origin(self) -> str:
        """The name of its checkpoint; "" for one that booted."""
        return self._machine.checkpoint_name

    def origin_is_whole(self) -> bool:
        """Check the checkpoint in full; a damaged one is discarded."""
        return self._machine.recheck()

    @property
    def evidence(self) -> Sources:
        """What the guest says of itself, and its console."""
        return Sources(commands=MACHINE_LOGS, files=(self._machine.console.path,))

    def keep(self) -> KeptPlace:
        """Leave it running; only one that was opened as keepable."""
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
        """The image file, what the guest lacks of the topology, and what the machine was made of."""
        return self._machine.provenance


@contextlib.contextmanager
def opened_image(
    file: DiskFile,
    topology: str,
    login: Login,
    *,
    folder: Path,
    progress: Progress,
    cri_socket: str = "",
    engine: bool = False,
    keepable: bool = False,
    checkpoint: bool = True,
) -> Iterator[DiskImagePlace]:
    """A machine from this file on this topology, whose logs go to this folder; see `booted_image`."""
    with booted_image(
        file,
        topology,
        login,
        folder=folder,
        progress=progress,
        cri_socket=cri_socket,
        engine=engine,
        keepable=keepable,
        checkpoint=checkpoint,
    ) as machine:
        target = machine.target
        yield DiskImagePlace(
            machine,
            facts=target_facts(target, deadline=Deadline.after(LOOK_SECONDS)),
            runtimes=_found(target, cri_socket, engine=engine),
            memwatch=memwatch_of(target, deadline=Deadline.after(LOOK_SECONDS)),
        )


def booted_image(
    file: DiskFile,
    topology: str,
    login: Login,
    *,
    folder: Path,
    progress: Progress,
    cri_socket: str = "",
    engine: bool = False,
    keepable: bool = False,
    checkpoint: bool = True,
    temporary_logs: bool = False,
) -> contextlib.AbstractContextManager[Machine]:
    """The machine itself, with our programs in it.

    cri_socket, engine: as in `memqos.place.existing_machine.opened_there`; the others as in `boot_image`.

    Raises what `boot_image` raises, and EnvironmentNotAbleError if nothing in the machine runs containers, a kubelet
    runs there, or it has no memory controller.
    """
    return boot_image(
        file,
        load_topology(topology),
        login,
        cache=default_cache(os.environ),
        log_dir=folder,
        prepare=lambda machine: _prepare(machine, _found(machine.target, cri_socket, engine=engine)),
        checkpoint=checkpoint,
        progress=progress,
        keepable=keepable,
        temporary_logs=temporary_logs,
    )


def _found(target: Target, cri_socket: str, *, engine: bool) -> Mapping[str, OfferedRuntime]:
    return discovered(target, first=cri_socket, engine=engine, deadline=Deadline.after(LOOK_SECONDS))


def require_python(target: Target, *, deadline: Deadline) -> None:
    """Raise UnfitFileError for a system without python3, by which memqos acts in the kubelet's place."""
    told = target.run(["python3", "-c", "import json, subprocess, zlib"], deadline=deadline)
    if told.status != 0:
        raise UnfitFileError(
            f"the image's python3 does not run: {told.error_text.strip()[-300:] or 'it has none'}",
            where=OPTION,
            next_step="Put python3 into the image.",
        )


def _prepare(machine: Machine, runtimes: Mapping[str, OfferedRuntime]) -> None:
    """Put our programs and container images in, and note what the system is."""
    target, deadline = machine.target, Deadline.after(BRING_SECONDS)
    require_rights(target, deadline=deadline)
    require_python(target, deadline=deadline)
    facts = target_facts(target, deadline=deadline)
    require_free(target, facts.hierarchy, runtimes.values(), deadline=deadline)
    architecture = architecture_of(target, deadline=deadline)
    for offer in runtimes.values():
        for driver in offer.docker_sockets:
            bring_images_to_docker(target, offer, driver, architecture, deadline=deadline)
        if offer.socket:
            bring_images(target, offer, None, architecture, deadline=deadline)
    bring_memwatch(target, architecture, deadline=deadline)
    told = checked(target.run(["sh", "-c", _SYSTEM], deadline=deadline), where=target.address).text.splitlines()
    name, kernel, systemd = (*told, "", "", "")[:3]
    machine.note({"system": name})
    versions = {"kernel": kernel, "systemd": systemd.removeprefix("systemd ").partition(" ")[0]}
    machine.contents.versions = {program: version for program, version in versions.items() if version}
