"""The checkpoint memory_manager_state: its checksum, its format, and its restore.

The checksum of a memory_manager_state file: FNV-1a (32 bits) over Go's text form of the checkpoint.

The kubelet hashes the spew library's output for the structure ("%#v" with sorted keys, no addresses), so this module
prints the same text, byte for byte: type names, field names and map order are Go's. Up to 1.35 and, with
PodLevelResourceManagers off, in 1.36 the type is MemoryManagerCheckpoint without pod entries; with the gate on it has
them.

Sources: kubelet `checkpointmanager/checksum`, `cm/memorymanager/state/checkpoint.go`, k8s.io/utils `dump.ForHash`.

The kubelet's checkpoint memory_manager_state, read in its own format.

Source: kubelet `cm/memorymanager/state` (checkpoint.go, state_checkpoint.go). The newer format, with podEntries, is
written with the gate PodLevelResourceManagers (1.36); a kubelet without the gate treats such a file as corrupted.

Restore at start: the kubelet takes the checkpoint over, or refuses to start.

Source: kubelet `policy_static.go` (validateState, areMachineStatesEqual), `state_checkpoint.go` (restoreState).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from memqos.engine.numa.policies import MemoryPolicy, PodLevel, Policies
from memqos.engine.numa.table import Block, Blocks, MemoryTable, NumaNodeState, NumaTable
from memqos.engine.plan import Input, Reason

__all__ = [
    "CheckpointError",
    "MemoryManagerCheckpoint",
    "StartRefusal",
    "TableDifference",
    "checksum",
    "fnv1a_32",
    "parse",
    "picture",
    "restore",
    "table_differences",
]

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """FNV-1a of 32 bits."""
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def checksum(policy: str, table: NumaTable, *, with_pods: bool) -> int:
    """The checksum for a file with this policy name and table; with_pods: the newer format."""
    return fnv1a_32(picture(policy, table, with_pods=with_pods).encode())


def picture(policy: str, table: NumaTable, *, with_pods: bool) -> str:
    """The text to hash."""
    numa_nodes = " ".join(f"{numa_id}:<*>{_numa_node_in_go(table.numa_nodes[numa_id])}" for numa_id in table.ids)
    entries = " ".join(
        f"{uid}:map[{' '.join(f'{name}:[{_blocks_in_go(blocks)}]' for name, blocks in sorted(names.items()))}]"
        for uid, names in sorted(table.assignments.items())
    )
    pods = " ".join(
        f"{uid}:{{MemoryBlocks:([]state.Block)[{_blocks_in_go(blocks)}]}}"
        for uid, blocks in sorted(table.pod_blocks.items())
    )
    pod_entries = f"PodEntries:(state.PodMemoryAssignments)map[{pods}] " if with_pods else ""
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){policy} "
        f"MachineState:(state.NUMANodeMap)map[{numa_nodes}] "
        f"Entries:(state.ContainerMemoryAssignments)map[{entries}] "
        f"{pod_entries}Checksum:(checksum.Checksum)0}}"
    )


def _numa_node_in_go(numa: NumaNodeState) -> str:
    memory = " ".join(f"{kind}:<*>{_memory_in_go(amounts)}" for kind, amounts in sorted(numa.memory.items()))
    return (
        f"{{NumberOfAssignments:(int){numa.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[{memory}] "
        f"Cells:([]int)[{_numbers_in_go(numa.cells)}]}}"
    )


def _memory_in_go(memory: MemoryTable) -> str:
    return (
        f"{{TotalMemSize:(uint64){memory.total} SystemReserved:(uint64){memory.system_reserved} "
        f"Allocatable:(uint64){memory.allocatable} Reserved:(uint64){memory.reserved} Free:(uint64){memory.free}}}"
    )


def _blocks_in_go(blocks: Iterable[Block]) -> str:
    return " ".join(
        f"{{NUMAAffinity:([]int)[{_numbers_in_go(one.numa_nodes)}] "
        f"Type:(v1.ResourceName){one.kind} Size:(uint64){one.size}}}"
        for one in blocks
    )


def _numbers_in_go(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


# Field of MemoryTable to its name in the file, in the file's order.
_AMOUNTS: Mapping[str, str] = {
    "total": "total",
    "system_reserved": "systemReserved",
    "allocatable": "allocatable",
    "reserved": "reserved",
    "free": "free",
}
_DIGITS = 20
_Json = Mapping[str, object]


class CheckpointError(ValueError):
    """A text that is not a checkpoint; the message names the wrong part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryManagerCheckpoint:
    """The content of a file. checksum: as written, 0 if missing."""

    policy: str
    table: NumaTable
    checksum: int = 0

    def intact(self, *, with_pods: bool) -> bool:
        """Whether the checksum is right for a kubelet that reads the newer format (with_pods) or the older.

        The older reader accepts a missing checksum (0); the newer one falls back to the older for an older file.
        """
        if with_pods and self.checksum == checksum(self.policy, self.table, with_pods=True):
            return True
        return self.checksum in {0, checksum(self.policy, self.table, with_pods=False)}


