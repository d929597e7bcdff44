"""The fields that both formats of topologies share: a zone's memory and huge pages, swap devices."""

from __future__ import annotations

from memqos.catalog.json_fields import JsonFields
from memqos.model.topology import HugePages, SwapDevice

__all__ = ["MIB", "MOST_ZONES", "hugepages_of", "memory_of", "swap_of"]

MIB = 1 << 20

MIN_ZONE_MIB = 64
"""Below this a zone cannot even hold its own page tables and the kernel's share."""

MOST_ZONES = 128
"""QEMU's limit of NUMA nodes."""

MAX_PRIORITY = 32767

PAGE_SIZES = {"2M": 2 * MIB, "1G": 1024 * MIB}
"""The huge pages that an x86-64 CPU has."""


def memory_of(fields: JsonFields, name: str, mib: int, *, has_cpus: bool) -> int:
    """A zone's memory in bytes; raises ManifestError for a zone that has too little to be one."""
    if mib == 0:
        if not has_cpus:
            raise fields.error(name, "must not be 0 in a NUMA node without CPUs: nothing would be left of it.", 0)
    elif mib < MIN_ZONE_MIB:
        raise fields.error(name, f"must be 0, or {MIN_ZONE_MIB} MiB or more (got {mib} MiB).", mib)
    return mib * MIB


def hugepages_of(fields: JsonFields, memory: int) -> tuple[HugePages, ...]:
    """A zone's huge pages, smaller ones first; raises ManifestError where its memory does not hold them."""
    counts = fields.child("hugepages", PAGE_SIZES)
    pages = tuple(
        HugePages(size_bytes=size, count=counts.number(name, low=1, high=1 << 20))
        for name, size in PAGE_SIZES.items()
        if counts.get(name) is not None
    )
    wanted = sum(page.size_bytes * page.count for page in pages)
    if pages and wanted > memory - MIN_ZONE_MIB * MIB:
        raise fields.error("hugepages", _too_many(wanted, memory), wanted)
    return pages


def swap_of(fields: JsonFields) -> tuple[SwapDevice, ...]:
    """The swap devices in the field `swap`."""
    return tuple(
        _device(JsonFields(item, fields.file, f"{fields.place}.swap[{number}]".lstrip("."), ("sizeMiB", "priority")))
        for number, item in enumerate(fields.items("swap", absent=[]))
    )


def _device(fields: JsonFields) -> SwapDevice:
    size = fields.number("sizeMiB", low=1, high=1 << 20)
    priority = None if fields.get("priority") is None else fields.number("priority", low=0, high=MAX_PRIORITY)
    return SwapDevice(size_bytes=size * MIB, priority=priority)


def _too_many(wanted: int, memory: int) -> str:
    return (
        f"take {wanted // MIB} MiB, and the NUMA node's {memory // MIB} MiB must keep {MIN_ZONE_MIB} MiB "
        "for everything else."
    )
