"""A checkpoint to a machine that answers over ssh: a clone, whose changes go nowhere but to layers of its own."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace

from memqos.clock import Deadline, utc_now
from memqos.target.base import Target, checked
from memqos.vm.cache.store import Cache
from memqos.vm.checkpoint.stored import Checkpoint
from memqos.vm.qemu.connection import connected
from memqos.vm.qemu.launch import QEMU_LOG, Ingredients, make_overlay, spec_of
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import Run, opened_run, started
from memqos.vm.qemu.spec import DiskFormat, MachineSpec, RamFiles, RamUse

__all__ = ["restored"]

RESUME_SECONDS = 20

WAKE = 'printf %s "$1" >/dev/urandom; exec date --utc --set="@$2"'
"""The guest's first command. Where the kernel knows no vmgenid, the clone gets at least this entropy of its own."""

CLOCK_SECONDS = 0.5
"""How wrong the guest's clock may be: no more than setting it took."""

CLOCK_TRIES = 3


@contextlib.contextmanager
def restored(
    ingredients: Ingredients, checkpoint: Checkpoint, *, cache: Cache, deadline: Deadline
) -> Iterator[Machine]:
    """A clone of a checkpoint's machine, ready, with the right time and entropy of its own; nothing is left of it.

    ingredients: those that the checkpoint was made of, but for where logs go. The machine's provenance says after how
    many seconds it was running, and had run its first command.

    Raises MachineryError, with what went wrong, if it does not come to answer.
    """
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(opened_run(cache, keepable=ingredients.keepable, doomed=ingredients.doomed))
        machine = stack.enter_context(_resumed(ingredients, checkpoint, run))
        seconds = {"running": round(deadline.elapsed, 3)}
        target = stack.enter_context(
            connected(
                machine, run, identity=ingredients.identity, known_hosts=ingredients.known_hosts, deadline=deadline
            )
        )
        _wake(machine, target, deadline)
        seconds["answered"] = round(deadline.elapsed, 3)
        machine.note({**checkpoint.provenance, "restore_seconds": seconds})
        machine.contents.versions = checkpoint.versions
        machine.checkpoint_name = checkpoint.name
        machine.ready(target)
        yield machine


@contextlib.contextmanager
def _resumed(ingredients: Ingredients, checkpoint: Checkpoint, run: Run) -> Iterator[Machine]:
    """A machine that goes on where the checkpoint stopped; its console's file begins with the boot's."""
    spec = _clone_spec(spec_of(ingredients, sockets=run.sockets, disks=run.disks), checkpoint)
    make_overlay(checkpoint.disk, spec.disk, base_format=DiskFormat.QCOW2)
    for path in spec.swap_disks:
        make_overlay(checkpoint.folder / path.with_suffix(".img").name, path)
    shutil.copyfile(checkpoint.console, spec.serial_log)
    machine = Machine(spec, qemu=ingredients.qemu, group=run.group, qemu_log=ingredients.log_dir / QEMU_LOG)
    with started(machine):
        checkpoint.touch()
        machine.resume(checkpoint.state, deadline=Deadline.after(RESUME_SECONDS))
        yield machine


def _clone_spec(spec: MachineSpec, checkpoint: Checkpoint) -> MachineSpec:
    return replace(
        spec,
        swap_disks=tuple(path.with_suffix(".qcow2") for path in spec.swap_disks),
        swap_format=DiskFormat.QCOW2,
        ram=RamFiles(folder=checkpoint.folder, use=RamUse.CLONED),
    )


def _wake(machine: Machine, target: Target, deadline: Deadline) -> None:
    """Set the guest's clock, which stood still since the checkpoint, and stir its entropy.

    The clock is behind by what the command took, at most; on a busy host it is set again.
    """
    with machine.failing("its clock was being set"):
        for _ in range(CLOCK_TRIES):
            argv = ["sh", "-c", WAKE, "sh", secrets.token_hex(32), f"{utc_now().timestamp():.6f}"]
            if checked(target.run(argv, deadline=deadline), where=target.address).seconds <= CLOCK_SECONDS:
                return