def parse(text: str) -> MemoryManagerCheckpoint:
    """The checkpoint that a file holds; CheckpointError if it is not one.

    As in the kubelet, unknown fields are ignored and missing ones are empty.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"it is not JSON: {error}") from error
    top = _object(whole, "the file")
    numa_nodes = {
        _number(numa_id, "machineState"): _numa_node(numa_id, numa)
        for numa_id, numa in _object(top.get("machineState"), "machineState").items()
    }
    assignments = {
        uid: {
            name: _blocks(blocks, f"entries.{uid}.{name}")
            for name, blocks in _object(names, f"entries.{uid}").items()
            if blocks is not None
        }
        for uid, names in _object(top.get("entries"), "entries").items()
    }
    pods = {
        uid: _blocks(_object(entry, f"podEntries.{uid}").get("memoryBlocks"), f"podEntries.{uid}")
        for uid, entry in _object(top.get("podEntries"), "podEntries").items()
    }
    return MemoryManagerCheckpoint(
        policy=str(top.get("policyName", "")),
        table=NumaTable(numa_nodes=numa_nodes, assignments=assignments, pod_blocks=pods),
        checksum=_number(top.get("checksum", 0), "checksum"),
    )


def _numa_node(numa_id: str, given: object) -> NumaNodeState:
    where = f"machineState.{numa_id}"
    numa = _object(given, where)
    return NumaNodeState(
        id=_number(numa_id, where),
        assignments=_number(numa.get("numberOfAssignments", 0), f"{where}.numberOfAssignments"),
        cells=_numbers(numa.get("cells"), f"{where}.cells"),
        memory={
            kind: _memory(amounts, f"{where}.memoryMap.{kind}")
            for kind, amounts in _object(numa.get("memoryMap"), f"{where}.memoryMap").items()
        },
    )


def _memory(given: object, where: str) -> MemoryTable:
    amounts = _object(given, where)
    return MemoryTable(**{field: _number(amounts.get(name, 0), f"{where}.{name}") for field, name in _AMOUNTS.items()})


def _blocks(given: object, where: str) -> Blocks:
    blocks = []
    for one in _list(given, where):
        block = _object(one, where)
        blocks.append(
            Block(
                _numbers(block.get("numaAffinity"), f"{where}.numaAffinity"),
                str(block.get("type", "")),
                _number(block.get("size", 0), f"{where}.size"),
            )
        )
    return tuple(blocks)


def _object(given: object, where: str) -> _Json:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise CheckpointError(f"{where} is not an object")
    return cast("_Json", given)


def _list(given: object, where: str) -> list[object]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise CheckpointError(f"{where} is not a list")
    return given


def _numbers(given: object, where: str) -> tuple[int, ...]:
    return tuple(_number(one, where) for one in _list(given, where))


def _number(given: object, where: str) -> int:
    """A whole number >= 0 of at most 64 bits, also as text, since JSON keys are texts."""
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= _DIGITS:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 64:
        raise CheckpointError(f"{where} is not a whole number from 0 on")
    return given


_DIFFERENT = "[memorymanager] the expected machine state is different from the real one"
_EMPTY = "[memorymanager] machine state can not be empty when it has memory assignments"
_ADVICE = "please drain this node and delete the memory manager checkpoint file"
_SOURCE = "kubelet memorymanager policy_static.go, state_checkpoint.go"
# Fields that must be equal for each NUMA node; reserved and free bytes are compared as sums over a group.
_EQUAL = ("total", "system_reserved", "allocatable")
_GROUPED = ("free", "reserved")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """A difference between a recorded table and the expected one. kind is "" if it is not about one memory type."""

    numa_node: int
    kind: str
    field: str
    recorded: object
    expected: object

    def __str__(self) -> str:
        of = f" {self.kind}" if self.kind else ""
        return f"NUMA node {self.numa_node}{of} {self.field}: recorded {self.recorded}, expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefusal:
    """A kubelet that does not start with this checkpoint; message is the kubelet's."""

    message: str
    differences: tuple[TableDifference, ...]
    reason: Reason


