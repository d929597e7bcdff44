"""Remounts the cgroup file system with memory_recursiveprot or without it, and mounts volumes as the kubelet does.

Volumes: an emptyDir on tmpfs (Memory) and on huge pages (HugePages).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memqos.cgroupfs.hierarchy import MOUNTS, RECURSIVE_PROTECTION, Hierarchy, find_hierarchy, parse_mounts
from memqos.clock import Deadline
from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Finding, Subject, Verdict
from memqos.errors import EnvironmentNotAbleError, MachineryError
from memqos.model.node import CgroupVersion
from memqos.runtime.base import Mount
from memqos.target.base import Target, checked

__all__ = ["HugeVolume", "huge_volume", "memory_volume", "mounted"]

SECONDS = 30.0


@contextlib.contextmanager
def mounted(target: Target, known: Hierarchy, *, recursive: bool) -> Iterator[Hierarchy]:
    """The hierarchy with the option, or without it, until the context ends; then as before.

    The option is global: remounting changes it for every mount of the hierarchy. Raises MachineryError if the kernel
    ignores the change, EnvironmentNotAbleError on cgroup v1.
    """
    _mount(target, recursive=recursive)
    try:
        found = find_hierarchy(target, deadline=Deadline.after(SECONDS))
        if found.is_recursive is not recursive:
            how = "without" if recursive else "with"
            raise MachineryError(
                f"cgroups of {target.address} stay mounted {how} {RECURSIVE_PROTECTION}.",
                next_step="Use a kernel with the option: 5.7 or later.",
            )
        yield found
    finally:
        _mount(target, recursive=known.is_recursive)


def _mount(target: Target, *, recursive: bool) -> None:
    text = (target.read(MOUNTS, deadline=Deadline.after(SECONDS)) or b"").decode("utf-8", "surrogateescape")
    mounts = [one for one in parse_mounts(text) if one.version is CgroupVersion.V2]
    if len(mounts) != 1:
        raise EnvironmentNotAbleError(
            f"cgroup v2 is mounted {len(mounts)} times, and one mount has the option {RECURSIVE_PROTECTION}.",
            where=target.address,
            next_step="Use a machine with cgroup v2.",
        )
    mount = mounts[0]
    options = sorted(mount.options - {RECURSIVE_PROTECTION}) + ([RECURSIVE_PROTECTION] if recursive else [])
    # The source is named too, or mount would keep the old options.
    argv = ["mount", "-t", "cgroup2", "-o", ",".join(["remount", *options]), "cgroup2", mount.folder]
    checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)


FOLDER = "/run/memqos/volume"
INSIDE = "/volume"

_MOUNT = 'mkdir -p -- "$1" && mount -t tmpfs -o "$2" memqos "$1" && chmod 0777 -- "$1"'
_UNMOUNT = 'umount -- "$1" && rmdir -- "$1"'


@contextlib.contextmanager
def memory_volume(target: Target, *, noswap: bool) -> Iterator[Mount]:
    """A tmpfs on the target until the context ends, mounted in containers at /volume.

    noswap: whether its pages may never be swapped out (a mount option from 6.4 on), as the kubelet requires on a node
    with swap. Raises TargetError on a kernel without the option.
    """
    options = "noswap,mode=0777" if noswap else "mode=0777"
    argv = ["sh", "-ec", _MOUNT, "memqos-volume", FOLDER, options]
    checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)
    try:
        yield Mount(container_path=INSIDE, host_path=FOLDER)
    finally:
        argv = ["sh", "-ec", _UNMOUNT, "memqos-unmount", FOLDER]
        checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)


HUGE_FOLDER = "/run/memqos/huge"
HUGE_INSIDE = "/huge"
PAGES = 16
"""Huge pages of 2 MiB added to each NUMA node: twice what a program takes."""

HUGE_SECONDS = 120.0
KNOB = "huge pages in use"

_COUNT = """\
for node in /sys/devices/system/node/node*; do
  pages=$node/hugepages/hugepages-2048kB
  echo "${node##*node} $(cat "$pages/nr_hugepages") $(cat "$pages/free_hugepages")"
done
"""
_MOUNT_HUGE = """\
echo 1 >/proc/sys/vm/compact_memory
for pages in /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages; do
  echo $(($(cat "$pages") + $2)) >"$pages"
done
mkdir -p -- "$1"
mount -t hugetlbfs -o pagesize=2M,mode=0777 memqos "$1"
"""
_UNMOUNT_HUGE = """\
umount -- "$1"
rmdir -- "$1"
shift
for node; do
  echo "${node#*=}" >"/sys/devices/system/node/node${node%=*}/hugepages/hugepages-2048kB/nr_hugepages"
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeVolume:
    """A mounted volume. mount: the containers' mount; before: huge pages in use by NUMA node when it was mounted."""

    target: Target
    mount: Mount
    before: Mapping[int, int]

    def is_only_on(self, numa_node: int) -> Finding:
        """All huge pages taken since then are of this NUMA node; not observable while none are."""
        taken = {one: total - free - self.before[one] for one, (total, free) in _counted(self.target).items()}
        shown = " ".join(f"N{one}={pages}" for one, pages in sorted(taken.items()))
        why = "" if any(taken.values()) else "no huge page is in use"
        holds = taken.get(numa_node, 0) > 0 and not any(pages for one, pages in taken.items() if one != numa_node)
        return Finding(
            verdict=Verdict.of(holds, why),
            subject=Subject.of_machine("the volume of huge pages"),
            cgroup="/",
            knob=KNOB,
            set_by=behaviour_setter(KNOB, ""),
            expected=f"N{numa_node} only",
            observed="" if why else shown,
            reason=behaviour_reason(KNOB, "", {}),
            why_not=why,
        )


@contextlib.contextmanager
def huge_volume(target: Target) -> Iterator[HugeVolume]:
    """Huge pages of 2 MiB on each NUMA node, and a hugetlbfs with them on the target, until the context ends.

    MachineryError if a NUMA node has no contiguous memory for them.
    """
    before = _counted(target)
    argv = ["sh", "-ec", _MOUNT_HUGE, "memqos-huge", HUGE_FOLDER, str(PAGES)]
    checked(target.run(argv, deadline=Deadline.after(HUGE_SECONDS)), where=target.address)
    try:
        short = [
            numa_node for numa_node, (total, _) in _counted(target).items() if total < before[numa_node][0] + PAGES // 2
        ]
        if short:
            raise MachineryError(
                f"NUMA node {short[0]} of {target.address} has no room for {PAGES // 2} huge pages of 2 MiB.",
                next_step="Its memory is fragmented: take a machine that has just been booted.",
            )
        yield HugeVolume(
            target=target,
            mount=Mount(container_path=HUGE_INSIDE, host_path=HUGE_FOLDER),
            before={numa_node: total - free for numa_node, (total, free) in before.items()},
        )
    finally:
        numa_nodes = [f"{numa_node}={total}" for numa_node, (total, _) in before.items()]
        argv = ["sh", "-ec", _UNMOUNT_HUGE, "memqos-unhuge", HUGE_FOLDER, *numa_nodes]
        checked(target.run(argv, deadline=Deadline.after(HUGE_SECONDS)), where=target.address)


def _counted(target: Target) -> dict[int, tuple[int, int]]:
    """Total and free huge pages by NUMA node."""
    said = checked(
        target.run(["sh", "-ec", _COUNT, "memqos-huge-pages"], deadline=Deadline.after(HUGE_SECONDS)),
        where=target.address,
    ).text
    rows = (line.split() for line in said.splitlines())
    return {int(numa_node): (int(total), int(free)) for numa_node, total, free in rows}
