"""Whether an ordinary user can build images here: a user namespace in which they are root and have further ids."""

from __future__ import annotations

import getpass
import os
import subprocess

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.host.programs import find_program

__all__ = ["namespace_obstacle", "need_namespaces"]

TRY = ("--user", "--map-root-user", "--map-auto", "--mount", "true")
"""What a build does with unshare, doing nothing."""


def namespace_obstacle() -> str | None:
    """Why this user cannot make such a namespace, in unshare's words; None if it works, or if it is root's.

    Raises MissingProgramError if a program is missing that it takes.
    """
    if os.geteuid() == 0:
        return None
    find_program("newuidmap")
    argv = [str(find_program("unshare")), *TRY]
    told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if told.returncode == 0:
        return None
    said = told.stderr.strip().removeprefix("unshare: ").removesuffix(": Success")
    return said or f"unshare ended with status {told.returncode}"


def need_namespaces() -> None:
    """Raise EnvironmentNotAbleError, naming what to change on the host, if this user cannot build images."""
    if obstacle := namespace_obstacle():
        user = getpass.getuser()
        raise EnvironmentNotAbleError(
            f"this host does not let '{user}' create a user namespace with subordinate ids: {obstacle}.",
            next_step=f"As root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}; "
            "where AppArmor restricts it (Ubuntu), sysctl kernel.apparmor_restrict_unprivileged_userns=0. "
            "Or build as root.",
            data={"user": user, "obstacle": obstacle},
        )
