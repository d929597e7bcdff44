"""A topology file as types, and the common part of both formats: a NUMA node's memory, huge pages and swap."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from memqos.model.topology import HugePages, SwapDevice
from memqos.validation import CheckedFile, Place

__all__ = [
    "MIB",
    "MOST_CPUS",
    "MOST_ZONES",
    "HugePageCounts",
    "SwapEntry",
    "TopologyFile",
    "ZoneEntry",
    "hugepages_of",
    "memory_of",
]

MIB = 1 << 20
GIB = 1 << 30

MIN_ZONE_MIB = 64
"""Less memory is not enough for a NUMA node's page tables and the kernel's share."""

MOST_ZONES = 128
"""QEMU's limit of NUMA nodes."""

MOST_CPUS = 64

_Mib = Annotated[int, Meta(ge=0, le=1 << 20, description="a whole number from 0 to 1048576")]
_Count = Annotated[int, Meta(ge=1, le=1 << 20, description="a whole number from 1 to 1048576")]
_Cpu = Annotated[int, Meta(ge=0, le=MOST_CPUS - 1, description="a CPU's number, from 0 to 63")]
_Cpus = Annotated[int, Meta(ge=1, le=MOST_CPUS, description="a whole number from 1 to 64")]
_Priority = Annotated[int, Meta(ge=0, le=32767, description="a whole number from 0 to 32767")]


class HugePageCounts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Huge pages that a NUMA node reserves at boot, by size."""

    two_mib: _Count | None = msgspec.field(name="2M", default=None)
    one_gib: _Count | None = msgspec.field(name="1G", default=None)

    @property
    def pages(self) -> tuple[HugePages, ...]:
        """The same, smaller ones first."""
        counts = ((2 * MIB, self.two_mib), (GIB, self.one_gib))
        return tuple(HugePages(size_bytes=size, count=count) for size, count in counts if count is not None)


class SwapEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A swap device."""

    sizeMiB: _Count  # noqa: N815 - as the file has it
    priority: _Priority | None = None
    """swapon's; missing: the kernel's choice."""

    @property
    def device(self) -> SwapDevice:
        """The same in bytes."""
        return SwapDevice(size_bytes=self.sizeMiB * MIB, priority=self.priority)


class ProcessorCounts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CPU topology: the number of units in one unit of the previous level."""

    packages: _Cpus = 1
    dies: _Cpus = 1
    cores: _Cpus = 1
    threads: _Cpus = 1


class ZoneEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A NUMA node. Without memory (0 MiB) it has only CPUs, without CPUs only memory."""

    memoryMiB: _Mib  # noqa: N815 - as the file has it
    cpus: list[_Cpu] = []
    hugepages: HugePageCounts = HugePageCounts()


class TopologyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine's hardware, as `--topology FILE` reads it."""

    cpus: _Cpus
    zones: Annotated[list[ZoneEntry], Meta(min_length=1, description="a list that is not empty")]
    """The NUMA nodes by id; each CPU is in one."""
    purpose: str = ""
    processors: ProcessorCounts | None = None
    """Missing: one package of cores with one thread each."""
    distances: list[list[int]] = []
    """A row for each NUMA node, in the units of ACPI's SLIT; missing: the firmware's."""
    swap: list[SwapEntry] = []
    zswap: bool | None = None
    """Missing: the kernel's choice."""


def memory_of(file: CheckedFile, place: Place, mib: int, *, has_cpus: bool) -> int:
    """A NUMA node's memory in bytes; raises ManifestError for too little."""
    if mib == 0 and not has_cpus:
        what = "must not be 0 in a NUMA node without CPUs: nothing would be left of it."
        raise file.error(what, place, got=0)
    if 0 < mib < MIN_ZONE_MIB:
        raise file.error(f"must be 0, or {MIN_ZONE_MIB} MiB or more (got {mib} MiB).", place, got=mib)
    return mib * MIB


def hugepages_of(file: CheckedFile, place: Place, counts: HugePageCounts, memory: int) -> tuple[HugePages, ...]:
    """A NUMA node's huge pages; raises ManifestError if they do not fit into its memory."""
    wanted = sum(page.size_bytes * page.count for page in counts.pages)
    if counts.pages and wanted > memory - MIN_ZONE_MIB * MIB:
        what = (
            f"take {wanted // MIB} MiB, and the NUMA node's {memory // MIB} MiB must keep {MIN_ZONE_MIB} MiB "
            "for everything else."
        )
        raise file.error(what, place, got=wanted)
    return counts.pages
