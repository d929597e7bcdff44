"""The ssh connection to a machine: waiting for its sshd, keeping one connection, and how a person gets in."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import AbortedError
from memqos.target.base import Target
from memqos.target.ssh import CONTROL, open_ssh
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.run import Run
from memqos.vm.qemu.spec import MachineSpec

__all__ = ["HOST_ALIAS", "connected", "shell_arguments", "ssh_config", "sshd_answers", "wait_for_sshd"]

HOST_ALIAS = "memqos"
"""The guest's name in ssh's configuration and in known_hosts."""

SSH_CONFIG = "ssh_config"

BOOTING = "it was booting"
"""What is being done until the guest's sshd answers, as errors say it."""

BANNER_EVERY = 0.25
BANNER_SECONDS = 30
"""How long one connection waits for sshd's greeting, which takes seconds in a guest that gets little of a processor.

A connection that is given up too soon is worse than none: sshd (OpenSSH 9.8 and later, PerSourcePenalties) counts those
that end without a login, and after fifteen accepts no login for minutes.
"""

ALIVE_EVERY, ALIVE_MISSES = 15, 4
"""ssh asks a guest that says nothing this often, in seconds, and gives it up when it owes one answer more than these.

It is for people's own connections, and for machines that outlive us: else `pulse` is faster, and knows a busy host.
"""


@contextlib.contextmanager
def connected(machine: Machine, run: Run, *, identity: Path, known_hosts: Path, deadline: Deadline) -> Iterator[Target]:
    """Connect to the guest's sshd, which listens already, and watch the guest's pulse.

    identity: the private key, of which ssh gets a copy. known_hosts: the guest's host key under HOST_ALIAS.
    """
    copy = Path(shutil.copyfile(identity, run.sockets / "identity"))
    copy.chmod(0o600)  # ssh wants no less, and a cache that was copied may have lost it
    config = run.sockets / SSH_CONFIG
    config.write_text(ssh_config(port=machine.ssh_port(), identity=copy, known_hosts=known_hosts))
    with (
        open_ssh(
            HOST_ALIAS,
            address=f"vm://{machine.spec.name}",
            deadline=deadline,
            start=run.group.start,
            folder=run.sockets,
            config=config,
            diagnose=machine.diagnose,
        ) as target,
        machine.watched(target),
    ):
        yield target


def wait_for_sshd(machine: Machine, deadline: Deadline) -> None:
    """Wait until the guest's sshd listens; while it boots, connecting would only fail."""
    port = machine.ssh_port()
    first_word = deadline.sooner(deadline.remaining / 2)
    with machine.failing(BOOTING):
        wait("sshd answers", lambda: sshd_answers(machine, port, first_word), deadline=deadline, every=BANNER_EVERY)


def sshd_answers(machine: Machine, port: int, first_word: Deadline) -> bool:
    """Whether the guest's sshd greets on its forwarded port.

    first_word: by when it does, or the console has said something. A boot that stands still before the kernel watches
    over its timers says nothing of that, and nothing at all.

    Raises MachineError if the machine died, and AbortedError if its boot will never end: a timer was lost, or nothing
    was heard in time.
    """
    machine.check_alive(BOOTING)
    if machine.console.tells_of_a_lost_timer():
        raise machine.fail(AbortedError(f"QEMU lost a timer of one of the guest's processors while {BOOTING}."))
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
    """The ssh command that a person would type to get into this running machine, or to run `words` there."""
    config = spec.qmp_socket.with_name(SSH_CONFIG)
    control = spec.qmp_socket.with_name(CONTROL)
    return ["ssh", "-F", str(config), "-S", str(control), *(["-t"] if not words else []), HOST_ALIAS, shlex.join(words)]


def ssh_config(*, port: int, identity: Path, known_hosts: Path) -> str:
    """An ssh_config with which `ssh -F FILE memqos` gets into the machine and nowhere else.

    Key exchange, cipher and MAC are the cheapest ones: what they protect never leaves this host, and the guest may be
    emulated. There chacha20-poly1305, which ssh prefers, takes twice as long as this cipher with this MAC.
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
  Ciphers aes128-ctr
  MACs umac-64-etm@openssh.com
  BatchMode yes
  ForwardAgent no
  ForwardX11 no
  Compression no
  LogLevel ERROR
  ServerAliveInterval {ALIVE_EVERY}
  ServerAliveCountMax {ALIVE_MISSES}
"""
