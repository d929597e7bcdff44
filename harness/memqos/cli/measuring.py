"""Measures machines on this host: seconds from request to first answers, and the memory that clones share."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.model.topology import Topology
from memqos.runtime.base import ContainerSpec, SandboxSpec
from memqos.runtime.cri import CriRuntime, connect
from memqos.vm.boot import boot
from memqos.vm.cache.store import Cache
from memqos.vm.host.progress import SILENT, Progress
from memqos.vm.options import BootOptions
from memqos.vm.profile import Profile
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.outliving import outliving_console

__all__ = ["Bench", "Figures", "clones_memory", "median"]

SOCKET = "/run/containerd/containerd.sock"
SECONDS = 120.0
PARENT = "/memqos-bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One machine's seconds from the beginning by milestone, in order, and the load."""

    seconds: Mapping[str, float]
    load: float = field(default_factory=lambda: os.getloadavg()[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Measures machines of one profile and topology."""

    profile: Profile
    topology: Topology
    cache: Cache
    progress: Progress = SILENT

    def cold_boot(self) -> Figures:
        """From QEMU's start to the runtime's first answer, without a checkpoint."""
        began = SYSTEM_CLOCK.now()
        with self._machine(checkpoint=False) as machine:
            ready = SYSTEM_CLOCK.now() - began
            with _runtime(machine):
                return Figures(seconds={"ready": ready, "first CRI answer": SYSTEM_CLOCK.now() - began})

    def restore(self, *, container: bool = True) -> Figures:
        """From the start of a restore to the guest running, its first command, CRI answer and container.

        "asked" is the whole call: it also finds QEMU and verifies image and checkpoint.
        """
        asked = SYSTEM_CLOCK.now()
        with self._machine(checkpoint=True) as machine:
            ready = SYSTEM_CLOCK.now()
            told: Any = machine.provenance["restore_seconds"]
            seconds = {"running": told["running"], "first command": told["answered"]}
            # The later milestones count from the moment at which `boot` returned the machine.
            with _runtime(machine) as runtime:
                seconds["first CRI answer"] = told["answered"] + SYSTEM_CLOCK.now() - ready
                if container:
                    _start_container(machine, runtime)
                    seconds["first container"] = told["answered"] + SYSTEM_CLOCK.now() - ready
            return Figures(seconds={**seconds, "asked": ready - asked})

    @contextlib.contextmanager
    def _machine(self, *, checkpoint: bool) -> Iterator[Machine]:
        with (
            tempfile.TemporaryDirectory(prefix="memqos-bench-") as logs,
            outliving_console(Path(logs)),
            boot(
                self.profile,
                self.topology,
                image_cache=self.cache,
                log_dir=Path(logs),
                options=BootOptions(checkpoint=checkpoint),
                progress=self.progress,
            ) as machine,
        ):
            yield machine

    def clones(self, count: int) -> Sequence[int]:
        """The host memory of `count` clones side by side, in bytes: see `clones_memory`."""
        with contextlib.ExitStack() as stack:
            machines = [stack.enter_context(self._machine(checkpoint=True)) for _ in range(count)]
            return clones_memory([machine.pid for machine in machines if machine.pid is not None])


def clones_memory(pids: Iterable[int]) -> Sequence[int]:
    """Anonymous memory of each process, then the file pages that all of them map, counted once; in bytes.

    The kernel's Pss divides shared memory by the number of processes that share it, so the sum over all is the whole.
    """
    own, files = [], 0
    for pid in pids:
        kib = dict(_rollup(Path(f"/proc/{pid}/smaps_rollup").read_text()))
        own.append(kib["Pss_Anon"] << 10)
        files += kib["Pss_File"] << 10
    return (*own, files)


def _rollup(text: str) -> Iterable[tuple[str, int]]:
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        yield name, int(rest.split()[0])


def median(figures: Sequence[Figures]) -> Mapping[str, float]:
    """The median of each milestone."""
    return {name: statistics.median(one.seconds[name] for one in figures) for name in figures[0].seconds}


@contextlib.contextmanager
def _runtime(machine: Machine) -> Iterator[CriRuntime]:
    deadline = Deadline.after(SECONDS)
    with machine.target.forward(SOCKET) as socket, connect(socket, name="containerd", deadline=deadline) as runtime:
        yield runtime


def _start_container(machine: Machine, runtime: CriRuntime) -> None:
    deadline = Deadline.after(SECONDS)
    machine.target.run(["mkdir", f"/sys/fs/cgroup{PARENT}"], deadline=deadline)
    sandbox = runtime.run_sandbox(
        SandboxSpec(
            name="bench",
            namespace="default",
            uid="bench",
            cgroup_parent=PARENT,
            log_directory="/var/log/pods/bench",
            handler="runc-cgroupfs",
        ),
        deadline=deadline,
    )
    spec = ContainerSpec(name="a", image="memqos.local/memload:1", args=("hold",))
    runtime.start(runtime.create(sandbox, spec, deadline=deadline), deadline=deadline)
