"""From a URL to a target: ssh://, local://, docker:// and kubectl://, as testinfra's connections are written.

testinfra says what a URL means; see "Connection backends" in its documentation for the parameters behind the question
mark: ssh_config, ssh_identity_file, namespace, container, kubeconfig, context.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import testinfra

from memqos.clock import Deadline
from memqos.errors import UnknownNameError, UsageError
from memqos.target.base import Target
from memqos.target.container import ContainerTarget
from memqos.target.local import LocalTarget
from memqos.target.owner import Diagnosis, Starter, no_diagnosis
from memqos.target.ssh import open_ssh

__all__ = ["SCHEMES", "check_url", "opened_target"]

SCHEMES = ("docker", "kubectl", "local", "ssh")

ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""A machine that says nothing for a minute and a quarter is given up."""


def check_url(url: str, *, where: str) -> None:
    """Raise UsageError, naming the option, for a URL that leads to no machine."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise UnknownNameError.of("connection", scheme or url, [f"{name}://" for name in SCHEMES], where=where)
    if scheme != "local" and not urllib.parse.urlsplit(url).netloc:
        raise UsageError(
            f"'{url}' names no machine.", where=where, next_step=f"Write {scheme}://NAME, such as ssh://root@node7:22."
        )
    if scheme == "local" and rest:
        raise UsageError(f"'{url}' names more than this host.", where=where, next_step="Write local://")
    if urllib.parse.urlsplit(url).password:
        raise UsageError(
            "a password in a URL is seen by everybody on this host.",
            where=where,
            next_step="Let ssh in with a key, which its agent or ssh_identity_file=PATH behind a '?' gives.",
        )


@contextlib.contextmanager
def opened_target(
    url: str, *, start: Starter, folder: Path, deadline: Deadline, diagnose: Diagnosis = no_diagnosis
) -> Iterator[Target]:
    """The target that a URL means, for as long as the context lives; nobody is asked for anything.

    start, folder, diagnose: as in `open_ssh`. Raises UsageError for what is no such URL, TargetError if there is no way
    to the machine.
    """
    check_url(url, where=url)
    backend = testinfra.get_host(url).backend
    address = url.partition("?")[0]
    kind = backend.get_connection_type()
    if kind == "local":
        yield LocalTarget()
    elif kind == "ssh":
        with open_ssh(
            backend.host.name,
            address=address,
            deadline=deadline,
            start=start,
            folder=folder,
            config=Path(backend.ssh_config) if backend.ssh_config else None,
            further=_ssh_options(backend),
            diagnose=diagnose,
        ) as target:
            yield target
    else:
        yield ContainerTarget(_words(kind, backend), address=address, folder=folder)


def _ssh_options(backend: Any) -> list[str]:
    named = {"-l": backend.host.user, "-p": backend.host.port, "-i": backend.ssh_identity_file}
    return [*(word for pair in named.items() if pair[1] for word in pair), *ALIVE]


def _words(kind: str, backend: Any) -> list[str]:
    """The command line that leads into a container."""
    if kind == "docker":
        return ["docker", "exec", "-i", *(["-u", backend.user] if backend.user else []), backend.name]
    named = {"--kubeconfig": backend.kubeconfig, "--context": backend.context, "-n": backend.namespace}
    words = ["kubectl", *(word for pair in named.items() if pair[1] for word in pair)]
    return [*words, "exec", "-i", *(["-c", backend.container] if backend.container else []), backend.name, "--"]
