"""The cgroup file system mounted anew, with memory_recursiveprot or without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from memqos.cgroupfs.hierarchy import Hierarchy, find_hierarchy
from memqos.cgroupfs.mount import MOUNTS, parse_mounts
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError
from memqos.model.node import CgroupVersion
from memqos.target.base import Target, checked

__all__ = ["mounted"]

OPTION = "memory_recursiveprot"
SECONDS = 30.0


@contextlib.contextmanager
def mounted(target: Target, known: Hierarchy, *, recursive: bool) -> Iterator[Hierarchy]:
    """The hierarchy with the option, or without, until the context ends; then as it was known.

    The option is one of the whole machine: a mount with other options changes it for all that see the hierarchy.
    Raises MachineryError if the kernel leaves it as it was, EnvironmentNotAbleError on cgroup v1.
    """
    _mount(target, recursive=recursive)
    try:
        found = find_hierarchy(target, deadline=Deadline.after(SECONDS))
        if found.is_recursive is not recursive:
            raise MachineryError(
                f"cgroups of {target.address} stay mounted {'without' if recursive else 'with'} {OPTION}.",
                next_step="Take a kernel with the option: 5.7 or later.",
            )
        yield found
    finally:
        _mount(target, recursive=known.is_recursive)


def _mount(target: Target, *, recursive: bool) -> None:
    text = (target.read(MOUNTS, deadline=Deadline.after(SECONDS)) or b"").decode("utf-8", "surrogateescape")
    mounts = [one for one in parse_mounts(text) if one.version is CgroupVersion.V2]
    if len(mounts) != 1:
        raise EnvironmentNotAbleError(
            f"cgroup v2 is mounted {len(mounts)} times, and one mount has the option {OPTION}.",
            where=target.address,
            next_step="Take a machine on cgroup v2.",
        )
    mount = mounts[0]
    options = sorted(mount.options - {OPTION}) + ([OPTION] if recursive else [])
    # Named with its source, or else mount takes the old options too.
    argv = ["mount", "-t", "cgroup2", "-o", ",".join(["remount", *options]), "cgroup2", mount.folder]
    checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)
