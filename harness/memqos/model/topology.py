"""What a machine's hardware looks like: CPUs, NUMA zones, distances, swap devices. A value, whatever boots it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LOCAL_DISTANCE", "REMOTE_DISTANCE", "SwapDevice", "Topology", "Zone"]

LOCAL_DISTANCE = 10
"""What ACPI's SLIT says of a zone's way to itself."""

REMOTE_DISTANCE = 20
"""What Linux assumes of the way between two zones where the firmware says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One NUMA zone: its id, its memory in bytes (> 0) and the CPUs that are local to it (none: memory only)."""

    id: int
    memory_bytes: int
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapDevice:
    """One swap device: its size in bytes (> 0) and swapon's priority.

    priority: 0 to 32767; None leaves the choice to the kernel, which then takes -2 and down.
    """

    size_bytes: int
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A machine's hardware.

    cpus: number of CPUs (>= 1); every CPU belongs to exactly one zone.
    zones: in the order of their ids, which count from 0.
    distances: one row a zone, as in ACPI's SLIT (10 is local, 255 unreachable); empty leaves the firmware's default.
    swap: empty is a machine without swap.
    """

    name: str
    cpus: int
    zones: tuple[Zone, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    swap: tuple[SwapDevice, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory of all zones together, in bytes."""
        return sum(zone.memory_bytes for zone in self.zones)

    @property
    def swap_bytes(self) -> int:
        """Swap of all devices together, in bytes; 0 is a machine without swap."""
        return sum(device.size_bytes for device in self.swap)
