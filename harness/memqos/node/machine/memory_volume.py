"""A memory-backed volume, as the kubelet mounts one for an emptyDir with medium Memory: a tmpfs of the node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from memqos.clock import Deadline
from memqos.runtime.base import Mount
from memqos.target.base import Target, checked

__all__ = ["memory_volume"]

FOLDER = "/run/memqos/volume"
INSIDE = "/volume"
SECONDS = 30.0

_MOUNT = 'mkdir -p -- "$1" && mount -t tmpfs -o "$2" memqos "$1" && chmod 0777 -- "$1"'
_UNMOUNT = 'umount -- "$1" && rmdir -- "$1"'


@contextlib.contextmanager
def memory_volume(target: Target, *, noswap: bool) -> Iterator[Mount]:
    """A tmpfs on the target until the context ends, which containers see at /volume.

    noswap: whether its pages may never be swapped out (the mount option of kernels from 6.4 on), as the kubelet wants
    it on a node with swap. Raises TargetError on a kernel that does not know it.
    """
    options = "noswap,mode=0777" if noswap else "mode=0777"
    argv = ["sh", "-ec", _MOUNT, "memqos-volume", FOLDER, options]
    checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)
    try:
        yield Mount(container_path=INSIDE, host_path=FOLDER)
    finally:
        argv = ["sh", "-ec", _UNMOUNT, "memqos-unmount", FOLDER]
        checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)
