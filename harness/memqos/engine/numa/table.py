"""The table of NUMA nodes: their memory, and the parts taken by containers. Every change returns a new table.

Source: kubelet `cm/memorymanager/state` (NUMANodeMap, Block) and `policy_static.go` (getDefaultMachineState,
updateMachineState, releaseMemory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

__all__ = ["MEMORY", "Block", "Blocks", "MemoryTable", "NumaNodeState", "NumaTable"]

MEMORY = "memory"
"""The memory type of ordinary pages; the others are named like resources: hugepages-2Mi."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTable:
    """One type of memory in one NUMA node, in bytes (all >= 0).

    total: the NUMA node's memory. system_reserved: its share in `reservedMemory`. allocatable: the memory for
    containers. reserved and free: the two parts of it. In the kubelet's table reserved + free = allocatable; in a table
    read from a file perhaps not.
    """

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


_NOTHING = MemoryTable()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNodeState:
    """One NUMA node.

    assignments: how many (container, memory type) pairs hold memory here, also if it is 0 bytes.
    cells: the NUMA nodes of its group, itself included; only itself without a group. memory: by memory type; a missing
    type is not available here.
    """

    id: int
    assignments: int = 0
    cells: tuple[int, ...] = ()
    memory: Mapping[str, MemoryTable] = field(default_factory=dict)

    def of(self, kind: str) -> MemoryTable:
        """The memory of one type; all zeros for a type that the NUMA node does not have."""
        return self.memory.get(kind, _NOTHING)

    def moved(self, kind: str, size: int, *, counted: int, cells: tuple[int, ...]) -> NumaNodeState:
        """With `size` bytes of a type turned from free to reserved (back if negative), and `counted` assignments more.

        A size of 0 leaves the memory as it is.
        """
        memory = self.memory
        if size:
            old = self.of(kind)
            new = replace(old, reserved=old.reserved + size, free=old.free - size)
            memory = {**memory, kind: new}
        return NumaNodeState(id=self.id, assignments=self.assignments + counted, cells=cells, memory=memory)


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of one type that a container (or pod) holds: its NUMA nodes together, and the bytes.

    numa_nodes is ascending; a block of size 0 had its memory reused by a later container.
    """

    numa_nodes: tuple[int, ...]
    kind: str
    size: int


Blocks = tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaTable:
    """All NUMA nodes of a node by id, and the blocks of every container.

    assignments: pod uid to container name to blocks. pod_blocks: pod uid to the blocks of a pod that was placed as a
    whole (its containers' blocks are then shares of these). distances: NUMA node id to its distance to every NUMA
    node, by id.
    """

    numa_nodes: Mapping[int, NumaNodeState]
    assignments: Mapping[str, Mapping[str, Blocks]] = field(default_factory=dict)
    pod_blocks: Mapping[str, Blocks] = field(default_factory=dict)
    distances: Mapping[int, tuple[int, ...]] = field(default_factory=dict, compare=False)

    @property
    def ids(self) -> tuple[int, ...]:
        """The NUMA nodes' ids, ascending."""
        return tuple(sorted(self.numa_nodes))

    def blocks(self, pod_uid: str, container: str) -> Blocks | None:
        """The blocks of a container; None if it was never placed; no blocks if it requests nothing."""
        return self.assignments.get(pod_uid, {}).get(container)

    def numa_nodes_of(self, pod_uid: str, container: str) -> tuple[int, ...]:
        """The NUMA nodes of all blocks of a container, ascending; empty for a container without blocks."""
        return tuple(sorted({numa for block in self.blocks(pod_uid, container) or () for numa in block.numa_nodes}))

    def taken(self, numa_nodes: Iterable[int], kind: str, size: int) -> NumaTable:
        """With `size` bytes (at most the free ones) taken from these NUMA nodes in order, all of them in one group.

        Every NUMA node counts one assignment, even if it gives nothing.
        """
        group = tuple(numa_nodes)
        changed = dict(self.numa_nodes)
        left = size
        for numa_id in group:
            numa = changed[numa_id]
            share = min(numa.of(kind).free, left)
            changed[numa_id] = numa.moved(kind, share, counted=1, cells=group)
            left -= share
        return replace(self, numa_nodes=changed)

    def given_back(self, blocks: Iterable[Block]) -> NumaTable:
        """With these blocks given back, to the first NUMA node first: the split may differ from that of the taking."""
        changed = dict(self.numa_nodes)
        for block in blocks:
            left = block.size
            for numa_id in block.numa_nodes:
                numa = changed[numa_id]
                share = min(numa.of(block.kind).reserved, left)
                cells = numa.cells if numa.assignments != 1 else (numa_id,)
                changed[numa_id] = numa.moved(block.kind, -share, counted=-1, cells=cells)
                left -= share
        return replace(self, numa_nodes=changed)

    def holding(self, pod_uid: str, container: str, blocks: Blocks) -> NumaTable:
        """With these blocks recorded for a container, replacing its old ones; an empty sequence is recorded too."""
        pod = {**self.assignments.get(pod_uid, {}), container: blocks}
        return replace(self, assignments={**self.assignments, pod_uid: pod})

    def without(self, pod_uid: str, container: str) -> NumaTable:
        """Without the record of a container; the pod's record is removed with its last container."""
        pod = {name: blocks for name, blocks in self.assignments.get(pod_uid, {}).items() if name != container}
        rest = {uid: names for uid, names in self.assignments.items() if uid != pod_uid}
        return replace(self, assignments={**rest, pod_uid: pod} if pod else rest)
