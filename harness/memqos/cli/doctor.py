"""`memqos doctor`: whether this host can run memqos, and what to install if it cannot."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from memqos import frame
from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.cli.measuring import Bench, median
from memqos.cli.progress import shown_progress
from memqos.cli.setting_options import setting_options, settings_from
from memqos.cli.terminal import say
from memqos.errors import EnvironmentNotAbleError, ExitCode
from memqos.model.topology import Topology
from memqos.place.bringing import COMPILERS
from memqos.vm.cache.entry import list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.host.capacity import capacity, read_host
from memqos.vm.host.programs import find_program, find_qemu, search_path
from memqos.vm.host.progress import step
from memqos.vm.image.recipe import BUILD_BYTES
from memqos.vm.image.unprivileged import need_namespaces
from memqos.vm.profile import Profile
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle
from memqos.vm.qemu.spec import Accelerator

__all__ = ["command"]

RESTORES = 3
"""Restores of which --bench reports the median."""

QEMU_BYTES = 512 << 20
"""Host memory that a machine takes on top of its own while it boots."""

CHECKPOINT_BYTES = 512 << 20
"""Size of a checkpoint of the default topology."""

GIB = 1 << 30
MACHINES_CPU = "x86_64"
"""What `uname -m` prints in the machines that memqos boots."""


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
    for program in ("qemu-img", "mmdebstrap", "mke2fs", "unshare", "setpriv", "gcc", "ssh"):
        yield program_check(program, functools.partial(program_found, program))
    if os.geteuid() != 0:
        yield program_check("newuidmap", functools.partial(program_found, "newuidmap"))
        yield program_check("user namespaces", namespaces_found)
    yield looked_at("disk", lambda: check_disk(cache))
    yield looked_at("memory", lambda: check_memory(topology))
    yield looked_at("cache", lambda: check_cache(cache))


def check_processor(machine: str, others: Sequence[str]) -> Check:
    """Whether this host's CPU is that of the VMs. others: CPUs of --target machines for which it can compile."""
    also = f"; --target also for {', '.join(others)}" if others else f"; --target for {machine} alone"
    if machine == MACHINES_CPU:
        return Check(name="CPU", ok=True, found=f"{machine}{also}")
    return Check(
        name="CPU",
        ok=False,
        found=f"{machine}, but the machines that memqos boots are {MACHINES_CPU}",
        fix=f"Use a host with {MACHINES_CPU}, or test an existing machine with --target.",
    )


def compilers_found() -> tuple[str, ...]:
    """The CPUs, as `uname -m` prints them, for which this host has a cross compiler."""
    path = search_path(os.environ)
    others = {machine: cross for machine, (_, cross) in COMPILERS.items() if machine != platform.machine()}
    return tuple(machine for machine, cross in others.items() if shutil.which(cross, path=path))


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


def qemu_found() -> str:
    """QEMU's version and path."""
    qemu = find_qemu()
    return f"{qemu.version_text} ({qemu.program})"


def check_acceleration(cache: Cache) -> Check:
    """What machines run on: KVM, or software emulation, which is slower and also works."""

    def emulated(obstacle: str) -> Check:
        found = f"machines run under software emulation (TCG), ten to thirty times slower than with KVM: {obstacle}"
        return Check(name="acceleration", ok=True, slow=True, found=found)

    def perhaps(until: str) -> Check:
        return Check(name="acceleration", ok=True, found=f"the KVM device exists; {until}")

    if obstacle := kvm_device_obstacle():
        return emulated(obstacle)
    try:
        qemu = find_qemu()
    except EnvironmentNotAbleError:
        return perhaps("without QEMU it cannot be tested with a guest")
    image = next(iter(list_images(cache)), None)
    if image is None:
        return perhaps("it is tested with a guest when the first image is built")
    choice = choose_accelerator(qemu, image.kernel, cache=cache)
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
