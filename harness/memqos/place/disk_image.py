"""A machine from a distribution's own disk image as a place: booted when opened, and removed at the end.

Its kernel and runtimes are found as those of an existing machine are. memqos's programs and container images
are put into it before it is saved, so that each restored machine has them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memqos.catalog.topologies import load_topology
from memqos.clock import Deadline
from memqos.errors import UnfitFileError
from memqos.place.base import OfferedRuntime
from memqos.place.discovery import discovered, with_subgroup
from memqos.place.existing_machine import require_free, require_rights
from memqos.place.provisioning import (
    architecture_of,
    bring_images,
    bring_images_to_docker,
    bring_memwatch,
    bring_roots,
    memwatch_of,
)
from memqos.place.vm import VmPlace
from memqos.probe.facts import target_facts
from memqos.target.base import Target, checked
from memqos.vm.cache.store import default_cache
from memqos.vm.cloud.booting import Login, boot_image
from memqos.vm.cloud.disk_file import OPTION, DiskFile
from memqos.vm.host.progress import Progress
from memqos.vm.qemu.machine import Machine

__all__ = ["booted_image", "opened_image"]

LOOK_SECONDS = 120.0
BRING_SECONDS = 300.0

_SYSTEM = '. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME"; uname -r; systemctl --version 2>/dev/null | head -n 1'


@contextlib.contextmanager
def opened_image(
    booted: contextlib.AbstractContextManager[Machine],
    *,
    cri_socket: str = "",
    engine: bool = False,
    direct: Sequence[str] = (),
) -> Iterator[VmPlace]:
    """The place for this machine, created by `booted_image` with the same cri_socket, engine and direct."""
    with booted as machine:
        target = machine.target
        found = {offer.name: _ready(target, offer) for offer in _found(target, cri_socket, engine, direct).values()}
        yield VmPlace(
            machine,
            target_facts(target, deadline=Deadline.after(LOOK_SECONDS)),
            lambda: found,
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
    direct: Sequence[str] = (),
    keepable: bool = False,
    checkpoint: bool = True,
    temporary_logs: bool = False,
) -> contextlib.AbstractContextManager[Machine]:
    """The machine itself, with memqos's programs in it.

    cri_socket, engine, direct: as in `memqos.place.existing_machine.opened_existing`; the others as in `boot_image`.

    Raises what `boot_image` raises, and EnvironmentNotAbleError if the machine has no container runtime, runs a
    kubelet, or has no memory controller.
    """
    return boot_image(
        file,
        load_topology(topology),
        login,
        cache=default_cache(os.environ),
        log_dir=folder,
        prepare=lambda machine: _prepare(machine, _found(machine.target, cri_socket, engine, direct)),
        checkpoint=checkpoint,
        progress=progress,
        keepable=keepable,
        temporary_logs=temporary_logs,
    )


def _found(target: Target, cri_socket: str, engine: bool, direct: Sequence[str]) -> Mapping[str, OfferedRuntime]:
    deadline = Deadline.after(LOOK_SECONDS)
    return discovered(target, first=cri_socket, engine=engine, direct=direct, deadline=deadline)


def _ready(target: Target, offer: OfferedRuntime) -> OfferedRuntime:
    """The offer; for a runtime without a server, with its subgroup and the root file systems of the programs."""
    if not offer.is_direct:
        return offer
    deadline = Deadline.after(BRING_SECONDS)
    bring_roots(target, architecture_of(target, deadline=deadline), deadline=deadline)
    return replace(offer, oci=with_subgroup(target, offer.oci, deadline=deadline))


def require_python(target: Target, *, deadline: Deadline) -> None:
    """Raise UnfitFileError for a system without python3, which memqos needs in the kubelet's place."""
    told = target.run(["python3", "-c", "import json, subprocess, zlib"], deadline=deadline)
    if told.status != 0:
        raise UnfitFileError(
            f"the image's python3 does not run: {told.error_text.strip()[-300:] or 'it is missing'}",
            where=OPTION,
            next_step="Install python3 in the image.",
        )


def _prepare(machine: Machine, runtimes: Mapping[str, OfferedRuntime]) -> None:
    """Install memqos's programs and container images, and record the system's identity."""
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
        if offer.is_direct:
            bring_roots(target, architecture, deadline=deadline)
    bring_memwatch(target, architecture, deadline=deadline)
    told = checked(target.run(["sh", "-c", _SYSTEM], deadline=deadline), where=target.address).text.splitlines()
    name, kernel, systemd = (*told, "", "", "")[:3]
    machine.note({"system": name})
    versions = {"kernel": kernel, "systemd": systemd.removeprefix("systemd ").partition(" ")[0]}
    machine.contents.versions = {program: version for program, version in versions.items() if version}
