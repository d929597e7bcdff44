"""A node's table before any pod is placed.

Source: kubelet `policy_static.go` (getDefaultMachineState, NewPolicyStatic), `topology_manager.go` (NewManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memqos.engine.numa.bitmask import FULL
from memqos.engine.numa.policies import MemoryPolicy, Policies, TopologyPolicy, configuration_error
from memqos.engine.numa.reservation import Reserved, by_zone, check_fields, check_sums, in_words, node_reservation
from memqos.engine.numa.zone_table import MEMORY, ZoneMemory, ZoneState, ZoneTable
from memqos.engine.pod.hugepages import PREFIX
from memqos.errors import UsageError
from memqos.model.node import KubeletSettings, NodeFacts, NumaZone

__all__ = ["MOST_ZONES", "empty_table", "first_table", "numa_zones"]

MOST_ZONES = 16
"""The most zones with either manager on: n zones make 2^n - 1 sets, which a kubelet walks for every container."""

_WRAP = 1 << 64


def first_table(facts: NodeFacts, settings: KubeletSettings, policies: Policies) -> ZoneTable:
    """The table that a kubelet starts with when it finds no checkpoint.

    ManifestError for a `reservedMemory` or a number of zones that this kubelet does not start with, UsageError for a
    zone that reserves more than it has. With the policy None nothing is reserved, and `reservedMemory` is only looked
    at for itself.
    """
    zones = {zone.id: zone for zone in numa_zones(facts)}
    check_fields(settings)
    _check_topology(settings, policies, zones)
    if policies.memory is MemoryPolicy.NONE:
        return empty_table(zones.values(), {}, facts.hugepage_sizes)
    _check_size(zones, "memoryManagerPolicy Static")
    check_sums(settings, node_reservation(settings, facts.memory), zones)
    reserved = by_zone(settings, zones)
    if not any(amounts.get(MEMORY) for amounts in reserved.values()):
        raise configuration_error(
            settings,
            "reservedMemory",
            "the policy Static needs memory to be reserved in at least one zone.",
            "Give reservedMemory.",
        )
    return _checked(empty_table(zones.values(), reserved, facts.hugepage_sizes))


def empty_table(zones: Iterable[NumaZone], reserved: Reserved, hugepage_sizes: Iterable[int]) -> ZoneTable:
    """Zones with nothing taken: allocatable is the total less what is reserved, for memory also less all huge pages.

    hugepage_sizes: the page sizes in bytes that the kernel knows, which every zone has a row for. Where a zone reserves
    more than it has, allocatable wraps around at 2^64, as in the kubelet, which starts nevertheless.
    """
    return ZoneTable(
        zones={zone.id: _zone(zone, reserved.get(zone.id, {}), hugepage_sizes) for zone in zones},
        distances={zone.id: zone.distances for zone in zones},
    )


def numa_zones(facts: NodeFacts) -> tuple[NumaZone, ...]:
    """The machine's zones; one that names none is one zone, as the kubelet sees it."""
    return facts.zones or (NumaZone(id=0, memory=facts.memory, cpus=tuple(range(facts.cpus))),)


def _zone(zone: NumaZone, reserved: Mapping[str, int], hugepage_sizes: Iterable[int]) -> ZoneState:
    pages = dict.fromkeys(hugepage_sizes, 0) | dict(zone.hugepages)
    totals = {f"{PREFIX}{in_words(size)}": size * pages[size] for size in sorted(pages)}
    memory = {kind: _untouched(total, reserved.get(kind, 0)) for kind, total in totals.items()}
    memory[MEMORY] = _untouched(zone.memory, reserved.get(MEMORY, 0), sum(totals.values()))
    return ZoneState(id=zone.id, cells=(zone.id,), memory=memory)


def _untouched(zone_total: int, reserved: int, elsewhere: int = 0) -> ZoneMemory:
    """One row; elsewhere: bytes of it that huge pages take."""
    allocatable = (zone_total - reserved - elsewhere) % _WRAP
    return ZoneMemory(total=zone_total, system_reserved=reserved, allocatable=allocatable, free=allocatable)


def _checked(table: ZoneTable) -> ZoneTable:
    """The table itself; UsageError if a zone keeps more of a type than it has, so that allocatable wrapped around."""
    for zone in table.zones.values():
        for kind, memory in zone.memory.items():
            if memory.allocatable > memory.total:
                pages = memory.total + _WRAP - memory.system_reserved - memory.allocatable
                raise UsageError(
                    f"zone {zone.id} has {in_words(memory.total)} of {kind}, which is less than what reservedMemory "
                    f"({in_words(memory.system_reserved)}) and huge pages ({in_words(pages)}) take of it.",
                    next_step="Reserve less in this zone.",
                    data={"zone": zone.id, "type": kind, "total": memory.total, "reserved": memory.system_reserved},
                )
    return table


def _check_size(zones: Mapping[int, NumaZone], policy: str) -> None:
    if len(zones) > MOST_ZONES or max(zones) >= FULL.count:
        raise UsageError(
            f"this machine has {len(zones)} zones, the last one {max(zones)}: {policy} looks at every set of zones, "
            f"which memqos follows up to {MOST_ZONES} zones with ids below {FULL.count}.",
            next_step="Switch the policy off for this machine.",
            data={"zones": sorted(zones), "policy": policy},
        )


def _check_topology(settings: KubeletSettings, policies: Policies, zones: Mapping[int, NumaZone]) -> None:
    """What the Topology Manager asks of the machine; nothing with the policy none."""
    if policies.topology is TopologyPolicy.NONE:
        return
    _check_size(zones, f"topologyManagerPolicy {policies.topology}")
    if len(zones) > policies.options.max_zones:
        raise configuration_error(
            settings,
            "topologyManagerPolicy",
            f"the policy {policies.topology} takes at most {policies.options.max_zones} zones; this machine has "
            f"{len(zones)}.",
            "Raise max-allowable-numa-nodes (1.31 and later), or use the policy none.",
        )
    short = [zone.id for zone in zones.values() if len(zone.distances) <= max(zones)]
    if policies.options.prefer_closest and short:
        raise UsageError(
            f"zone {short[0]} does not say how far every other zone is, which prefer-closest-numa-nodes asks for.",
            next_step="Give the distances of every zone.",
            data={"zones": short},
        )
