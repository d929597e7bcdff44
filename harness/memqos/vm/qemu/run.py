"""The resources of one running machine on the host: folders for its sockets and disks, and a process group.

Its console's text is kept when its folder is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import MemqosError
from memqos.ownership import ProcessGroup
from memqos.vm.cache.store import Cache, locked_folder, need_space, sweep
from memqos.vm.qemu.machine import START_SECONDS, Machine
from memqos.vm.qemu.qmp import open_qmp

__all__ = ["MAX_BASE", "RUN_PREFIX", "Run", "opened_run", "outliving_console", "runtime_folder", "started"]

RUN_PREFIX = "memqos-run-"

MAX_BASE = 60
"""The most bytes in the path of the folder in which a machine's folder of sockets is created."""

DISK_BYTES = 1 << 30
"""The most that a machine's overlay and swap may take of the cache's disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The resources of one running machine on the host: its folders and its processes.

    sockets: a short path; sockets, and the copy of ssh's key. disks: its own disks' folder.
    """

    sockets: Path
    disks: Path
    group: ProcessGroup


@contextlib.contextmanager
def opened_run(cache: Cache, *, keepable: bool = False, doomed: tuple[Path, ...] = ()) -> Iterator[Run]:
    """Folders and a process group for one machine, removed at the end, also if this process is killed.

    keepable: the machine may be kept, and then they stay with it. doomed: further folders that are removed if this
    process is killed.

    Raises NoSpaceError if the cache's disk has no room for a machine.
    """
    sockets_base = runtime_folder(os.environ)
    disks_base = cache.folder("machines")
    for base in (sockets_base, disks_base):
        sweep(base, RUN_PREFIX)
    need_space(disks_base, DISK_BYTES)
    with (
        locked_folder(sockets_base, RUN_PREFIX) as sockets,
        locked_folder(disks_base, RUN_PREFIX) as disks,
        ProcessGroup(folders=(sockets, disks, *doomed), keepable=keepable) as group,
    ):
        yield Run(sockets=sockets, disks=disks, group=group)


def runtime_folder(environment: Mapping[str, str]) -> Path:
    """The parent of socket folders: $XDG_RUNTIME_DIR, the temporary folder or /tmp: the first writable short one.

    A UNIX socket's path has at most 107 bytes, of which the folder, the socket and ssh's own suffix take 47.
    """
    candidates = (Path(environment.get("XDG_RUNTIME_DIR", "")), Path(tempfile.gettempdir()))
    for chosen in candidates:
        if chosen.is_absolute() and len(os.fsencode(chosen)) <= MAX_BASE and os.access(chosen, os.W_OK | os.X_OK):
            return chosen
    return Path("/tmp")  # noqa: S108 - only a private folder with an unpredictable name is made there


@contextlib.contextmanager
def started(machine: Machine) -> Iterator[Machine]:
    """Start a machine's QEMU and connect to its monitor; QEMU is gone when the context ends."""
    try:
        machine.start()
        with open_qmp(machine.spec.qmp_socket, deadline=Deadline.after(START_SECONDS)) as qmp:
            machine.attach(qmp)
            yield machine
    finally:
        machine.stop()


@contextlib.contextmanager
def outliving_console(folder: Path) -> Iterator[None]:
    """Keeps a console that an error names when its folder is removed; the error says where."""
    try:
        yield
    except MemqosError as error:
        for log in folder.rglob("*.log"):
            if str(log) in error.next_step:
                error.next_step = error.next_step.replace(str(log), _kept(log))
        raise


def _kept(log: Path) -> str:
    try:
        handle, name = tempfile.mkstemp(prefix="memqos-console-", suffix=".log")
        os.close(handle)
        shutil.copyfile(log, name)
    except OSError as error:
        return f"no file, since it could not be kept: {error.strerror}"
    return name
