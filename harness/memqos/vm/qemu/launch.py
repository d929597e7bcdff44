"""From a MachineSpec's ingredients to a machine that answers over ssh, and back to nothing.

Used for a test's machine (a fresh overlay) and for provisioning an image (its own disk).

Also the ssh connection to a machine: waiting for its sshd, keeping one connection, and the user's login.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import AbortedError, MachineError, MachineryError, UnfitFileError
from memqos.model.topology import Topology
from memqos.target.base import Target, checked
from memqos.target.ssh import CONTROL, SUDO, open_ssh
from memqos.vm.architecture import AMD64, Architecture
from memqos.vm.cache.store import Cache
from memqos.vm.host.programs import Qemu, find_program
from memqos.vm.host.progress import SILENT, Progress
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import Run, opened_run, started
from memqos.vm.qemu.spec import Accelerator, DiskFormat, Flash, MachineSpec, RamFiles, RamUse, overlay_arguments

__all__ = [
    "HOST_ALIAS",
    "QEMU_LOG",
    "ROOT_OVERLAY",
    "Ingredients",
    "connected",
    "launch",
    "make_overlay",
    "shell_arguments",
    "spec_of",
    "ssh_config",
    "sshd_answers",
]

HOST_ALIAS = "memqos"
"""The guest's name in ssh's configuration and in known_hosts."""

SSH_CONFIG = "ssh_config"

SSH_FAILED = 255
"""ssh's own exit status for errors."""

NOT_ROOT = 77
AS_ROOT = f"""\
[ "$(id -u)" = 0 ] || sudo -n true || exit {NOT_ROOT}
! command -v cloud-init >/dev/null || cloud-init status --wait >/dev/null 2>&1
exit 0
"""
"""Runs only after cloud-init has finished, which may restart sshd."""

DENIED = "Permission denied"
LOGIN_SECONDS = 120.0
LOGIN_EVERY = 4.0
"""sshd from OpenSSH 9.8 on counts failed logins, and refuses a client for 5 s after each (PerSourcePenalties)."""

BOOTING = "it was booting"
"""The activity until the guest's sshd answers, as errors name it."""

BANNER_EVERY = 0.25
BANNER_SECONDS = 30
"""How long one connection waits for sshd's greeting, which takes seconds in a guest that gets little CPU.

Giving up too soon does harm: sshd (OpenSSH 9.8 and later, PerSourcePenalties) counts connections that end without a
login, and after fifteen accepts no login for minutes.
"""

ALIVE_EVERY, ALIVE_MISSES = 15, 4
"""The interval in seconds at which ssh probes a silent guest, and the number of misses after which it gives up.

For people's own connections, and for machines that outlive the run: otherwise `pulse` is faster, and allows for a busy
host.
"""


@contextlib.contextmanager
def connected(machine: Machine, run: Run, ingredients: Ingredients, *, deadline: Deadline) -> Iterator[Target]:
    """Connect to the guest's sshd, which listens already, and watch the guest's pulse."""
    config = write_ssh_config(machine, run, ingredients)
    with (
        open_ssh(
            HOST_ALIAS,
            address=f"vm://{machine.spec.name}",
            deadline=deadline,
            start=run.group.start,
            folder=run.sockets,
            config=config,
            diagnose=machine.diagnose,
            become=() if ingredients.user == ROOT else SUDO,
        ) as target,
        machine.watched(target),
    ):
        yield target


def write_ssh_config(machine: Machine, run: Run, ingredients: Ingredients) -> Path:
    """The ssh_config for a machine, in its folder of sockets, with a copy of the key."""
    copy = Path(shutil.copyfile(ingredients.identity, run.sockets / "identity"))
    copy.chmod(0o600)  # ssh requires this mode, and a copied cache may have lost it
    config = run.sockets / SSH_CONFIG
    if (known_hosts := ingredients.known_hosts) is not None:
        text = ssh_config(port=machine.ssh_port(), identity=copy, known_hosts=known_hosts)
    else:
        text = foreign_ssh_config(
            port=machine.ssh_port(), identity=copy, user=ingredients.user, known_hosts=run.sockets / "known_hosts"
        )
    config.write_text(text)
    return config


