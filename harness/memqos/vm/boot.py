"""The one entry point for a machine: `boot` makes what is missing, starts it, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import MachineryError, NoSpaceError, UsageError
from memqos.model.topology import Topology
from memqos.target.base import checked
from memqos.vm.accelerator import choose_accelerator
from memqos.vm.cache import Cache
from memqos.vm.checkpoint import Checkpoint
from memqos.vm.checkpointing import Making, discard_checkpoint, ensure_checkpoint
from memqos.vm.image import ensure_image
from memqos.vm.keys import client_key
from memqos.vm.launch import Ingredients, launch
from memqos.vm.machine import Machine
from memqos.vm.profile import Profile
from memqos.vm.programs import find_qemu
from memqos.vm.progress import SILENT, Progress, step
from memqos.vm.restore import restored
from memqos.vm.spec import Accelerator

__all__ = ["BootOptions", "boot", "check_runtime_binary"]

BOOT_SECONDS = 180
"""From QEMU's start to all units being up; a busy host under software emulation takes a good part of it."""

RESTORE_SECONDS = 60
"""From QEMU's start to a clone that answers; a second on a host that is not busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOptions:
    """What a person may put into a machine.

    runtime_binary: a file of theirs that takes the OCI runtime's place; None leaves the image's own.
    runtime_name: which runtime it replaces. The image's own stays beside it as NAME.dist.
    checkpoint: restore the machine from a checkpoint, which is made if there is none; otherwise boot it.
    """

    runtime_binary: Path | None = None
    runtime_name: str = "runc"
    checkpoint: bool = True


@contextlib.contextmanager
def boot(
    profile: Profile,
    topology: Topology,
    *,
    image_cache: Cache,
    log_dir: Path,
    options: BootOptions | None = None,
    progress: Progress = SILENT,
) -> Iterator[Machine]:
    """A ready, pristine machine of this profile and topology; QEMU and its files are gone when the context ends.

    It is restored from a checkpoint, which is made first if the cache has none, unless the options say otherwise.

    log_dir: receives serial.log (the console) and qemu.log; made if it is not there.

    Raises UsageError for a runtime binary that cannot be one, EnvironmentNotAbleError for what the host lacks, and
    MachineryError for what failed.
    """
    options = options or BootOptions()
    program = check_runtime_binary(options.runtime_binary) if options.runtime_binary else None
    qemu = find_qemu()
    image = ensure_image(profile, image_cache, progress=progress)
    choice = choose_accelerator(qemu, image.kernel, cache=image_cache)
    if choice.accelerator is Accelerator.TCG:
        progress.note(choice.reason)
    make_log_dir(log_dir)
    ingredients = Ingredients(
        name=f"{profile.name}-{topology.name}",
        qemu=qemu,
        accelerator=choice.accelerator,
        topology=topology,
        kernel=image.kernel,
        initrd=image.initrd,
        kernel_arguments=profile.kernel_arguments,
        disk=image.disk,
        identity=client_key(image_cache, progress=progress),
        known_hosts=image.known_hosts,
        log_dir=log_dir.absolute(),
    )

    def prepare(machine: Machine) -> None:
        machine.provenance |= {"image": image.name, "versions": image.versions}
        if program is not None:
            replace_runtime(machine, options.runtime_name, program)

    making = Making(
        ingredients=ingredients,
        image=image,
        contents=contents(options.runtime_name, program),
        prepare=prepare,
        boot_seconds=BOOT_SECONDS,
    )
    with contextlib.ExitStack() as stack:
        machine = _restore(stack, making, image_cache, progress) if options.checkpoint else None
        if machine is None:
            with step(progress, f"boot {ingredients.name}"):
                launched = launch(ingredients, cache=image_cache, deadline=Deadline.after(BOOT_SECONDS))
                machine = stack.enter_context(launched)
                prepare(machine)
        machine.profile, machine.image = profile, image
        yield machine


def contents(runtime_name: str, program: bytes | None) -> dict[str, object]:
    """What a person puts into a machine, with hashes of files: what makes its checkpoint another one."""
    return {} if program is None else {f"runtime {runtime_name}": hashlib.sha256(program).hexdigest()}


def _restore(stack: contextlib.ExitStack, making: Making, cache: Cache, progress: Progress) -> Machine | None:
    """A machine restored from its checkpoint, entered on the stack; None, with a reason told, if there is no room.

    A checkpoint that no machine comes of is made again, once.
    """

    def attempt(checkpoint: Checkpoint) -> Machine:
        deadline = Deadline.after(RESTORE_SECONDS)
        return stack.enter_context(restored(making.ingredients, checkpoint, cache=cache, deadline=deadline))

    try:
        checkpoint = ensure_checkpoint(making, cache, progress=progress)
    except NoSpaceError as error:
        progress.note(f"There is no room for a checkpoint, so the machine is booted: {error.what}")
        return None
    try:
        return attempt(checkpoint)
    except MachineryError as error:
        progress.note(f"the checkpoint '{checkpoint.name}' gives no machine, and is made again: {error.what}")
        discard_checkpoint(checkpoint, cache, progress=progress)
    return attempt(ensure_checkpoint(making, cache, progress=progress))


def make_log_dir(log_dir: Path) -> None:
    """Make the folder for the machine's logs; raises UsageError if it cannot be made."""
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder for logs cannot be made: {error.strerror}.", where=str(log_dir)) from error


def check_runtime_binary(path: Path) -> bytes:
    """The file's content; raises UsageError, naming the option, unless it is a regular file that may be executed."""
    where = "--runtime-binary"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"'{path}' is not a file.", where=where, next_step="Name the runtime's program itself.")
        if not os.access(path, os.X_OK):
            raise UsageError(f"'{path}' is not executable.", where=where, next_step=f"chmod +x '{path}'")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.", where=where) from error


def replace_runtime(machine: Machine, name: str, program: bytes) -> None:
    """Put a program in the place of an OCI runtime; the image's own stays beside it as NAME.dist."""
    target, deadline = machine.target, Deadline.after(60)
    found = target.run(["sh", "-c", 'command -v "$1"', "sh", name], deadline=deadline)
    if found.status != 0:
        raise UsageError(f"the machine has no OCI runtime '{name}'.", where="--runtime-binary")
    place = found.text.strip()
    checked(target.run(["mv", place, f"{place}.dist"], deadline=deadline), where=target.address)
    target.write(place, program, deadline=deadline, mode=0o755)
    machine.provenance["runtime_binary"] = {
        "runtime": name,
        "path": place,
        "sha256": hashlib.sha256(program).hexdigest(),
        "bytes": len(program),
    }
