"""`memqos doctor`: whether this host can run memqos, and what to install if it cannot.

With --bench it also measures machines on this host: seconds from request to first answers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from memqos import frame
from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.cli.progress import shown_progress
from memqos.cli.settings import setting_options, settings_from
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.errors import EnvironmentNotAbleError, ExitCode
from memqos.model.topology import Topology
from memqos.ownership import temporary_folder
from memqos.runtime.base import ContainerSpec, SandboxSpec
from memqos.runtime.cri import CriRuntime, connect
from memqos.vm.architecture import AMD64, ARCHITECTURES, ARM64, PPC64LE, Architecture
from memqos.vm.boot import boot
from memqos.vm.cache.entry import list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.cloud.booting import find_uefi
from memqos.vm.host.capacity import capacity, read_host
from memqos.vm.host.programs import find_program, find_qemu, install_advice, need_namespaces, search_path
from memqos.vm.host.progress import SILENT, Progress, step
from memqos.vm.image.programs import find_compiler, prebuilt_architectures
from memqos.vm.image.recipe import BUILD_BYTES
from memqos.vm.options import BootOptions
from memqos.vm.profile import Profile
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import outliving_console
from memqos.vm.qemu.spec import Accelerator

__all__ = ["Bench", "command", "median"]

SOCKET = "/run/containerd/containerd.sock"
SECONDS = 120.0
PARENT = "/memqos-bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One machine's seconds from the start by milestone, in order, and the host's load."""

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
        with self.machine(checkpoint=False) as machine:
            ready = SYSTEM_CLOCK.now() - began
            with _runtime(machine):
                return Figures(seconds={"ready": ready, "first CRI answer": SYSTEM_CLOCK.now() - began})

    def restore(self, *, container: bool = True) -> Figures:
        """From the start of a restore to the guest running, its first command, CRI answer and container.

        "asked" is the whole call: it also finds QEMU and verifies image and checkpoint.
        """
        asked = SYSTEM_CLOCK.now()
        with self.machine(checkpoint=True) as machine:
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
    def machine(self, *, checkpoint: bool) -> Iterator[Machine]:
        """A machine, from a checkpoint or booted without one."""
        with (
            temporary_folder("memqos-bench-") as logs,
            outliving_console(logs),
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


RESTORES = 3
"""Restores for --bench, which reports their median."""

QEMU_BYTES = 512 << 20
"""Host memory that a machine takes on top of its own while it boots."""

CHECKPOINT_BYTES = 512 << 20
"""Size of a checkpoint of the default topology."""

GIB = 1 << 30
BOOTED = (AMD64, ARM64, PPC64LE)
"""The architectures of the machines that memqos boots: those of the profiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the diagnosis. A failed check says how to fix it; a passed check may give advice.

    slow: it passes, at a cost that `found` names.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""
    slow: bool = False


@setting_options(("profile", "topology"))
@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
@click.option(
    "--bench",
    is_flag=True,
    help="Also measure a boot, restores and a first container of the first profile; takes a minute.",
)
def command(as_json: bool, bench: bool, **given: Any) -> int:
    """Check whether this host can run memqos: programs, emulation, memory, disk. Exit code 6 if something is missing.

    Start with it on a new host. It only checks and installs nothing; from a checkout, `./memqos run` installs what it
    needs.

    \b
    Examples:
      memqos doctor             what is installed, what is missing, and how to get it
      memqos doctor --bench     how long machines of the first profile take here
    """
    settings = settings_from(given)
    profiles, topology = [load_profile(name) for name in settings.profile], load_topology(settings.topology)
    checks = list(diagnose(default_cache(os.environ), topology))
    able = is_able(checks)
    if not as_json:
        for check in checks:
            say(check_line(check))
    figures = measured(default_cache(os.environ), profiles[0], topology) if bench and able else {}
    if as_json:
        facts = {"able": able, "checks": [asdict(check) for check in checks]}
        click.echo(json.dumps({**facts, "bench": figures} if bench else facts, indent=2))
    else:
        for text in expectations(figures):
            say(text)
    return ExitCode.CONFORMS if able else ExitCode.ENVIRONMENT


def measured(cache: Cache, profile: Profile, topology: Topology) -> dict[str, float]:
    """Seconds by milestone: a boot, medians of the restores, the host's load at the end."""
    with shown_progress() as progress:
        bench = Bench(profile=profile, topology=topology, cache=cache, progress=progress)
        # The first restore may have to build the image and the checkpoint, so it is not measured.
        bench.restore(container=False)
        with step(progress, "boot without a checkpoint"):
            boot = bench.cold_boot().seconds["first CRI answer"]
        with step(progress, f"restore {RESTORES} times, and start a container each"):
            restores = [bench.restore() for _ in range(RESTORES)]
    found = {"boot": boot, **median(restores), "load": restores[-1].load}
    return {name: round(value, 2) for name, value in found.items()}


def expectations(figures: Mapping[str, float]) -> Iterator[str]:
    """What the figures mean for a run; empty without figures."""
    if not figures:
        return
    boot, restored = figures["boot"], figures["first command"]
    yield f"measured  boot to the runtime's first answer: {boot:.1f} s"
    yield (
        f"          restore to the guest running: {figures['running']:.2f} s, to its first command: {restored:.2f} s, "
        f"to the runtime's first answer: {figures['first CRI answer']:.2f} s"
    )
    yield f"          first container: {figures['first container']:.1f} s after the request for its machine"
    yield (
        f"expect    {boot + restored:.0f} s more in the first run, for the checkpoint, then {restored:.0f} s for each "
        f"new machine; measured under a load of {figures['load']:.1f}"
    )


def is_able(checks: list[Check]) -> bool:
    """Whether every check passed."""
    return all(check.ok for check in checks)


def check_line(check: Check) -> str:
    """A check as one line of text."""
    state = "missing" if not check.ok else "slow   " if check.slow else "ok     "
    fix = f"\n         {check.fix}" if check.fix else ""
    return f"{state}  {check.name}: {check.found}{fix}"


def diagnose(cache: Cache, topology: Topology) -> Iterator[Check]:
    """All checks, in the order in which a run needs what they check."""
    yield Check(name="Python", ok=True, found=f"{platform.python_version()} ({sys.executable})")
    yield check_processor(platform.machine(), compilers_found())
    yield program_check("QEMU", qemu_found)
    yield looked_at("KVM", lambda: check_acceleration(cache))
    for program in ("qemu-img", "mmdebstrap", "mke2fs", "unshare", "setpriv", "ssh"):
        yield program_check(program, functools.partial(program_found, program))
    yield program_check("programs", programs_found)
    if os.geteuid() != 0:
        yield program_check("newuidmap", functools.partial(program_found, "newuidmap"))
        yield program_check("user namespaces", namespaces_found)
    yield looked_at("disk", lambda: check_disk(cache))
    yield looked_at("memory", lambda: check_memory(topology))
    yield looked_at("cache", lambda: check_cache(cache))
    yield from check_other_architectures()
    yield check_uefi()


def check_processor(machine: str, others: Sequence[str]) -> Check:
    """Whether this host's CPU is that of the VMs. others: CPUs of --target machines for which it can compile."""
    also = f"; --target also for {', '.join(others)}" if others else f"; --target for {machine} alone"
    if machine == AMD64.machine:
        return Check(name="CPU", ok=True, found=f"{machine}{also}")
    native = next((one for one in BOOTED if one.machine == machine), None)
    if native is not None:
        fix = (
            f"Choose its machines with --arch {native.name}: images of amd64 are built on {AMD64.machine} hosts alone."
        )
        return Check(name="CPU", ok=True, found=f"{machine}{also}", fix=fix)
    known = [one.machine for one in BOOTED]
    return Check(
        name="CPU",
        ok=False,
        found=f"{machine}, but the machines that memqos boots are {', '.join(known)}",
        fix=f"Use a host with {' or '.join(known)}, or test an existing machine with --target.",
    )


def programs_found() -> str:
    """The origin of memqos's programs for its machines; raises MissingProgramError without one."""
    brought = [one.machine for one in prebuilt_architectures()]
    if AMD64.machine in brought:
        return f"memqos's own are compiled already for {', '.join(brought)}"
    return f"memqos's own are compiled with {find_compiler(AMD64).program}"


def check_other_architectures() -> Iterator[Check]:
    """Whether this host can also build and boot machines of other architectures; never required."""
    for one in BOOTED[1:]:
        if one.machine == platform.machine():
            continue
        try:
            qemu = find_qemu(one)
            if one not in prebuilt_architectures():
                find_compiler(one)
            find_program("depmod")
        except EnvironmentNotAbleError:
            compiler = () if one in prebuilt_architectures() else one.compiler_packages
            advice = install_advice([one.qemu_package, *compiler, "kmod"])
            found = f"not set up; only profiles for {one.name} need it. {advice}"
            yield Check(name=f"{one.machine} machines", ok=True, found=found)
        else:
            found = f"emulated by QEMU {qemu.version_text} ({qemu.program})"
            yield Check(name=f"{one.machine} machines", ok=True, found=found)


def check_uefi() -> Check:
    """Whether this host can boot disk images by UEFI; never required."""
    native = ARM64 if platform.machine() == ARM64.machine else AMD64
    try:
        found = f"{find_uefi(native).code}, for disk images (--image)"
    except EnvironmentNotAbleError as error:
        found = f"not set up; only disk images (--image) that boot by UEFI need it. {error.next_step}"
    return Check(name="UEFI", ok=True, found=found)


def compilers_found() -> tuple[str, ...]:
    """The other CPUs, as `uname -m` prints them, for which this installation has programs, or a cross compiler."""
    path, brought = search_path(os.environ), prebuilt_architectures()
    others = [one for one in ARCHITECTURES if one.machine != platform.machine()]
    return tuple(one.machine for one in others if one in brought or shutil.which(one.compiler, path=path))


def looked_at(name: str, check: Callable[[], Check]) -> Check:
    """A check that may raise: it then fails, and the other checks still run."""
    try:
        return check()
    except (EnvironmentNotAbleError, OSError) as error:
        refused = error if isinstance(error, EnvironmentNotAbleError) else frame.of_the_host(error)
        if refused is None:
            raise
        where = f"{refused.where}: " if refused.where else ""
        return Check(name=name, ok=False, found=f"{where}{refused.what}", fix=refused.next_step)


def namespaces_found() -> str:
    """A line if this user can build images; raises EnvironmentNotAbleError if not."""
    need_namespaces()
    return "this user can create one with subordinate ids, as image builds need it"


def program_check(name: str, find: Callable[[], str]) -> Check:
    """A required program; the function raises if it is missing."""
    try:
        return Check(name=name, ok=True, found=find())
    except EnvironmentNotAbleError as error:
        return Check(name=name, ok=False, found=error.what, fix=error.next_step)


def program_found(name: str) -> str:
    """A program's path."""
    return str(find_program(name))


def native_machines() -> Architecture:
    """The architecture of the machines that this host runs fastest: its own, if memqos boots such machines."""
    return next((one for one in BOOTED if one.machine == platform.machine()), AMD64)


def qemu_found() -> str:
    """QEMU's version and path."""
    qemu = find_qemu(native_machines())
    return f"{qemu.version_text} ({qemu.program})"


def check_acceleration(cache: Cache) -> Check:
    """The accelerator of machines: KVM, or software emulation, which is slower but works too."""

    def emulated(obstacle: str) -> Check:
        found = f"machines run under software emulation (TCG), ten to thirty times slower than with KVM: {obstacle}"
        return Check(name="acceleration", ok=True, slow=True, found=found)

    def perhaps(until: str) -> Check:
        return Check(name="acceleration", ok=True, found=f"the KVM device exists; {until}")

    if obstacle := kvm_device_obstacle():
        return emulated(obstacle)
    try:
        qemu = find_qemu(native_machines())
    except EnvironmentNotAbleError:
        return perhaps("without QEMU it cannot be tested with a guest")
    image = next((one for one in list_images(cache) if one.architecture == native_machines().name), None)
    if image is None:
        return perhaps("it is tested with a guest when the first image is built")
    choice = choose_accelerator(qemu, image.kernel, cache=cache, architecture=native_machines())
    if choice.accelerator is Accelerator.TCG:
        return emulated(choice.obstacle)
    return Check(name="acceleration", ok=True, found=choice.reason)


def check_disk(cache: Cache) -> Check:
    """Room for building an image."""
    root = next(folder for folder in (cache.root, *cache.root.parents) if folder.exists())
    free = shutil.disk_usage(root).free
    found = f"{free / GIB:.1f} GiB free in {root}, {BUILD_BYTES / GIB:.1f} GiB needed to build an image"
    fix = "" if free >= BUILD_BYTES else "Free some space, or set MEMQOS_CACHE to another folder."
    return Check(name="disk", ok=not fix, found=found, fix=fix)


def check_memory(topology: Topology) -> Check:
    """Memory for one machine of this topology, and how many machines fit."""
    host, needed = read_host(), topology.memory_bytes + QEMU_BYTES
    most = capacity(host, memory_bytes=topology.memory_bytes, checkpoint_bytes=CHECKPOINT_BYTES)
    found = (
        f"{host.available / GIB:.1f} GiB available, {needed / GIB:.1f} GiB needed to boot a machine; "
        f"{most.machines} at a time (-n): {most.reason}"
    )
    fix = "" if host.available >= needed else "Free some memory, or use a smaller topology (--topology)."
    return Check(name="memory", ok=not fix, found=found, fix=fix)


def check_cache(cache: Cache) -> Check:
    """Whether the cache is writable, and which images it has."""
    names = [image.name for image in list_images(cache)]
    images = ", ".join(names) or "no image yet: the first run builds one, which takes a minute or two"
    return Check(name="cache", ok=True, found=f"{cache.root}: {images}")