def wait_for_login(machine: Machine, run: Run, ingredients: Ingredients, deadline: Deadline) -> None:
    """Wait until a foreign system lets the user in, as root or with a way to become root.

    cloud-init may install the user's key some time after sshd greets, and restart sshd. Raises UnfitFileError if sshd
    denies the user for LOGIN_SECONDS, or if the user cannot become root.
    """
    config = write_ssh_config(machine, run, ingredients)
    argv = ["ssh", "-F", str(config), HOST_ALIAS, shlex.join(["sh", "-c", AS_ROOT])]
    denied: list[Deadline] = []

    def told() -> subprocess.CompletedProcess[str] | None:
        machine.check_alive(BOOTING)
        said = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if said.returncode != SSH_FAILED:
            return said
        denied.extend([deadline.sooner(LOGIN_SECONDS)] if DENIED in said.stderr and not denied else [])
        if DENIED in said.stderr and denied[0].expired:
            raise _refused(ingredients, said.stderr.strip()[-300:])
        return None

    with machine.failing(BOOTING):
        said = wait("the user may log in", told, deadline=deadline, every=LOGIN_EVERY)
    if said is not None and said.returncode == NOT_ROOT:
        raise UnfitFileError(
            f"'{ingredients.user}' can log in to the image, but cannot become root: {said.stderr.strip()[-300:]}",
            where="--ssh-user",
            next_step="Name a user with passwordless sudo (NOPASSWD), or root.",
        )


def _refused(ingredients: Ingredients, said: str) -> UnfitFileError:
    """The error for a system whose sshd answers but refuses the user."""
    if ingredients.seed:
        return UnfitFileError(
            f"the image's sshd refuses '{ingredients.user}' with the key that memqos passes to cloud-init: {said}",
            where="--image",
            next_step="The image has no cloud-init, or one that ignores NoCloud: name an account in it with --ssh-user "
            "and its private key with --ssh-key.",
        )
    return UnfitFileError(
        f"the image's sshd refuses '{ingredients.user}' with this key: {said}",
        where="--ssh-key",
        next_step="Check the user (--ssh-user; cloud images often have debian, ubuntu or fedora) and its key. "
        "Without --ssh-key memqos passes a key of its own to the image's cloud-init.",
    )


def wait_for_sshd(machine: Machine, deadline: Deadline) -> None:
    """Wait until the guest's sshd listens; while it boots, connecting would only fail."""
    port = machine.ssh_port()
    # A kernel started by a boot loader need not have a serial console.
    first_word = deadline if machine.spec.boots_from_disk else deadline.sooner(deadline.remaining / 2)
    with machine.failing(BOOTING):
        wait("sshd answers", lambda: sshd_answers(machine, port, first_word), deadline=deadline, every=BANNER_EVERY)


def sshd_answers(machine: Machine, port: int, first_word: Deadline) -> bool:
    """Whether the guest's sshd greets on its forwarded port.

    first_word: the deadline for that, or for the console's first output. A boot that hangs before the kernel's timer
    watchdog runs prints nothing.

    Raises MachineError if the machine died, and AbortedError if its boot will never finish: a timer was lost, or it
    printed nothing in time.
    """
    if machine.console.has_lost_its_timer():
        raise machine.fail(AbortedError(f"QEMU lost a timer of one of the guest's processors while {BOOTING}."))
    machine.check_alive(BOOTING)
    greets = is_greeted(port)
    if not greets and first_word.expired and not machine.console.lines():
        raise machine.fail(AbortedError(f"the guest printed nothing for {first_word.elapsed:.0f} s while {BOOTING}."))
    return greets


def is_greeted(port: int) -> bool:
    """Whether an sshd greets connections to this port of the host."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=BANNER_SECONDS) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def shell_arguments(spec: MachineSpec, words: Sequence[str]) -> list[str]:
    """The ssh command for a user to enter this running machine, or to run `words` there."""
    config = spec.qmp_socket.with_name(SSH_CONFIG)
    control = spec.qmp_socket.with_name(CONTROL)
    return ["ssh", "-F", str(config), "-S", str(control), *(["-t"] if not words else []), HOST_ALIAS, shlex.join(words)]


def ssh_config(*, port: int, identity: Path, known_hosts: Path) -> str:
    """An ssh_config with which `ssh -F FILE memqos` enters the machine and nothing else.

    Key exchange, cipher and MAC are the cheapest ones: the traffic never leaves this host, and the guest may be
    emulated. There chacha20-poly1305, ssh's default, takes twice as long as this cipher with this MAC.
    """
    own = """StrictHostKeyChecking yes
  HostKeyAlgorithms ssh-ed25519
  KexAlgorithms curve25519-sha256
  Ciphers aes128-ctr
  MACs umac-64-etm@openssh.com"""
    return _ssh_config(own, port=port, identity=identity, user="root", known_hosts=known_hosts)


def foreign_ssh_config(*, port: int, identity: Path, user: str, known_hosts: Path) -> str:
    """The same for a foreign system: with ssh's own algorithms, and trust in the first host key seen.

    The port is QEMU's on this host's loopback, so that no other machine can answer there.
    """
    own = "StrictHostKeyChecking accept-new"
    return _ssh_config(own, port=port, identity=identity, user=user, known_hosts=known_hosts)


def _ssh_config(own: str, *, port: int, identity: Path, user: str, known_hosts: Path) -> str:
    return f"""Host {HOST_ALIAS}
  HostName 127.0.0.1
  Port {port}
  User {user}
  HostKeyAlias {HOST_ALIAS}
  IdentityFile "{identity}"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{known_hosts}"
  GlobalKnownHostsFile /dev/null
  {own}
  BatchMode yes
  ForwardAgent no
  ForwardX11 no
  Compression no
  LogLevel ERROR
  ServerAliveInterval {ALIVE_EVERY}
  ServerAliveCountMax {ALIVE_MISSES}
