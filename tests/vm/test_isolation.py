"""What a guest can reach, and what others on this host can: nothing beyond a machine's purpose."""

import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import Deadline
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from tests.vm.machines import start

pytestmark = pytest.mark.vm

HOST = "10.0.2.2"
"""The host's address in QEMU's user-mode network, if it is not restricted."""

RESOLVER = "10.0.2.3"

REACH = 'timeout 4 bash -c "exec 3<>/dev/tcp/$1/$2 && head -c 5 <&3"'


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    with start(tmp_path_factory.mktemp("log")) as booted:
        yield booted


@contextlib.contextmanager
def listener(address: str):
    """A server that greets every client; its port."""
    with socket.create_server((address, 0)) as server:
        server.settimeout(0.1)
        yield server


def says_hello(server: socket.socket, address: str) -> bool:
    """Whether this host itself can reach the server."""
    with socket.create_connection((address, server.getsockname()[1]), timeout=5):
        connection, _ = server.accept()
        connection.close()
        return True


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - it is what the guest must not reach
def test_a_guest_does_not_reach_the_host(machine, address):
    with listener(address) as server:
        assert says_hello(server, "127.0.0.1")
        port = str(server.getsockname()[1])
        for name in (HOST, "127.0.0.1"):
            result = machine.target.run(["sh", "-c", REACH, "sh", name, port], deadline=Deadline.after(30))
            assert result.status != 0, result
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_guest_does_not_reach_beyond_the_host(machine):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    with listener("0.0.0.0") as server:  # noqa: S104 - as above
        assert says_hello(server, own)
        port = str(server.getsockname()[1])
        result = machine.target.run(["sh", "-c", REACH, "sh", own, port], deadline=Deadline.after(30))
        assert result.status != 0, result
    result = machine.target.run(["sh", "-c", REACH, "sh", RESOLVER, "53"], deadline=Deadline.after(30))
    assert result.status != 0, result


def test_qemu_listens_on_one_loopback_port_and_nowhere_else(machine):
    inodes = set()
    for link in Path(f"/proc/{machine.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(link.readlink().name.removeprefix("socket:[").removesuffix("]"))
    listening = [
        row[1]
        for table in ("tcp", "tcp6", "udp", "udp6")
        for row in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if row[9] in inodes and row[3] in {"0A", "07"}
    ]
    [(address, port)] = [entry.split(":") for entry in listening]
    assert address == "0100007F"
    assert int(port, 16) == machine.ssh_port()


def test_run_folders_are_their_owner_s_alone_and_cannot_be_foreseen(machine, tmp_path):
    sockets, disks = machine.spec.qmp_socket.parent, machine.spec.disk.parent
    for folder in (sockets, disks):
        status = folder.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.geteuid())
    assert stat.S_IMODE((sockets / "identity").stat().st_mode) == 0o600
    with boot(
        load_profile("trixie"), load_topology("one-numa-node"), image_cache=default_cache(os.environ), log_dir=tmp_path
    ) as other:
        assert other.spec.qmp_socket.parent != sockets
        assert other.ssh_port() != machine.ssh_port()


def test_the_cache_s_key_and_memory_are_their_owner_s_alone(machine):
    root = default_cache(os.environ).root
    assert stat.S_IMODE((root / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "keys" / "id_ed25519").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "checkpoints").stat().st_mode) == 0o700


def test_password_logins_are_refused(machine):
    settings = machine.target.run(["sshd", "-T"], deadline=Deadline.after(30)).text.splitlines()
    assert {"passwordauthentication no", "kbdinteractiveauthentication no", "permitrootlogin without-password"} <= set(
        settings
    )
