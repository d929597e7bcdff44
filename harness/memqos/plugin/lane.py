"""A lane: what one pytest worker runs its memqos tests on, one machine after another, each restored when needed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.errors import MachineryError, MemqosError
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.traits import RuntimeTraits
from memqos.node.traits import traits_of
from memqos.node.under_test import NodeUnderTest
from memqos.plugin.evidence import Folder, MachineLog, capture
from memqos.plugin.keys import FAILED, RESULTS, SETTINGS_KEY, worker_id
from memqos.plugin.telling import Telling
from memqos.probe.facts import TargetFacts, target_facts
from memqos.runtime.cri import CriRuntime, connect
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.host.ownership import end_with_parent
from memqos.vm.kept import keep
from memqos.vm.options import boot_options
from memqos.vm.qemu.machine import Machine

__all__ = ["Lane", "Station", "open_station"]

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
FIRST_WORD_SECONDS = 60.0

_MACHINES = pytest.StashKey[int]()
_KEPT = pytest.StashKey[bool]()
"""Whether this worker has kept a machine already."""


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
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(
            boot(
                load_profile(profile),
                load_topology(topology),
                image_cache=default_cache(os.environ),
                log_dir=folder.path,
                options=boot_options(settings.plain),
                progress=telling,
                keepable=settings.keep_vm,
            )
        )
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
            examine=machine.examine,
            leaves=lambda: _leaves(config, machine),
        )
        key = (profile, topology)
        station = Station(id=machine_id, key=key, machine=machine, node=node, log=log, folder=folder)
        folder.write("machine.json", _provenance(station, runtime, profile, topology))
        telling.line(f"{machine_id}: {profile}/{topology} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
        yield station


class Lane:
    """The machines of one worker, by profile and topology; a context manager.

    One stays open from one module to the next, for as long as modules leave it as they found it. What cannot be opened
    is not tried again: its first failure is repeated.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = contextlib.ExitStack()
        self._open: tuple[tuple[str, str], Station] | None = None
        self._failures: dict[tuple[str, str], MemqosError] = {}
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

    def _why_not_again(self, station: Station) -> str:
        """Why no further module may use a machine, "" if it is as it was when it was restored."""
        machine = station.machine
        if not machine.state.is_usable:
            return f"it is {machine.state}"
        if _is_for_keeps(self._config):
            return "it is kept, because a test failed on it"
        try:
            left = station.node.leftovers()
        except MachineryError as error:
            return error.what.splitlines()[0]
        if left:
            machine.mark_dirty(f"cgroups were left on it: {', '.join(left)}")
        return str(machine.provenance.get("dirty", ""))

    def _enter(self, stack: contextlib.ExitStack, key: tuple[str, str]) -> Station:
        if key in self._failures:
            raise self._failures[key]
        try:
            return stack.enter_context(open_station(self._config, *key))
        except MemqosError as error:
            self._failures[key] = error
            raise

    def _close(self) -> None:
        self._open = None
        self._stack.close()


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
    # memqos's own configuration of containerd turns the hugetlb controller on (vm/guest).
    config = machine.provenance.get("containerd_config")
    hugetlb = config.get("hugetlb") is True if isinstance(config, dict) else True
    oci_version = _versions(machine).get(oci, "")
    return traits_of(cri=version.name, cri_version=version.version, oci=oci, oci_version=oci_version, hugetlb=hugetlb)


def _versions(machine: Machine) -> dict[str, str]:
    """Version by component, of what is in use in the machine."""
    versions = machine.provenance.get("versions")
    return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}


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
    own = runtime.name.rpartition("+")[2]
    replaced = " (a given file)" if "runtime_binary" in machine.provenance else ""
    oci = f"{own} {_versions(machine).get(own, '?')}{replaced}"
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


def _is_for_keeps(config: pytest.Config) -> bool:
    """Whether this worker's machine is to be left running: --keep-vm, a failure, and none kept before."""
    failed = config.stash.get(FAILED, False) and not config.stash.get(_KEPT, False)
    return config.stash[SETTINGS_KEY].keep_vm and failed


def _leaves(config: pytest.Config, machine: Machine) -> bool:
    """Whether a machine is left as it is, with the pods that were tested on it.

    It is if it will be kept and nothing else runs on it, and if it is broken: that was told where it broke, and what is
    tested next, on another machine, must not be told that tidying up failed.
    """
    return not machine.state.is_usable or (_is_for_keeps(config) and _is_last(config))


def _is_last(config: pytest.Config) -> bool:
    """Whether no further test will run, as after a failure under -x."""
    session: pytest.Session | None = config.pluginmanager.get_plugin("session")
    return session is not None and bool(session.shouldfail or session.shouldstop)


def _keep(config: pytest.Config, machine: Machine) -> None:
    """Leave the machine of a worker's first failure running, and say how it is entered and ended."""
    if not _is_for_keeps(config) or not machine.state.is_usable:
        return
    kept = keep(machine)
    config.stash[_KEPT] = True
    telling = Telling(config)
    telling.line(f"the machine is kept as {kept.name}; enter it with: {kept.shell}")
    telling.line(f"end it with: memqos vm rm {kept.name}")
