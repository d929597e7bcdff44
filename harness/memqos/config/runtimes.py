"""How people name the runtime that is tested: an OCI runtime, alone or below what drives it."""

from __future__ import annotations

import re

from memqos.engine.translate.versions import DRIVEN_DIRECTLY, OCI_RUNTIMES, RuntimeName

__all__ = [
    "BY_HANDLER",
    "DIRECTLY",
    "OVER_CRIO",
    "RUNTIMES",
    "below_docker",
    "is_gvisor",
    "oci_runtime",
    "offered_name",
]

DIRECTLY = "oci:"
"""Before an OCI runtime that is driven with no daemon in between."""
_OVER_CONTAINERD = "containerd+"
OVER_CRIO = "crio+"
_BELOW_DOCKER = "docker+"
BY_HANDLER = "cri+"
"""Before a handler of the server on a socket that a person names, whatever both are."""
RUNTIMES = tuple(
    f"{prefix}{name}"
    for prefix, names in (
        *((one, OCI_RUNTIMES) for one in ("", _OVER_CONTAINERD, OVER_CRIO, _BELOW_DOCKER)),
        (DIRECTLY, DRIVEN_DIRECTLY),
    )
    for name in names
)


def offered_name(chosen: str) -> str:
    """The runtime as places offer it, such as "oci:runc"; an OCI runtime alone is one below containerd."""
    return f"{_OVER_CONTAINERD}{chosen}" if chosen in OCI_RUNTIMES else chosen


def below_docker(chosen: str) -> bool:
    """Whether the Docker Engine makes the containers of a choice."""
    return chosen.startswith(_BELOW_DOCKER)


def is_gvisor(chosen: str) -> bool:
    """Whether a choice is runsc of the machine, which is in an image where it is asked for."""
    return chosen == f"{DIRECTLY}{RuntimeName.RUNSC}"


def oci_runtime(chosen: str) -> str:
    """The OCI runtime of a choice: "runc" of "runc", "containerd+runc", "docker+runc" and "oci:runc"."""
    return re.split(r"[+:]", chosen)[-1]
