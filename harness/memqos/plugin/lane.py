"""A lane: what one pytest worker runs its memqos tests on, one machine after another, each booted when first needed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config import Settings
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.traits import RuntimeTraits
from memqos.node.traits import traits_of
from memqos.node.under_test import NodeUnderTest
from memqos.plugin.evidence import Folder, MachineLog, capture
from memqos.plugin.keys import FAILED, RESULTS, SETTINGS_KEY, worker_id
from memqos.plugin.telling import Telling
from memqos.probe.facts import TargetFacts, target_facts
from memqos.runtime.cri import CriRuntime, connect
from memqos.vm.boot import BootOptions, boot
from memqos.vm.cache import default_cache
from memqos.vm.launch import shell_arguments
from memqos.vm.machine import Machine

__all__ = ["Lane", "Station", "open_station"]

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
FIRST_WORD_SECONDS = 60.0

_MACHINES = pytest.StashKey[int]()


class Station:
    """A booted machine with its node, and where its evidence goes."""

    def __init__(self, *, id: str, machine: Machine, node: NodeUnderTest, log: MachineLog, folder: Folder) -> None:  # noqa: A002
        self.id = id
        self.machine = machine
        self.node = node
        self.log = log
        self.folder = folder

    def capture(self, folder: Path) -> None:
        """Gather what explains a failure in this folder."""
        console = self.machine.console.path
        capture(self.node.target, Folder(folder), used=self.log.current, serial_log=console)


@contextlib.contextmanager
def open_station(config: pytest.Config, profile: str, topology: str) -> Iterator[Station]:
    """Boot a machine, connect to its runtime, and learn what it has; all is gone when the context ends."""
    settings, telling = config.stash[SETTINGS_KEY], Telling(config)
    number = _next_number(config)
    machine_id = f"{worker_id(config)}-{number}"
    folder = Folder(config.stash[RESULTS] / "machines" / machine_id)
    began = SYSTEM_CLOCK.now()
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(
            boot(
                load_profile(profile),
                load_topology(topology),
                image_cache=default_cache(os.environ),
                log_dir=folder.path,
                options=BootOptions(runtime_binary=settings.runtime_binary, runtime_name=settings.word("runtime")),
                progress=telling,
            )
        )
        if settings.keep_vm:
            stack.callback(_keep, config, machine)
        log = MachineLog(folder)
        runtime = stack.enter_context(_connected(machine, settings, log))
        facts = target_facts(machine.target, deadline=Deadline.after(FIRST_WORD_SECONDS))
        amended = config.hook.pytest_memqos_node_facts(facts=facts.node, config=config)
        node = NodeUnderTest(
            target=machine.target,
            runtime=runtime,
            facts=facts if amended is None else _with_node(facts, amended),
            recorder=log,
            driver=CgroupDriver(settings.word("driver")),
            traits=_traits(machine, runtime),
            parallel=settings.parallel,
            disposable=True,
            check_alive=machine.check_alive,
        )
        station = Station(id=machine_id, machine=machine, node=node, log=log, folder=folder)
        folder.write("machine.json", _provenance(station, runtime, profile, topology))
        telling.line(f"{machine_id}: {profile}/{topology} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
        yield station


class Lane:
    """The stations of one worker, by profile and topology; at most one is open, since each takes its memory."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.station: Station | None = None

    @contextlib.contextmanager
    def opened(self, profile: str, topology: str) -> Iterator[Station]:
        """A station, known to the whole worker while it is open."""
        with open_station(self._config, profile, topology) as station:
            self.station = station
            try:
                yield station
            finally:
                self.station = None


def _connected(machine: Machine, settings: Settings, log: MachineLog) -> contextlib.AbstractContextManager[CriRuntime]:
    runtime = settings.word("runtime")
    handler = runtime if settings.word("driver") == CgroupDriver.SYSTEMD else f"{runtime}-cgroupfs"

    @contextlib.contextmanager
    def connected() -> Iterator[CriRuntime]:
        with (
            machine.target.forward(CONTAINERD_SOCKET) as socket,
            connect(
                socket,
                name=f"containerd+{runtime}",
                handler=handler,
                record=log.call,
                deadline=Deadline.after(FIRST_WORD_SECONDS),
            ) as cri,
        ):
            yield cri

    return connected()


def _traits(machine: Machine, runtime: CriRuntime) -> RuntimeTraits:
    version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
    oci = runtime.name.rpartition("+")[2]
    versions = machine.image.versions if machine.image else {}
    # memqos's own configuration of containerd turns the hugetlb controller on (vm/guest).
    return traits_of(
        cri=version.name, cri_version=version.version, oci=oci, oci_version=versions.get(oci, ""), hugetlb=True
    )


def _with_node(facts: TargetFacts, node: NodeFacts) -> TargetFacts:
    return dataclasses.replace(facts, node=node)


def _next_number(config: pytest.Config) -> int:
    number = config.stash.get(_MACHINES, 0)
    config.stash[_MACHINES] = number + 1
    return number


def _provenance(station: Station, runtime: CriRuntime, profile: str, topology: str) -> dict[str, Any]:
    """What a bundle says of a machine."""
    machine = station.machine
    version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
    versions: dict[str, str] = machine.image.versions if machine.image else {}
    replaced = machine.provenance.get("runtime_binary")
    own = runtime.name.rpartition("+")[2]
    oci = f"{own} replaced by a given file" if replaced else f"{own} {versions.get(own, '?')}"
    return {
        "id": station.id,
        "profile": profile,
        "topology": topology,
        "kernel": station.node.facts.kernel,
        "runtimes": [f"{version.name} {version.version}", oci],
        "cri": version.api_version,
        **{key: value for key, value in machine.provenance.items() if key not in {"topology"}},
        "image_manifest": machine.image.manifest if machine.image else {},
        "facts": station.node.facts,
    }


def _keep(config: pytest.Config, machine: Machine) -> None:
    """After a failure, hold the machine until return is pressed; without a terminal there is nobody to wait for."""
    if not config.stash.get(FAILED, False) or not sys.__stdin__ or not sys.__stdin__.isatty():
        return
    telling = Telling(config)
    telling.line(
        f"the machine is kept; enter it from another terminal with: {shlex.join(shell_arguments(machine.spec, ()))}"
    )
    telling.line("press return to end it")
    with telling.uncaptured():
        sys.__stdin__.readline()
