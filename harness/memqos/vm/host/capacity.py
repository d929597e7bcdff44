"""How many machines this host runs side by side: its available memory, and its processors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError

__all__ = ["Capacity", "Host", "capacity", "check_room", "fastest", "host_memory", "read_host"]

QEMU_BYTES = 192 << 20
"""QEMU's own memory besides the guest's, most of it translated code."""

OWN_SHARE = 11 / 16
"""The fraction of a machine's memory that becomes private while suites run on it.

The rest is never touched, or shared with its checkpoint and the other clones of it. The most that samples showed with
machines of 2 GiB was 1461 MiB while all suites ran, two machines at a time; this fraction gives 1600 MiB with QEMU.
"""

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFiles:
    """Each cgroup version's files for its limit, its usage, and the droppable file pages in memory.stat."""

    limit: str
    used: str
    droppable: str


V2 = MemoryFiles(limit="memory.max", used="memory.current", droppable="inactive_file")
V1 = MemoryFiles(limit="memory.limit_in_bytes", used="memory.usage_in_bytes", droppable="total_inactive_file")
"""Without a limit it holds a number beyond any memory. Statistics that begin with "total_" include descendants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host's resources: memory in bytes, available without swapping, and processors."""

    available: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many machines at a time, at least one, and the reason for the limit: what fits, or what is useful."""

    machines: int
    reason: str


def capacity(host: Host, *, memory_bytes: int, checkpoint_bytes: int) -> Capacity:
    """How many clones of one checkpoint fit on a host.

    memory_bytes: the machine's. checkpoint_bytes: the checkpoint's size; it is in memory once, however many share it. A
    host without room for one still gets one: it may swap, or memory may become free in time.
    """
    own = int(memory_bytes * OWN_SHARE) + QEMU_BYTES
    by_memory = max(1, (host.available - checkpoint_bytes) // own)
    if host.cores <= by_memory:
        return Capacity(machines=host.cores, reason=f"this host has {_count(host.cores, 'processor')}")
    room = f"{host.available >> 20} MiB of memory are available, and a machine takes up to {own >> 20} MiB"
    return Capacity(machines=by_memory, reason=room)


def fastest(host: Host, fitting: Capacity, *, cpus: int, emulated: bool) -> Capacity:
    """How many of the machines that fit make a run of suites fastest.

    cpus: each machine's. An emulated CPU occupies one of the host's while it has work; a machine of two had work for
    1.4 of them on average while values were read. A further machine on the same CPUs only takes turns with it, and has
    to create sandboxes of its own. With KVM the same work takes a tenth of that, and the rest is mostly waiting: then
    every CPU of the host is worth a machine.
    """
    if not emulated:
        why = "with KVM machines mostly wait, so this host runs one per processor"
        return fitting if fitting.machines < host.cores else Capacity(machines=host.cores, reason=why)
    useful = max(1, host.cores // cpus)
    if fitting.machines <= useful:
        return fitting
    why = (
        f"under emulation a machine keeps {cpus} of this host's {_count(host.cores, 'processor')} busy, "
        "so more machines would only compete"
    )
    return Capacity(machines=useful, reason=why)


def read_host() -> Host:
    """This host, as far as this process may use it: cgroups above it may allow less."""
    available = _meminfo(MEMINFO.read_text())["MemAvailable"]
    limited = [room for folder, files in _own_cgroups() if (room := _room(folder, files)) is not None]
    return Host(available=min([available, *limited]), cores=len(os.sched_getaffinity(0)))


def host_memory() -> int:
    """The bytes of memory that this process may use at most: the host's, or what its cgroups allow."""
    limits = [_limit(folder, files) for folder, files in _own_cgroups()]
    return min([_meminfo(MEMINFO.read_text())["MemTotal"], *(limit for limit in limits if limit is not None)])


def check_room(topology: str, memory_bytes: int, *, memory: int | None = None) -> None:
    """Raise EnvironmentNotAbleError for a machine of this topology with more memory than an idle host has.

    memory: the host's, in bytes; None to read it.
    """
    whole = host_memory() if memory is None else memory
    if memory_bytes + QEMU_BYTES > whole:
        fits = max(0, whole - QEMU_BYTES) >> 20
        raise EnvironmentNotAbleError(
            f"the topology '{topology}' has {memory_bytes >> 20} MiB of memory, but this host only {whole >> 20} MiB.",
            where="--topology",
            next_step=f"Reduce its NUMA nodes to {fits} MiB in total: QEMU needs {QEMU_BYTES >> 20} MiB for itself.",
            data={"wanted": memory_bytes, "host": whole},
        )


def _meminfo(text: str) -> dict[str, int]:
    """Bytes by name."""
    words = (line.split() for line in text.splitlines())
    return {word[0].rstrip(":"): int(word[1]) << 10 for word in words if len(word) > 1}


def _own_cgroups() -> Iterator[tuple[Path, MemoryFiles]]:
    """The cgroups, of either version, that this process's memory is charged to, innermost first.

    In a container the path may be the host's, of which only the root exists: its ancestors are read too.
    """
    try:
        lines = CGROUP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, files = CGROUP_ROOT, V2
        elif "memory" in controllers.split(","):
            root, files = CGROUP_ROOT / "memory", V1
        else:
            continue
        own = root / path.lstrip("/")
        yield from ((folder, files) for folder in (own, *own.parents) if folder.is_relative_to(root))


def _room(cgroup: Path, files: MemoryFiles) -> int | None:
    """What a cgroup's limit leaves, including droppable file pages; None without a limit."""
    limit = _limit(cgroup, files)
    if limit is None:
        return None
    try:
        used = int((cgroup / files.used).read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return limit - used + int(stat.get(files.droppable, 0))
    except (OSError, ValueError):
        return None


def _limit(cgroup: Path, files: MemoryFiles) -> int | None:
    """A cgroup's limit in bytes; None without one."""
    try:
        text = (cgroup / files.limit).read_text().strip()
        return None if text == "max" else int(text)
    except (OSError, ValueError):
        return None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
