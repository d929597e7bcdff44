"""Machines that outlive the run that started them: listing, entering, and ending them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from memqos.clock import Deadline, utc_now, wait
from memqos.errors import UnknownNameError
from memqos.vm.cache.store import KEPT_NAME, kept_guard
from memqos.vm.qemu.launch import shell_arguments
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import RUN_PREFIX, runtime_folder

__all__ = ["KeptMachine", "end_kept", "keep", "list_kept"]

END_SECONDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMachine:
    """A machine that was left running.

    name: the argument of `memqos vm rm`. machine: its profile and topology. guard: the process that ends it on a TERM.
    shell: the command that opens a root shell in it. console: the file of its serial console.
    """

    name: str
    machine: str
    since: str
    guard: int
    qemu: int
    shell: str
    console: str


def keep(machine: Machine) -> KeptMachine:
    """Leave a machine running when its context ends, until `end_kept`, or the guest's own end.

    Raises MachineryError for a machine that was not started to be kept, WrongStateError for one that is not usable.
    """
    sockets, disks = machine.spec.qmp_socket.parent, machine.spec.disk.parent
    kept = KeptMachine(
        name=f"kept-{sockets.name.removeprefix(RUN_PREFIX)}",
        machine=machine.spec.name,
        since=utc_now().isoformat(timespec="seconds"),
        guard=machine.keep(),
        qemu=machine.pid or 0,
        shell=shlex.join(shell_arguments(machine.spec, ())),
        console=str(machine.console.path),
    )
    for folder in (sockets, disks):
        (folder / KEPT_NAME).write_text(json.dumps(asdict(kept), indent=2) + "\n")
    return kept


def list_kept(environment: Mapping[str, str]) -> Iterator[KeptMachine]:
    """This user's kept machines, by name."""
    for folder in sorted(runtime_folder(environment).glob(f"{RUN_PREFIX}*")):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.geteuid() and kept_guard(folder) is not None:
                yield KeptMachine(**json.loads((folder / KEPT_NAME).read_bytes()))


def end_kept(name: str, environment: Mapping[str, str]) -> KeptMachine:
    """End a kept machine; its folders are gone too when this returns.

    Raises UnknownNameError with the known names, DeadlineError if the guard does not finish.
    """
    known = {kept.name: kept for kept in list_kept(environment)}
    if name not in known:
        raise UnknownNameError.of("kept machine", name, sorted(known) or ["none"])
    kept = known[name]
    guard = _arguments_of(kept.guard)

    def is_gone() -> bool:
        # The guard exits last: it removes the folders first, one after another.
        if _arguments_of(kept.guard) != guard or not guard:
            return not Path(f"/proc/{kept.qemu}/exe").exists()
        # Sent again each time: a guard that has only just taken over may have missed it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(kept.guard, signal.SIGTERM)
        return False

    wait(f"the machine '{name}' has ended", is_gone, deadline=Deadline.after(END_SECONDS), every=0.1)
    return kept


def _arguments_of(pid: int) -> bytes:
    """A process's command line, which identifies it beyond its pid; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
