"""How the tests of machines start one, and query it."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import Deadline
from memqos.vm.boot import boot
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.host.progress import SILENT, Progress
from memqos.vm.options import BootOptions
from memqos.vm.qemu.machine import Machine


def soon() -> Deadline:
    """Long enough for any command in a machine, also on a busy host."""
    return Deadline.after(60)


def start(
    log_dir: Path,
    *,
    profile: str = "trixie",
    topology: str = "one-numa-node",
    cache: Cache | None = None,
    progress: Progress = SILENT,
    keepable: bool = False,
    **options: Any,
) -> AbstractContextManager[Machine]:
    """A machine of this profile and topology, a name or a file, with further BootOptions."""
    return boot(
        load_profile(profile),
        load_topology(topology),
        image_cache=cache or default_cache(os.environ),
        log_dir=log_dir,
        options=BootOptions(**options),
        progress=progress,
        keepable=keepable,
    )


def output(machine: Machine, *argv: str) -> str:
    """A command's output in the machine; it must succeed."""
    result = machine.target.run(list(argv), deadline=soon())
    assert result.status == 0, result
    return result.text


def url_of(machine: Machine, folder: Path) -> str:
    """The port of a machine's sshd on this host, with its key and host key in an ssh configuration."""
    assert machine.image is not None
    config = folder / "ssh_config"
    identity = machine.spec.qmp_socket.with_name("identity")
    config.write_text(
        f"Host 127.0.0.1\n  HostKeyAlias memqos\n  UserKnownHostsFile {machine.image.known_hosts}\n"
        f"  IdentityFile {identity}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
    )
    return f"ssh://root@127.0.0.1:{machine.ssh_port()}?ssh_config={config}"
