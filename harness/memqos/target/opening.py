"""Opens the target of a URL: ssh://, local://, docker:// and kubectl://, in testinfra's notation.

See "Connection backends" in testinfra's documentation for the query parameters: ssh_config, ssh_identity_file,
namespace, container, kubeconfig, context.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import testinfra

from memqos.clock import Deadline
from memqos.errors import TargetError, UnknownNameError, UsageError
from memqos.target.base import Diagnosis, Starter, Target, no_diagnosis
from memqos.target.container import ContainerTarget
from memqos.target.local import LocalTarget
from memqos.target.ssh import SUDO, open_ssh

__all__ = ["check_url", "opened_target"]

PARAMETERS = {
    "docker": (),
    "kubectl": ("namespace", "container", "kubeconfig", "context"),
    "local": (),
    "ssh": ("ssh_config", "ssh_identity_file", "sudo"),
}
"""The supported query parameters by kind of connection; testinfra's other ones have no meaning here."""

NAME = r"[\w.][\w.-]*"
MACHINE = rf"({NAME}@)?({NAME}|\[[0-9A-Fa-f:.]+\])(:[1-9]\d{{0,4}})?"
CONTAINER = rf"({NAME}@)?{NAME}"
"""A name must not begin with a hyphen, which would make it an option of ssh."""

FORMS = {
    "docker": "docker://NAME",
    "kubectl": "kubectl://POD, followed by ?namespace=NAME for another namespace than the default",
    "ssh": "ssh://NAME, such as ssh://root@node7:22",
}


def check_url(url: str, *, where: str) -> None:
    """Raise UsageError, naming the option, for an invalid URL or one with unsupported parts."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in PARAMETERS:
        raise UnknownNameError.of("connection", scheme or url, [f"{name}://" for name in PARAMETERS], where=where)
    if scheme == "local":
        if rest:
            raise UsageError(f"'{url}' has more than the name of this host.", where=where, next_step="Write local://")
        return
    parts = urllib.parse.urlsplit(url)
    if parts.password:
        raise UsageError(
            "every user of this host can see a password in a URL.",
            where=where,
            next_step="Use a key: from the ssh agent, or with ?ssh_identity_file=PATH.",
        )
    if (
        not re.fullmatch(MACHINE if scheme == "ssh" else CONTAINER, parts.netloc, re.ASCII)
        or parts.path
        or parts.fragment
    ):
        raise UsageError(f"'{url}' does not name a machine.", where=where, next_step=f"Write {FORMS[scheme]}.")
    for name, value in urllib.parse.parse_qsl(parts.query, keep_blank_values=True):
        if name not in PARAMETERS[scheme]:
            raise UnknownNameError.of(f"parameter of {scheme}://", name, list(PARAMETERS[scheme]), where=where)
        if not value or value.startswith("-"):
            raise UsageError(f"'{value}' is not a value of {name}.", where=where)
        if name == "sudo" and value != "true":
            raise UsageError(f"'{value}' is not a value of sudo.", where=where, next_step="Write ?sudo=true")


@contextlib.contextmanager
def opened_target(
    url: str, *, start: Starter, folder: Path, deadline: Deadline, diagnose: Diagnosis = no_diagnosis
) -> Iterator[Target]:
    """Open the target of a URL until the context ends; never prompts.

    start, folder, diagnose: as in `open_ssh`. Raises UsageError for an invalid URL, TargetError if the machine cannot
    be reached.
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
            become=SUDO if backend.sudo else (),
        ) as target:
            yield target
    else:
        inside = ContainerTarget(_words(kind, backend), address=address, folder=folder)
        told = inside.run(["true"], deadline=deadline)
        if told.status != 0:
            raise TargetError(
                f"{kind} could not reach it: {told.error_text.strip()[-300:]}",
                where=address,
                next_step=f"Try it by hand: {shlex.join([*_words(kind, backend), 'true'])}",
            )
        yield inside


def _ssh_options(backend: Any) -> list[str]:
    named = {"-l": backend.host.user, "-p": backend.host.port, "-i": backend.ssh_identity_file}
    return [word for pair in named.items() if pair[1] for word in pair]


def _words(kind: str, backend: Any) -> list[str]:
    """The command line up to the command in a container."""
    if kind == "docker":
        return ["docker", "exec", "-i", *(["-u", backend.user] if backend.user else []), backend.name]
    named = {"--kubeconfig": backend.kubeconfig, "--context": backend.context, "-n": backend.namespace}
    words = ["kubectl", *(word for pair in named.items() if pair[1] for word in pair)]
    return [*words, "exec", "-i", *(["-c", backend.container] if backend.container else []), backend.name, "--"]
