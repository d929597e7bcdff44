"""The checksum of a memory_manager_state file: FNV-1a (32 bits) over Go's own picture of the checkpoint.

The kubelet hashes what the spew library prints for the structure ("%#v" with sorted keys, no addresses), so this
module prints the same text: type names, field names and map order are Go's. It reproduces what kubelets wrote, byte
for byte. Up to 1.35 and, with PodLevelResourceManagers off, in 1.36 the name in the picture is
MemoryManagerCheckpoint without pod entries; with the gate on it has them.

Sources: kubelet `checkpointmanager/checksum`, `cm/memorymanager/state/checkpoint.go`, k8s.io/utils `dump.ForHash`.
"""

from __future__ import annotations

from collections.abc import Iterable

from memqos.engine.numa.zone_table import Block, ZoneMemory, ZoneState, ZoneTable

__all__ = ["checksum", "fnv1a_32", "picture"]

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """FNV-1a of 32 bits."""
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def checksum(policy: str, table: ZoneTable, *, with_pods: bool) -> int:
    """The checksum that belongs into a file with this policy's name and table; with_pods: the newer format."""
    return fnv1a_32(picture(policy, table, with_pods=with_pods).encode())


def picture(policy: str, table: ZoneTable, *, with_pods: bool) -> str:
    """The text that is hashed."""
    zones = " ".join(f"{zone_id}:<*>{_zone(table.zones[zone_id])}" for zone_id in table.ids)
    entries = " ".join(
        f"{uid}:map[{' '.join(f'{name}:[{_blocks(blocks)}]' for name, blocks in sorted(names.items()))}]"
        for uid, names in sorted(table.assignments.items())
    )
    pods = " ".join(
        f"{uid}:{{MemoryBlocks:([]state.Block)[{_blocks(blocks)}]}}" for uid, blocks in sorted(table.pod_blocks.items())
    )
    pod_entries = f"PodEntries:(state.PodMemoryAssignments)map[{pods}] " if with_pods else ""
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){policy} "
        f"MachineState:(state.NUMANodeMap)map[{zones}] "
        f"Entries:(state.ContainerMemoryAssignments)map[{entries}] "
        f"{pod_entries}Checksum:(checksum.Checksum)0}}"
    )


def _zone(zone: ZoneState) -> str:
    memory = " ".join(f"{kind}:<*>{_memory(amounts)}" for kind, amounts in sorted(zone.memory.items()))
    return (
        f"{{NumberOfAssignments:(int){zone.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[{memory}] "
        f"Cells:([]int)[{_numbers(zone.cells)}]}}"
    )


def _memory(memory: ZoneMemory) -> str:
    return (
        f"{{TotalMemSize:(uint64){memory.total} SystemReserved:(uint64){memory.system_reserved} "
        f"Allocatable:(uint64){memory.allocatable} Reserved:(uint64){memory.reserved} Free:(uint64){memory.free}}}"
    )


def _blocks(blocks: Iterable[Block]) -> str:
    return " ".join(
        f"{{NUMAAffinity:([]int)[{_numbers(one.zones)}] Type:(v1.ResourceName){one.kind} Size:(uint64){one.size}}}"
        for one in blocks
    )


def _numbers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