def restore(text: str | None, fresh: NumaTable, policies: Policies) -> NumaTable | StartRefusal:
    """The table with which a kubelet continues.

    text: the checkpoint, None if there is no file. fresh: the node's table before any pod (`admit.start`). The policy
    must be the recorded one, the checksum must fit, and the NUMA nodes must equal `fresh` with all recorded blocks
    taken.
    """
    if text is None:
        return fresh
    with_pods = policies.pod_level is PodLevel.MANAGED
    try:
        checkpoint = parse(text)
    except CheckpointError as error:
        return _refusal(policies, f"could not restore state from checkpoint: {error}, {_ADVICE}")
    if not checkpoint.intact(with_pods=with_pods):
        return _refusal(policies, f"could not restore state from checkpoint: checkpoint is corrupted, {_ADVICE}")
    if checkpoint.policy != policies.memory:
        what = f"configured policy {_quoted(policies.memory)} differs from state checkpoint policy "
        return _refusal(
            policies,
            f"could not restore state from checkpoint: [memorymanager] {what}{_quoted(checkpoint.policy)}, {_ADVICE}",
        )
    recorded = replace(checkpoint.table, distances=fresh.distances)
    if not with_pods:  # the older format has no place for them, so that its reader never sees them
        recorded = replace(recorded, pod_blocks={})
    return recorded if policies.memory is MemoryPolicy.NONE else _validated(recorded, fresh, policies)


def _validated(recorded: NumaTable, fresh: NumaTable, policies: Policies) -> NumaTable | StartRefusal:
    if not recorded.numa_nodes:
        return _refusal(policies, _EMPTY) if recorded.assignments else fresh
    expected = replayed(recorded, fresh)
    if isinstance(expected, str):
        return _refusal(policies, expected)
    found = table_differences(recorded, expected)
    return _refusal(policies, _DIFFERENT, found) if found else recorded


def replayed(recorded: NumaTable, fresh: NumaTable) -> NumaTable | str:
    """The fresh table with all recorded blocks taken; the kubelet's message if a block's node or type does not exist.

    A pod that was placed as a whole counts once, with its own blocks.
    """
    table = fresh
    for uid, names in recorded.assignments.items():
        held: Mapping[str, Blocks] = {"": recorded.pod_blocks[uid]} if uid in recorded.pod_blocks else names
        for name, blocks in held.items():
            for block in blocks:
                fault = _fault(block, fresh)
                if fault:
                    return f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment uses {fault}"
                table = table.taken(block.numa_nodes, block.kind, block.size)
    return table


def _fault(block: Block, fresh: NumaTable) -> str:
    if any(numa not in fresh.numa_nodes for numa in block.numa_nodes):
        return "the NUMA that does not exist"
    if any(block.kind not in fresh.numa_nodes[numa].memory for numa in block.numa_nodes):
        return "memory resource that does not exist"
    return ""


def table_differences(recorded: NumaTable, expected: NumaTable) -> tuple[TableDifference, ...]:
    """Every difference of two tables for the kubelet; free and reserved as sums over a node's group."""
    found = [
        TableDifference(
            numa_node=one,
            kind="",
            field="present",
            recorded=one in recorded.numa_nodes,
            expected=one in expected.numa_nodes,
        )
        for one in sorted(recorded.numa_nodes.keys() ^ expected.numa_nodes.keys())
    ]
    for numa_id in sorted(recorded.numa_nodes.keys() & expected.numa_nodes.keys()):
        found += _node_differences(recorded, expected, numa_id)
    return tuple(found)


def _node_differences(recorded: NumaTable, expected: NumaTable, numa_id: int) -> list[TableDifference]:
    one, other = recorded.numa_nodes[numa_id], expected.numa_nodes[numa_id]
    pairs: list[tuple[str, str, object, object]] = [
        ("", "assignments", one.assignments, other.assignments),
        ("", "cells", tuple(sorted(one.cells)), tuple(sorted(other.cells))),
        ("", "memory types", tuple(sorted(one.memory)), tuple(sorted(other.memory))),
    ]
    for kind in sorted(one.memory.keys() & other.memory.keys()):
        pairs += [(kind, name, getattr(one.memory[kind], name), getattr(other.memory[kind], name)) for name in _EQUAL]
        group = [numa for numa in one.cells if numa in recorded.numa_nodes and numa in expected.numa_nodes]
        pairs += [
            (
                kind,
                f"{name} of the group",
                _sum(recorded.numa_nodes, group, kind, name),
                _sum(expected.numa_nodes, group, kind, name),
            )
            for name in _GROUPED
        ]
    return [
        TableDifference(numa_node=numa_id, kind=kind, field=name, recorded=seen, expected=wanted)
        for kind, name, seen, wanted in pairs
        if seen != wanted
    ]


def _sum(numa_nodes: Mapping[int, NumaNodeState], group: list[int], kind: str, name: str) -> int:
    return sum(getattr(numa_nodes[numa].of(kind), name) for numa in group)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _refusal(policies: Policies, message: str, found: tuple[TableDifference, ...] = ()) -> StartRefusal:
    reason = Reason(
        rule="A recorded table must equal the one computed from the configuration and the recorded blocks.",
        revision=policies.memory_revision,
        source=_SOURCE,
        inputs=tuple(
            Input(f"difference {count}", str(one), "memory_manager_state") for count, one in enumerate(found, 1)
        ),
    )
    return StartRefusal(message=message, differences=found, reason=reason)
