"""A machine's hardware as a value: CPUs, NUMA nodes, distances, swap devices.

The kernel allocates a page on the nearest allowed NUMA node with room:

first on the NUMA node of the task's CPU, then on the others by their distance from it, only on NUMA nodes in
cpuset.mems. Between equally distant ones the kernel balances the load, and their order is not modelled here. Source:
mm/page_alloc.c `find_next_best_node`, `build_zonelists` and `get_page_from_freelist`; Documentation/mm/numa.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.model.node import NumaNode

__all__ = [
    "LOCAL_DISTANCE",
    "REMOTE_DISTANCE",
    "Fallback",
    "HugePages",
    "Processors",
    "SwapDevice",
    "Topology",
    "TopologyNode",
    "fallback",
    "topology_name",
]

LOCAL_DISTANCE = 10
"""ACPI's SLIT distance of a NUMA node to itself."""

REMOTE_DISTANCE = 20
"""Linux's default distance between two NUMA nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Huge pages of one size that a NUMA node reserves at boot: the page size in bytes, and the count (> 0)."""

    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """One NUMA node: its id, its memory in bytes and the CPUs that are local to it.

    Memory 0 means only CPUs, no CPUs only memory; a NUMA node has at least one of them.
    hugepages: reserved from its memory, at most one entry of each size; empty for none.
    """

    id: int
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    hugepages: tuple[HugePages, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapDevice:
    """One swap device: its size in bytes (> 0) and swapon's priority.

    priority: 0 to 32767; with None the kernel chooses -2 and below.
    """

    size_bytes: int
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """The CPU topology; each number is 1 or more and counts units within one unit of the previous level.

    CPUs are numbered thread by thread, core by core, die by die, package by package.
    """

    packages: int = 1
    dies: int = 1
    cores: int = 1
    threads: int = 1

    @property
    def cpus(self) -> int:
        """The number of CPUs."""
        return self.packages * self.dies * self.cores * self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A machine's hardware.

    cpus: number of CPUs (>= 1); every CPU belongs to exactly one NUMA node. numa_nodes: the NUMA nodes by id, from 0.
    distances: one row per NUMA node, as in ACPI's SLIT (10 is local, 255 unreachable); empty leaves the firmware's
    default. swap: empty for none.
    zswap: whether pages are compressed in memory before they go to a swap device; None leaves it to the kernel.
    processors: the CPU topology; None is one package with one thread per core.
    """

    name: str
    cpus: int
    numa_nodes: tuple[TopologyNode, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    swap: tuple[SwapDevice, ...] = ()
    zswap: bool | None = None
    processors: Processors | None = None

    @property
    def memory_bytes(self) -> int:
        """Memory of all NUMA nodes, in bytes."""
        return sum(numa.memory_bytes for numa in self.numa_nodes)

    @property
    def layout(self) -> Processors:
        """The CPU topology, given or default."""
        return self.processors or Processors(cores=self.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Ids of NUMA nodes: one with CPUs, the nearest one to it, and a farther one."""

    home: int
    near: int
    far: int


def fallback(numa_nodes: Sequence[NumaNode]) -> Fallback | None:
    """Three NUMA nodes with an observable order, with the last possible home; None if there are none.

    The nearest one is nearer than every other NUMA node with memory. The farther one has the lowest id, so a kernel
    that orders by id would use it first.
    """
    for home in reversed([numa for numa in numa_nodes if numa.cpus and numa.memory]):
        others = sorted(
            (_distance(home, numa_nodes, one), one.id) for one in numa_nodes if one.memory and one.id != home.id
        )
        if len(others) > 1 and others[0][0] < others[1][0]:
            return Fallback(home=home.id, near=others[0][1], far=min(number for _, number in others[1:]))
    return None


def _distance(home: NumaNode, numa_nodes: Sequence[NumaNode], other: NumaNode) -> int:
    """The distances as in ACPI's SLIT, by id; the kernel's default of 20 without given distances."""
    order = sorted(numa.id for numa in numa_nodes)
    return home.distances[order.index(other.id)] if len(home.distances) == len(order) else 20


_FORMER_NAMES = {
    "one-zone": "one-numa-node",
    "two-zones": "two-numa-nodes",
    "two-zones-no-swap": "two-numa-nodes-no-swap",
    "four-zones": "four-numa-nodes",
}
"""Shipped topologies by their names up to 0.1."""


def topology_name(name: str) -> str:
    """The present name of a shipped topology; any other name or path stays as it is."""
    return _FORMER_NAMES.get(name, name)
