"""What a kubelet does with a checkpoint when it starts: take it over, or refuse to start.

Source: kubelet `policy_static.go` (validateState, areMachineStatesEqual), `state_checkpoint.go` (restoreState).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memqos.engine.numa.policies import MemoryPolicy, PodLevel, Policies
from memqos.engine.numa.state import CheckpointError, parse
from memqos.engine.numa.zone_table import Block, Blocks, ZoneState, ZoneTable
from memqos.engine.plan import Input, Reason

__all__ = ["StartRefusal", "TableDifference", "replayed", "restore", "table_differences"]

_DIFFERENT = "[memorymanager] the expected machine state is different from the real one"
_EMPTY = "[memorymanager] machine state can not be empty when it has memory assignments"
_ADVICE = "please drain this node and delete the memory manager checkpoint file"
_SOURCE = "kubelet memorymanager policy_static.go, state_checkpoint.go"
# What must be equal zone by zone; reserved and free bytes are compared over the zones of a group.
_EQUAL = ("total", "system_reserved", "allocatable")
_GROUPED = ("free", "reserved")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """Where a recorded table is not the expected one. kind is "" for what is not of one memory type."""

    zone: int
    kind: str
    field: str
    recorded: object
    expected: object

    def __str__(self) -> str:
        of = f" {self.kind}" if self.kind else ""
        return f"zone {self.zone}{of} {self.field}: recorded {self.recorded}, expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefusal:
    """A kubelet that does not start with this checkpoint; message is its own, differences say where."""

    message: str
    differences: tuple[TableDifference, ...]
    reason: Reason


def restore(text: str | None, fresh: ZoneTable, policies: Policies) -> ZoneTable | StartRefusal:
    """The table that a kubelet goes on with.

    text: the checkpoint, None if there is no file. fresh: the node's table before any pod (`admit.start`). The policy
    must be the recorded one, the checksum must fit, and the zones must be what `fresh` becomes with all recorded
    blocks in it.
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


def _validated(recorded: ZoneTable, fresh: ZoneTable, policies: Policies) -> ZoneTable | StartRefusal:
    if not recorded.zones:
        return _refusal(policies, _EMPTY) if recorded.assignments else fresh
    expected = replayed(recorded, fresh)
    if isinstance(expected, str):
        return _refusal(policies, expected)
    found = table_differences(recorded, expected)
    return _refusal(policies, _DIFFERENT, found) if found else recorded


def replayed(recorded: ZoneTable, fresh: ZoneTable) -> ZoneTable | str:
    """The fresh table with all recorded blocks taken; the kubelet's words if a block's zone or type does not exist.

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
                table = table.taken(block.zones, block.kind, block.size)
    return table


def _fault(block: Block, fresh: ZoneTable) -> str:
    if any(zone not in fresh.zones for zone in block.zones):
        return "the NUMA that does not exist"
    if any(block.kind not in fresh.zones[zone].memory for zone in block.zones):
        return "memory resource that does not exist"
    return ""


def table_differences(recorded: ZoneTable, expected: ZoneTable) -> tuple[TableDifference, ...]:
    """Every place where two tables are not the same to the kubelet; free and reserved as sums over a zone's group."""
    found = [
        TableDifference(zone=one, kind="", field="zone", recorded=one in recorded.zones, expected=one in expected.zones)
        for one in sorted(recorded.zones.keys() ^ expected.zones.keys())
    ]
    for zone_id in sorted(recorded.zones.keys() & expected.zones.keys()):
        found += _zone_differences(recorded, expected, zone_id)
    return tuple(found)


def _zone_differences(recorded: ZoneTable, expected: ZoneTable, zone_id: int) -> list[TableDifference]:
    one, other = recorded.zones[zone_id], expected.zones[zone_id]
    pairs: list[tuple[str, str, object, object]] = [
        ("", "assignments", one.assignments, other.assignments),
        ("", "cells", tuple(sorted(one.cells)), tuple(sorted(other.cells))),
        ("", "memory types", tuple(sorted(one.memory)), tuple(sorted(other.memory))),
    ]
    for kind in sorted(one.memory.keys() & other.memory.keys()):
        pairs += [(kind, name, getattr(one.memory[kind], name), getattr(other.memory[kind], name)) for name in _EQUAL]
        group = [zone for zone in one.cells if zone in recorded.zones and zone in expected.zones]
        pairs += [
            (
                kind,
                f"{name} of the group",
                _sum(recorded.zones, group, kind, name),
                _sum(expected.zones, group, kind, name),
            )
            for name in _GROUPED
        ]
    return [
        TableDifference(zone=zone_id, kind=kind, field=name, recorded=seen, expected=wanted)
        for kind, name, seen, wanted in pairs
        if seen != wanted
    ]


def _sum(zones: Mapping[int, ZoneState], group: list[int], kind: str, name: str) -> int:
    return sum(getattr(zones[zone].of(kind), name) for zone in group)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _refusal(policies: Policies, message: str, found: tuple[TableDifference, ...] = ()) -> StartRefusal:
    reason = Reason(
        rule="A recorded table must be the one that the configuration and the recorded blocks make.",
        revision=policies.memory_revision,
        source=_SOURCE,
        inputs=tuple(
            Input(f"difference {count}", str(one), "memory_manager_state") for count, one in enumerate(found, 1)
        ),
    )
    return StartRefusal(message=message, differences=found, reason=reason)
