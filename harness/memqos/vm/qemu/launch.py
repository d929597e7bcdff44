"""From a MachineSpec's ingredients to a machine that answers over ssh, and back to nothing.

Used for a test's machine (a fresh overlay) and for provisioning an image (its own disk).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import MachineError, MachineryError
from memqos.model.topology import Topology
from memqos.target.base import Target, checked
from memqos.target.ssh import CONTROL, open_ssh
from memqos.vm.cache.store import Cache, locked_folder, need_space, sweep
from memqos.vm.host.ownership import ProcessGroup
from memqos.vm.host.programs import Qemu, find_program
from memqos.vm.qemu.command import overlay_arguments
from memqos.vm.qemu.machine import Machine, started
from memqos.vm.qemu.spec import Accelerator, DiskFormat, MachineSpec, RamFiles, RamUse

__all__ = [
    "HOST_ALIAS",
    "ROOT_OVERLAY",
    "RUN_PREFIX",
    "Ingredients",
    "Run",
    "connected",
    "launch",
    "make_overlay",
    "opened_run",
    "runtime_folder",
    "shell_arguments",
    "spec_of",
]

HOST_ALIAS = "memqos"
"""The guest's name in ssh's configuration and in known_hosts."""

ROOT_OVERLAY = "root.qcow2"
SSH_CONFIG = "ssh_config"
RUN_PREFIX = "memqos-run-"

MAX_BASE = 60
"""How long, in bytes, the path of the folder may be in which a machine's folder of sockets is made."""

DISK_BYTES = 1 << 30
"""What a machine's overlay and swap may come to take of the cache's disk."""

BANNER_EVERY = 0.25
BANNER_SECONDS = 30
"""How long one connection waits for sshd's greeting, which takes seconds in a guest that gets little of a processor.

A connection that is given up too soon is worse than none: sshd (OpenSSH 9.8 and later, PerSourcePenalties) counts those
that end without a login, and after fifteen lets nobody in for minutes.
"""

ALIVE_EVERY, ALIVE_MISSES = 2, 3
"""ssh asks a guest that says nothing this often, in seconds, and gives it up when it owes one answer more than these:
after eight seconds, of which the guest had six for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What a machine is launched from.

    disk: used through an overlay unless `writes_through`.
    identity: the private key; known_hosts: the guest's host key under HOST_ALIAS.
    log_dir: receives serial.log and qemu.log; it outlives the machine.
    keepable: the machine may be kept when whoever started it ends.
    temporary_logs: log_dir goes with the machine if we are killed, or when a machine that was kept ends.
    """

    name: str
    qemu: Qemu
    accelerator: Accelerator
    topology: Topology
    kernel: Path
    initrd: Path
    kernel_arguments: tuple[str, ...]
    disk: Path
    identity: Path
    known_hosts: Path
    log_dir: Path
    writes_through: bool = False
    keepable: bool = False
    temporary_logs: bool = False

    @property
    def doomed(self) -> tuple[Path, ...]:
        """Folders besides the machine's own that go with it if we are killed."""
        return (self.log_dir,) if self.temporary_logs else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one machine has on the host while it runs: its folders and its processes.

    sockets: a short path; sockets, and the copy of the key that ssh is given. disks: its own disks' folder.
    """

    sockets: Path
    disks: Path
    group: ProcessGroup


@contextlib.contextmanager
def opened_run(cache: Cache, *, keepable: bool = False, doomed: tuple[Path, ...] = ()) -> Iterator[Run]:
    """Folders and a process group for one machine, gone at the end, also if we are killed.

    keepable: the machine may be kept, and then they stay with it. doomed: further folders that go if we are killed.

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


@contextlib.contextmanager
def launch(
    ingredients: Ingredients, *, cache: Cache, deadline: Deadline, saving: Path | None = None
) -> Iterator[Machine]:
    """Start the machine and wait until all its units are up; at the end nothing of it is left but its logs.

    saving: a folder that receives the machine's disks and the files of its memory, and keeps them; the machine can
    then be checkpointed. If we are killed, it goes, and the folder that it is in: one that was made for it.

    Raises MachineError if it does not come up, with the console's tail.
    """
    doomed = (*ingredients.doomed, *(() if saving is None else (saving.parent,)))
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(opened_run(cache, keepable=ingredients.keepable, doomed=doomed))
        spec = spec_of(ingredients, sockets=run.sockets, disks=saving or run.disks)
        make_disks(ingredients, spec)
        if saving is not None:
            spec = replace(spec, ram=RamFiles(folder=saving, use=RamUse.SAVED))
        machine = Machine(spec, qemu=ingredients.qemu, group=run.group, qemu_log=ingredients.log_dir / "qemu.log")
        stack.enter_context(started(machine))
        wait_for_sshd(machine, deadline)
        connection = stack.enter_context(contextlib.ExitStack())
        target = connection.enter_context(connected(machine, ingredients, run, deadline))
        wait_for_units(machine, target, deadline)
        machine.ready(target, disconnect=connection.close)
        yield machine


def runtime_folder(environment: Mapping[str, str]) -> Path:
    """Where sockets go: $XDG_RUNTIME_DIR, the temporary folder or /tmp: the first that can be written and is short.

    A UNIX socket's path has at most 107 bytes, of which our folder, the socket and ssh's own ending take 47.
    """
    candidates = (Path(environment.get("XDG_RUNTIME_DIR", "")), Path(tempfile.gettempdir()))
    for chosen in candidates:
        if chosen.is_absolute() and len(os.fsencode(chosen)) <= MAX_BASE and os.access(chosen, os.W_OK | os.X_OK):
            return chosen
    return Path("/tmp")  # noqa: S108 - only a private folder with an unpredictable name is made there