"""


ROOT = "root"

ROOT_OVERLAY = "root.qcow2"

SEED, UEFI_VARIABLES = "seed.iso", "uefi-variables.fd"

SERIAL_LOG, QEMU_LOG = "serial.log", "qemu.log"
"""The output of the guest and QEMU, in the folder of logs."""

BOOTS = 3
"""How often a machine is booted if QEMU breaks its boots: two different faults were seen in a row."""

ABORTED = "aborted-"
"""The prefix of the logs of a boot that QEMU broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """The ingredients for launching a machine.

    kernel, initrd: None for a disk with a boot loader. disk: used through an overlay unless `writes_through`. identity:
    the private key; known_hosts: the guest's host key under HOST_ALIAS, None to accept the first one. user: who logs
    in; any but root runs commands through sudo. flash: a UEFI, whose variables are a template. seed: cloud-init's disk,
    empty for none. log_dir: receives serial.log and qemu.log; it outlives the machine. keepable: the machine may be
    kept when the process that started it ends. temporary_logs: log_dir is removed with the machine if the process is
    killed, or when a machine that was kept ends. architecture: of the machine.
    """

    name: str
    qemu: Qemu
    accelerator: Accelerator
    topology: Topology
    kernel: Path | None
    initrd: Path | None
    kernel_arguments: tuple[str, ...]
    disk: Path
    identity: Path
    known_hosts: Path | None
    log_dir: Path
    disk_format: DiskFormat = DiskFormat.RAW
    user: str = ROOT
    flash: Flash | None = None
    seed: bytes = b""
    writes_through: bool = False
    keepable: bool = False
    temporary_logs: bool = False
    architecture: Architecture = AMD64

    @property
    def doomed(self) -> tuple[Path, ...]:
        """Other folders that are removed with the machine if the process is killed."""
        return (self.log_dir,) if self.temporary_logs else ()


@contextlib.contextmanager
def launch(
    ingredients: Ingredients,
    *,
    cache: Cache,
    deadline: Deadline,
    saving: Path | None = None,
    progress: Progress = SILENT,
) -> Iterator[Machine]:
    """Start the machine and wait until all its units are up; at the end only its logs are left.

    saving: a folder that receives the machine's disks and the files of its memory, and keeps them; the machine can then
    be checkpointed. If the process is killed, the machine and the parent of that folder are removed: one created for
    it.

    A boot that QEMU breaks is repeated, BOOTS in all. Its emulation sometimes fails an assertion of its own while the
    firmware maps devices, and sometimes loses a CPU's timer, for which the kernel then waits forever; once the guest
    printed nothing. Each repetition is reported and noted in the machine's provenance; the console of the last such
    boot stays in the folder of logs.

    Raises MachineError if it does not come up, with the console's tail.
    """
    spoilt: list[str] = []
    with contextlib.ExitStack() as stack:
        while True:
            try:
                machine = stack.enter_context(_launched(ingredients, cache=cache, deadline=deadline, saving=saving))
                break
            except AbortedError as error:
                spoilt.append(error.what.splitlines()[0])
                if len(spoilt) == BOOTS:
                    raise
                progress.note(f"QEMU broke a boot, which is repeated: {spoilt[-1]}")
                _put_aside(ingredients.log_dir, saving)
        if spoilt:
            machine.note({"aborted_boot": "; ".join(spoilt)})
        yield machine


