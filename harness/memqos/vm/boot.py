"""The entry point for a machine: `boot` creates what is missing, starts it, and removes it completely."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import DamagedOriginError, MachineryError, NoSpaceError, UsageError
from memqos.model.topology import Topology
from memqos.vm.architecture import PPC64LE
from memqos.vm.cache.entry import Image, recheck_image
from memqos.vm.cache.store import Cache, client_key
from memqos.vm.checkpoint import (
    Checkpoint,
    Making,
    discard_checkpoint,
    ensure_checkpoint,
    recheck_checkpoint,
    restored,
)
from memqos.vm.guest.installing import install, put_in
from memqos.vm.guest.sealed_runc import SEALED, seal_runc
from memqos.vm.guest.view import Declared, reserve_huge_pages, verify_guest
from memqos.vm.host.capacity import check_room
from memqos.vm.host.programs import find_qemu
from memqos.vm.host.progress import SILENT, Progress, step
from memqos.vm.image.derived import ensure_derived_image
from memqos.vm.image.making import ensure_image
from memqos.vm.options import BootOptions, Choices, check_options, kernel_words
from memqos.vm.profile import Profile
from memqos.vm.qemu.accelerator import choose_accelerator
from memqos.vm.qemu.launch import Ingredients, launch
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.spec import Accelerator

__all__ = ["boot", "make_log_dir", "rechecking", "restore_machine", "start_machine"]

BOOT_SECONDS = 300
"""From QEMU's start to all units being up: twenty seconds on an idle host, minutes on a busy one."""

VERIFY_SECONDS = 30

PSERIES_BLOCK = 256 << 20
"""What a NUMA node's memory is a multiple of on pseries (QEMU, hw/ppc/spapr.h, SPAPR_MEMORY_BLOCK_SIZE)."""

RESTORE_SECONDS = 60
"""From QEMU's start to a clone that answers; a second on a host that is not busy."""


@contextlib.contextmanager
def boot(
    profile: Profile,
    topology: Topology,
    *,
    image_cache: Cache,
    log_dir: Path,
    options: BootOptions | None = None,
    progress: Progress = SILENT,
    keepable: bool = False,
    temporary_logs: bool = False,
) -> Iterator[Machine]:
    """A ready, pristine machine of this profile and topology; QEMU and its files are gone when the context ends.

    It is restored from a checkpoint, which is created first if the cache has none, unless the options say otherwise.
    The user's programs and configuration are installed afterwards, so that a new build of a program costs no boot.

    log_dir: receives serial.log (the console) and qemu.log; created if missing. keepable: the machine may be left
    running at the end, with `memqos.vm.kept.keep`. temporary_logs: log_dir is removed if the process is killed, and
    with a machine that was kept; otherwise it stays.

    Raises UsageError for options that this machine cannot have, EnvironmentNotAbleError for what the host lacks, and
    MachineryError for other failures. A MachineryError in the context has checkpoint and image checked in full, and
    becomes a DamagedOriginError if one was damaged.
    """
    check_room(topology.name, topology.memory_bytes)
    choices = check_options(options or BootOptions(), (profile.architecture,))
    words = kernel_words(profile, choices.options)
    make_log_dir(log_dir)
    making = making_of(
        profile, topology, choices, words, cache=image_cache, progress=progress, log_dir=log_dir.absolute()
    )
    ingredients = replace(making.ingredients, keepable=keepable, temporary_logs=temporary_logs)
    making = replace(making, ingredients=ingredients)
    with contextlib.ExitStack() as stack:
        can_restore = choices.options.checkpoint and keeps_timers(ingredients, progress)
        machine = restore_machine(stack, making, image_cache, progress) if can_restore else None
        machine = machine or start_machine(stack, making, image_cache, progress)
        machine.recheck = _both(machine.recheck, making.image, image_cache, progress)
        machine.profile, machine.image = profile, making.image
        with rechecking(machine):
            put_in(machine, choices)
            yield machine


@contextlib.contextmanager
def rechecking(machine: Machine) -> Iterator[None]:
    """After a MachineryError the machine's origin is checked in full: DamagedOriginError if it was damaged."""
    try:
        yield
    except MachineryError as error:
        if machine.recheck():
            raise
        raise DamagedOriginError(error.what, where=error.where, next_step=error.next_step, data=error.data) from error


def _both(
    checkpoint_is_whole: Callable[[], bool], image: Image, cache: Cache, progress: Progress
) -> Callable[[], bool]:
    """Whether neither the checkpoint nor the image below it is damaged; each is checked and reported separately."""

    def recheck() -> bool:
        return all([checkpoint_is_whole(), recheck_image(image, cache, progress=progress)])

    return recheck


def making_of(
    profile: Profile,
    topology: Topology,
    choices: Choices,
    words: tuple[str, ...],
    *,
    cache: Cache,
    progress: Progress,
    log_dir: Path,
) -> Making:
    """The origin of the machine: finds or creates image and accelerator, and checks all options."""
    qemu = find_qemu(profile.architecture)
    image = ensure_image(profile, cache, progress=progress)
    choice = choose_accelerator(qemu, image.kernel, cache=cache, architecture=profile.architecture)
    if choice.accelerator is Accelerator.TCG:
        progress.note(choice.reason)
    if kernel_debs := choices.kernel_packages:
        image = ensure_derived_image(
            image, profile, kernel_debs, qemu=qemu, accelerator=choice.accelerator, cache=cache, progress=progress
        )
    check_topology(topology, image, choices, accelerator=choice.accelerator)
    ingredients = Ingredients(
        name=f"{profile.name}-{topology.name}",
        qemu=qemu,
        accelerator=choice.accelerator,
        topology=topology,
        kernel=choices.options.kernel_image or image.kernel,
        initrd=choices.options.initrd or image.initrd,
        kernel_arguments=words,
        disk=image.disk,
        identity=client_key(cache, progress=progress),
        known_hosts=image.known_hosts,
        log_dir=log_dir,
        architecture=profile.architecture,
    )

    # A brought program may be another runc, or only its file tells what it is: then it replaces nothing.
    is_sealed = choice.accelerator is Accelerator.TCG and not choices.fingerprint

    return Making(
        ingredients=ingredients,
        image=image,
        contents={"brought": choices.fingerprint, "sealed": SEALED if is_sealed else ""},
        prepare=functools.partial(_prepare, image=image, topology=topology, choices=choices, is_sealed=is_sealed),
        boot_seconds=BOOT_SECONDS,
    )


