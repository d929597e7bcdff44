"""In which order the kernel turns to NUMA zones: to the nearest one that is allowed and has room.

A task's page is looked for on the zone of the CPU that it runs on, then on the others by their distance from that. The
zones of cpuset.mems that it may not use are passed over. Where two are equally far, the kernel shares the load between
them, and which comes first is not told here. Source: mm/page_alloc.c `find_next_best_node`, `build_zonelists` and
`get_page_from_freelist`; Documentation/mm/numa.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.model.node import NumaZone

__all__ = ["Fallback", "fallback"]


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
