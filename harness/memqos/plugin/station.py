"""A station: a machine of a run with its runtime and node, and where its evidence goes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.under_test import NodeUnderTest
from memqos.plugin.evidence import Folder, MachineLog, capture
from memqos.plugin.in_use import RuntimesInUse, runtimes_in_use
from memqos.plugin.keeping import keep_chosen, leaves, lingers
from memqos.plugin.keys import RESULTS, SETTINGS_KEY, worker_id
from memqos.plugin.telling import Telling
from memqos.probe.facts import TargetFacts, target_facts
from memqos.probe.sampler import GuestSampler
from memqos.repetition import Repetition
from memqos.runtime.cri import CriRuntime, connect
from memqos.vm.boot import boot
from memqos.vm.brought import Brought
from memqos.vm.cache.store import default_cache
from memqos.vm.options import boot_options, check_options
from memqos.vm.qemu.machine import Machine

__all__ = ["Station", "open_station"]

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
FIRST_WORD_SECONDS = 60.0

_MACHINES = pytest.StashKey[int]()
_BROUGHT = pytest.StashKey[tuple[Brought, ...]]()
_ROWS = pytest.StashKey[dict[tuple[str, str], Repetition]]()
"""Pods that failed in a row, by the sort of machine: a new one gets one attempt, and not all of them again."""


class Station:
    """A machine with its node, and where its evidence goes. key: the profile and topology that it is of."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the word that bundles use
        key: tuple[str, str],
        machine: Machine,
        node: NodeUnderTest,
        log: MachineLog,
        folder: Folder,
    ) -> None:
        self.id = id
        self.key = key
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
    """Get a machine, connect to its runtime, and learn what it has; all is gone when the context ends."""
    settings, telling = config.stash[SETTINGS_KEY], Telling(config)
    number = _next_number(config)
    machine_id = f"{worker_id(config)}-{number}"
    folder = Folder(config.stash[RESULTS] / "machines" / machine_id)
    began = SYSTEM_CLOCK.now()
    options = boot_options(settings.plain)
    _need_same_files(config, check_options(options).brought)
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(
            boot(
                load_profile(profile),
                load_topology(topology),
                image_cache=default_cache(os.environ),
                log_dir=folder.path,
                options=options,
                progress=telling,
                keepable=settings.keep_vm,
            )
        )
        stack.callback(keep_chosen, config, machine, folder)
        log = MachineLog(folder)
        runtime = stack.enter_context(_connected(machine, settings, log))
        version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
        in_use = runtimes_in_use(version, machine.provenance, settings)
        if in_use.doubt:
            telling.note(in_use.doubt)
        facts = target_facts(machine.target, deadline=Deadline.after(FIRST_WORD_SECONDS))
        amended = config.hook.pytest_memqos_node_facts(facts=facts.node, config=config)
        key = (profile, topology)
        node = NodeUnderTest(
            target=machine.target,
            runtime=runtime,
            sampler=GuestSampler(machine.target, facts.hierarchy),
            facts=facts if amended is None else _with_node(facts, amended),
            recorder=log,
            driver=CgroupDriver(settings.word("driver")),
            runtimes=in_use.runtimes,
            parallel=settings.parallel,
            disposable=True,
            check_alive=machine.check_alive,
            examine=machine.examine,
            leaves=lambda: leaves(config, machine),
            lingers=lambda: lingers(config),
            repetition=config.stash.setdefault(_ROWS, {}).setdefault(key, Repetition()),
        )
        station = Station(id=machine_id, key=key, machine=machine, node=node, log=log, folder=folder)
        folder.write("machine.json", _provenance(station, in_use, profile, topology))
        telling.line(f"{machine_id}: {profile}/{topology} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
        yield station


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


def _need_same_files(config: pytest.Config, brought: tuple[Brought, ...]) -> None:
    """Raise UsageError if a file is another one than in this worker's first machine: one run judges one build."""
    first = config.stash.setdefault(_BROUGHT, brought)
    for before, now in zip(first, brought, strict=True):
        if before.sha256 != now.sha256:
            raise UsageError(
                f"'{now.path}' is not what it was when the run began.",
                where=now.option,
                next_step="Run again, and build into another file while it runs.",
            )


def _with_node(facts: TargetFacts, node: NodeFacts) -> TargetFacts:
    return dataclasses.replace(facts, node=node)


def _next_number(config: pytest.Config) -> int:
    number = config.stash.get(_MACHINES, 0)
    config.stash[_MACHINES] = number + 1
    return number


def _provenance(station: Station, in_use: RuntimesInUse, profile: str, topology: str) -> dict[str, Any]:
    """What a bundle says of a machine."""
    machine = station.machine
    return {
        "id": station.id,
        "profile": profile,
        "topology": topology,
        "kernel": station.node.facts.kernel,
        "runtimes": in_use.shown,
        "cri": in_use.cri.api_version,
        **{key: value for key, value in machine.provenance.items() if key not in {"topology"}},
        "image_manifest": machine.image.manifest if machine.image else {},
        "facts": station.node.facts,
    }