def _prepare(machine: Machine, *, image: Image, topology: Topology, choices: Choices, is_sealed: bool) -> None:
    """Check the started guest, and install what the user brings; is_sealed: also runc in a sealed copy."""
    machine.note({"image": image.name})
    machine.contents.versions = dict(image.versions)
    reserve_huge_pages(machine.target, topology, deadline=Deadline.after(VERIFY_SECONDS))
    verify_guest(machine.target, declared(topology, choices.options), deadline=Deadline.after(VERIFY_SECONDS))
    install(machine, choices)
    if is_sealed:
        machine.note({"runc": seal_runc(machine.target)})


def declared(topology: Topology, options: BootOptions) -> Declared:
    """The declared values that the guest's own view is compared with."""
    return Declared(topology=topology, cgroup=options.cgroup, recursiveprot=options.recursiveprot)


def start_machine(
    stack: contextlib.ExitStack, making: Making, cache: Cache, progress: Progress, *, seconds: float = BOOT_SECONDS
) -> Machine:
    """A machine that boots from its image within so many seconds, entered on the stack."""
    with step(progress, f"boot {making.ingredients.name}"):
        deadline = Deadline.after(seconds)
        machine = stack.enter_context(launch(making.ingredients, cache=cache, deadline=deadline, progress=progress))
        making.prepare(machine)
    return machine


def keeps_timers(ingredients: Ingredients, progress: Progress) -> bool:
    """Whether the timers of such a machine go on in a clone of its checkpoint; notes that they do not.

    QEMU 10.0 does not start the decrementers of an emulated pseries again: the time is right, but a CPU that was in
    its tick gets no further one, and the clone stands still sooner or later (the kernel's watchdog: hard lockup).
    """
    if ingredients.architecture is not PPC64LE or ingredients.accelerator is Accelerator.KVM:
        return True
    progress.note("each machine boots: QEMU restores no timers of an emulated ppc64le machine from a checkpoint.")
    return False


def restore_machine(stack: contextlib.ExitStack, making: Making, cache: Cache, progress: Progress) -> Machine | None:
    """A machine restored from its checkpoint, entered on the stack; None, after a note, if there is no room.

    A checkpoint that cannot be restored is created again, once.
    """

    def attempt(checkpoint: Checkpoint) -> Machine:
        deadline = Deadline.after(RESTORE_SECONDS)
        machine = stack.enter_context(restored(making.ingredients, checkpoint, cache=cache, deadline=deadline))
        machine.recheck = lambda: recheck_checkpoint(checkpoint, cache, progress=progress)
        return machine

    try:
        checkpoint = ensure_checkpoint(making, cache, progress=progress)
    except NoSpaceError as error:
        progress.note(f"No room for a checkpoint, so the machine boots without one: {error.what}")
        return None
    try:
        return attempt(checkpoint)
    except MachineryError as error:
        reason = error.what.splitlines()[0]
        progress.note(f"the checkpoint '{checkpoint.name}' cannot be restored and is rebuilt: {reason}")
        discard_checkpoint(checkpoint, cache, progress=progress)
    return attempt(ensure_checkpoint(making, cache, progress=progress))


def check_topology(topology: Topology, image: Image, choices: Choices, *, accelerator: Accelerator) -> None:
    """Raise UsageError for what QEMU here or this image's kernel cannot do.

    Nothing is known yet of a kernel that the user brings: the guest's own view decides then.
    """
    if accelerator is Accelerator.TCG and topology.layout.dies > 1:
        raise UsageError(
            f"the topology '{topology.name}' has {topology.layout.dies} dies per package, and under software emulation "
            "(TCG) QEMU does not report dies to the guest.",
            where="--topology",
            next_step="Count their cores as cores of the package; NUMA nodes and distances do not change.",
        )
    odd = [numa for numa in topology.numa_nodes if numa.memory_bytes % PSERIES_BLOCK]
    if image.architecture == PPC64LE.name and odd:
        raise UsageError(
            f"NUMA node {odd[0].id} of the topology '{topology.name}' has {odd[0].memory_bytes >> 20} MiB of memory, "
            f"but on {PPC64LE.name} it must be a multiple of {PSERIES_BLOCK >> 20} MiB.",
            where="--topology",
            next_step=f"Choose multiples of {PSERIES_BLOCK >> 20} MiB for its NUMA nodes.",
        )
    if topology.zswap and image.kernel_has("CONFIG_ZSWAP") is False and not choices.options.kernel_image:
        raise UsageError(
            f"the kernel {image.versions.get('kernel', '')} of '{image.profile}' has no zswap, "
            f"but the topology '{topology.name}' enables it.",
            where="--topology",
            next_step="Choose a profile whose kernel has it (Debian's from 7.2 on: trixie-bpo, forky, sid), or bring "
            "one with --kernel-deb, such as the suite's linux-image-amd64.",
        )


def make_log_dir(log_dir: Path) -> None:
    """Create the folder for the machine's logs; raises UsageError on failure."""
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder for logs cannot be created: {error.strerror}.", where=str(log_dir)) from error