def _put_aside(logs: Path, saving: Path | None) -> None:
    """Keep the logs of a boot that is repeated under other names, and empty the folder that was to be saved."""
    for name in (SERIAL_LOG, QEMU_LOG):
        with contextlib.suppress(FileNotFoundError):
            (logs / name).rename(logs / f"{ABORTED}{name}")
    for path in saving.iterdir() if saving is not None else ():
        path.unlink()


@contextlib.contextmanager
def _launched(ingredients: Ingredients, *, cache: Cache, deadline: Deadline, saving: Path | None) -> Iterator[Machine]:
    """One try of `launch`."""
    doomed = (*ingredients.doomed, *(() if saving is None else (saving.parent,)))
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(opened_run(cache, keepable=ingredients.keepable, doomed=doomed))
        spec = spec_of(ingredients, sockets=run.sockets, disks=saving or run.disks)
        make_disks(ingredients, spec)
        if saving is not None:
            spec = replace(spec, ram=RamFiles(folder=saving, use=RamUse.SAVED))
        machine = Machine(spec, qemu=ingredients.qemu, group=run.group, qemu_log=ingredients.log_dir / QEMU_LOG)
        stack.enter_context(started(machine))
        wait_for_sshd(machine, deadline)
        if spec.boots_from_disk:
            wait_for_login(machine, run, ingredients, deadline)
        connection = stack.enter_context(contextlib.ExitStack())
        target = connection.enter_context(connected(machine, run, ingredients, deadline=deadline))
        if spec.boots_from_disk:
            note_units(machine, target, deadline)
        else:
            wait_for_units(machine, target, deadline)
        machine.ready(target, disconnect=connection.close)
        yield machine


def spec_of(ingredients: Ingredients, *, sockets: Path, disks: Path) -> MachineSpec:
    """The spec of a machine whose sockets and disks are in these folders; nothing is created."""
    through = ingredients.writes_through
    return MachineSpec(
        name=ingredients.name,
        accelerator=ingredients.accelerator,
        topology=ingredients.topology,
        kernel=ingredients.kernel,
        initrd=ingredients.initrd,
        kernel_arguments=ingredients.kernel_arguments,
        disk=ingredients.disk if through else disks / ROOT_OVERLAY,
        disk_format=ingredients.disk_format if through else DiskFormat.QCOW2,
        swap_disks=tuple(disks / f"swap{number}.img" for number in range(len(ingredients.topology.swap))),
        serial_log=ingredients.log_dir / SERIAL_LOG,
        qmp_socket=sockets / "qmp.sock",
        flash=None if ingredients.flash is None else replace(ingredients.flash, variables=disks / UEFI_VARIABLES),
        seed=disks / SEED if ingredients.seed else None,
        architecture=ingredients.architecture,
    )


def make_disks(ingredients: Ingredients, spec: MachineSpec) -> None:
    """The disks of a booting machine: a layer over the image, empty swap disks, cloud-init's, UEFI's variables."""
    if not ingredients.writes_through:
        make_overlay(ingredients.disk, spec.disk, base_format=ingredients.disk_format)
    if spec.seed is not None:
        spec.seed.write_bytes(ingredients.seed)
    if spec.flash is not None and ingredients.flash is not None:
        shutil.copyfile(ingredients.flash.variables, spec.flash.variables)
    for path, device in zip(spec.swap_disks, ingredients.topology.swap, strict=True):
        with path.open("wb") as file:
            file.truncate(device.size_bytes)


def make_overlay(base: Path, overlay: Path, *, base_format: DiskFormat = DiskFormat.RAW) -> None:
    """An empty overlay over a frozen disk; raises MachineryError with qemu-img's message."""
    argv = overlay_arguments(find_program("qemu-img"), base, overlay, base_format=base_format)
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise MachineryError(f"the overlay could not be made: {told.stderr.strip()}", where=str(overlay))


def note_units(machine: Machine, target: Target, deadline: Deadline) -> None:
    """Wait until a foreign system has started everything, and note which units failed; that is no error."""
    with machine.failing("its units were starting"):
        result = target.run(["systemctl", "is-system-running", "--wait"], deadline=deadline)
    if result.text.strip() != "running":
        failed = target.run(["systemctl", "list-units", "--failed", "--plain", "--no-legend"], deadline=deadline)
        names = [line.split()[0] for line in failed.text.splitlines() if line.strip()]
        machine.note({"system_state": result.text.strip() or "unknown", "failed_units": names})


def wait_for_units(machine: Machine, target: Target, deadline: Deadline) -> None:
    """Wait until systemd has started everything; a failed unit breaks the machine, by name."""
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
