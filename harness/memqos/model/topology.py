"""What a machine's hardware looks like: CPUs, NUMA nodes, distances, swap devices. A value, whatever boots it.

In which order the kernel turns to NUMA nodes: to the nearest one that is allowed and has room.

A task's page is looked for on the zone of the CPU that it runs on, then on the others by their distance from that. The
zones of cpuset.mems that it may not use are passed over. Where two are equally far, the kernel shares the load between
them, and which comes first is not told here. Source: mm/page_alloc.c `find_next_best_node`, `build_zonelists` and
`get_page_from_freelist`; Documentation/mm/numa.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.model.node import NumaZone

__all__ = [
    "LOCAL_DISTANCE",
    "REMOTE_DISTANCE",
    "Fallback",
    "HugePages",
    "Processors",
    "SwapDevice",
    "Topology",
    "Zone",
    "fallback",
]

LOCAL_DISTANCE = 10
"""What ACPI's SLIT says of a zone's way to itself."""

REMOTE_DISTANCE = 20
"""What Linux assumes of the way between two zones where the firmware says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Huge pages of one size that a zone sets aside at boot: the size of each in bytes, and how many (> 0)."""

    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One NUMA node: its id, its memory in bytes and the CPUs that are local to it.

    No memory (0) is a zone of CPUs alone, no CPUs a zone of memory alone; a zone has one of them at least.
    hugepages: set aside from its memory, at most one of each size; empty is none.
    """

    id: int
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    hugepages: tuple[HugePages, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapDevice:
    """One swap device: its size in bytes (> 0) and swapon's priority.

    priority: 0 to 32767; None leaves the choice to the kernel, which then takes -2 and down.
    """

    size_bytes: int
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """How CPUs are put together; each number is 1 or more, and counts what is in one of the thing before it.

    CPUs are numbered thread by thread, core by core, die by die, package by package.
    """

    packages: int = 1
    dies: int = 1
    cores: int = 1
    threads: int = 1

    @property
    def cpus(self) -> int:
        """How many CPUs that makes."""
        return self.packages * self.dies * self.cores * self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A machine's hardware.

    cpus: number of CPUs (>= 1); every CPU belongs to exactly one zone.
    zones: in the order of their ids, which count from 0.
    distances: one row per zone, as in ACPI's SLIT (10 is local, 255 unreachable); empty leaves the firmware's default.
    swap: empty is a machine without swap.
    zswap: whether pages are compressed in memory before they go to a swap device; None leaves it to the kernel.
    processors: how the CPUs are put together; None is one package whose cores have one thread each.
    """

    name: str
    cpus: int
    zones: tuple[Zone, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    swap: tuple[SwapDevice, ...] = ()
    zswap: bool | None = None
    processors: Processors | None = None

    @property
    def memory_bytes(self) -> int:
        """Memory of all zones together, in bytes."""
        return sum(zone.memory_bytes for zone in self.zones)

    @property
    def layout(self) -> Processors:
        """How the CPUs are put together, said or not."""
        return self.processors or Processors(cores=self.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Ids of zones: one with CPUs, the nearest one to it, and one that is farther from it than that."""

    home: int
    near: int
    far: int


def fallback(zones: Sequence[NumaZone]) -> Fallback | None:
    """Three zones whose order shows: the home is the last one that has such; None where there are none.

    The nearest one is nearer than every other zone with memory, and the farther one is the one with the lowest id, as
    which a kernel that goes by numbers would take it first.
    """
    for home in reversed([zone for zone in zones if zone.cpus and zone.memory]):
        others = sorted((_distance(home, zones, one), one.id) for one in zones if one.memory and one.id != home.id)
        if len(others) > 1 and others[0][0] < others[1][0]:
            return Fallback(home=home.id, near=others[0][1], far=min(number for _, number in others[1:]))
    return None


def _distance(home: NumaZone, zones: Sequence[NumaZone], other: NumaZone) -> int:
    """As ACPI's SLIT has it, by the order of ids; 20, as the kernel takes it to be, where it is not told of each."""
    order = sorted(zone.id for zone in zones)
    return home.distances[order.index(other.id)] if len(home.distances) == len(order) else 20