def spec_of(ingredients: Ingredients, *, sockets: Path, disks: Path) -> MachineSpec:
    """The spec of a machine whose sockets and disks are in these folders; nothing is made."""
    through = ingredients.writes_through
    return MachineSpec(
        name=ingredients.name,
        accelerator=ingredients.accelerator,
        topology=ingredients.topology,
        kernel=ingredients.kernel,
        initrd=ingredients.initrd,
        kernel_arguments=ingredients.kernel_arguments,
        disk=ingredients.disk if through else disks / ROOT_OVERLAY,
        disk_format=DiskFormat.RAW if through else DiskFormat.QCOW2,
        swap_disks=tuple(disks / f"swap{number}.img" for number in range(len(ingredients.topology.swap))),
        serial_log=ingredients.log_dir / "serial.log",
        qmp_socket=sockets / "qmp.sock",
    )


def make_disks(ingredients: Ingredients, spec: MachineSpec) -> None:
    """The disks of a machine that boots: a layer over the image, and empty swap disks."""
    if not ingredients.writes_through:
        make_overlay(ingredients.disk, spec.disk)
    for path, device in zip(spec.swap_disks, ingredients.topology.swap, strict=True):
        with path.open("wb") as file:
            file.truncate(device.size_bytes)


def make_overlay(base: Path, overlay: Path, *, base_format: DiskFormat = DiskFormat.RAW) -> None:
    """An empty overlay over a frozen disk; raises MachineryError with what qemu-img said."""
    argv = overlay_arguments(find_program("qemu-img"), base, overlay, base_format=base_format)
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise MachineryError(f"the overlay could not be made: {told.stderr.strip()}", where=str(overlay))


@contextlib.contextmanager
def connected(machine: Machine, ingredients: Ingredients, run: Run, deadline: Deadline) -> Iterator[Target]:
    """Connect to the guest's sshd, which listens already."""
    identity = Path(shutil.copy(ingredients.identity, run.sockets / "identity"))
    config = run.sockets / SSH_CONFIG
    config.write_text(ssh_config(port=machine.ssh_port(), identity=identity, known_hosts=ingredients.known_hosts))
    with open_ssh(
        HOST_ALIAS,
        address=f"vm://{ingredients.name}",
        deadline=deadline,
        start=run.group.start,
        folder=run.sockets,
        config=config,
        diagnose=machine.diagnose,
    ) as target:
        yield target


def wait_for_sshd(machine: Machine, deadline: Deadline) -> None:
    """Wait until the guest's sshd listens; while it boots, connecting would only fail."""
    port = machine.ssh_port()
    with machine.failing("it was booting"):
        wait("sshd answers", lambda: sshd_answers(machine, port), deadline=deadline, every=BANNER_EVERY)


def sshd_answers(machine: Machine, port: int) -> bool:
    """Whether the guest's sshd greets on its forwarded port; raises if the machine died."""
    machine.check_alive("it was booting")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=BANNER_SECONDS) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_for_units(machine: Machine, target: Target, deadline: Deadline) -> None:
    """Wait until systemd has started everything; a unit that failed breaks the machine, by name."""
    with machine.failing("its units were starting"):
        result = target.run(["systemctl", "is-system-running", "--wait"], deadline=deadline)
    if result.text.strip() == "running":
        return
    failed = target.run(["systemctl", "list-units", "--failed", "--plain", "--no-legend"], deadline=deadline)
    names = [line.split()[0] for line in failed.text.splitlines() if line.strip()]
    journal = checked(
        target.run(
            ["journalctl", "--no-pager", "--lines=20", *(f"--unit={name}" for name in names)], deadline=deadline
        ),
        where=target.address,
    )
    raise machine.fail(
        MachineError(
            f"systemd is '{result.text.strip()}' after the boot; failed units: {', '.join(names) or 'none'}. "
            f"Their journal:\n{journal.text}",
            data={"failed": names, "journal": journal.text},
        )
    )


def shell_arguments(spec: MachineSpec, words: Sequence[str]) -> list[str]:
    """The ssh command that a person would type to get into this running machine, or to run `words` there."""
    config = spec.qmp_socket.with_name(SSH_CONFIG)
    control = spec.qmp_socket.with_name(CONTROL)
    return ["ssh", "-F", str(config), "-S", str(control), *(["-t"] if not words else []), HOST_ALIAS, shlex.join(words)]


def ssh_config(*, port: int, identity: Path, known_hosts: Path) -> str:
    """An ssh_config with which `ssh -F FILE memqos` gets into the machine and nowhere else.

    The key exchange is the cheapest one: what it protects never leaves this host, and the guest may be emulated.
    """
    return f"""Host {HOST_ALIAS}
  HostName 127.0.0.1
  Port {port}
  User root
  HostKeyAlias {HOST_ALIAS}
  IdentityFile "{identity}"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{known_hosts}"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  HostKeyAlgorithms ssh-ed25519
  KexAlgorithms curve25519-sha256
  BatchMode yes
  ForwardAgent no
  ForwardX11 no
  Compression no
  LogLevel ERROR
  ServerAliveInterval {ALIVE_EVERY}
  ServerAliveCountMax {ALIVE_MISSES}
"""
