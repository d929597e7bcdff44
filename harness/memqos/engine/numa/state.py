"""The kubelet's checkpoint memory_manager_state, read in its own format.

Source: kubelet `cm/memorymanager/state` (checkpoint.go, state_checkpoint.go). The newer format, with podEntries, is
written with the gate PodLevelResourceManagers (1.36); a kubelet without the gate takes such a file for corrupted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from memqos.engine.numa.checksum import checksum
from memqos.engine.numa.zone_table import Block, Blocks, ZoneMemory, ZoneState, ZoneTable

__all__ = ["CheckpointError", "MemoryManagerCheckpoint", "parse"]

# Field of ZoneMemory to its name in the file, in the file's order.
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
    """A text that is not a checkpoint; the message says where it stops being one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryManagerCheckpoint:
    """What a file says. checksum: as written, 0 if it has none. with_pods: whether it has podEntries."""

    policy: str
    table: ZoneTable
    checksum: int = 0
    with_pods: bool = False

    def intact(self, *, with_pods: bool) -> bool:
        """Whether the checksum fits the content, to a kubelet that reads the newer format (with_pods) or the older.

        The older reader takes a missing checksum (0) as intact; the newer one falls back to it for an older file.
        """
        if with_pods and self.checksum == checksum(self.policy, self.table, with_pods=True):
            return True
        return self.checksum in {0, checksum(self.policy, self.table, with_pods=False)}


def parse(text: str) -> MemoryManagerCheckpoint:
    """The checkpoint that a file holds; CheckpointError if it is not one.

    Unknown fields are passed over and missing ones are empty, as the kubelet does.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"it is not JSON: {error}") from error
    top = _object(whole, "the file")
    zones = {
        _number(zone_id, "machineState"): _zone(zone_id, zone)
        for zone_id, zone in _object(top.get("machineState"), "machineState").items()
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
        table=ZoneTable(zones=zones, assignments=assignments, pod_blocks=pods),
        checksum=_number(top.get("checksum", 0), "checksum"),
        with_pods="podEntries" in top,
    )


def _zone(zone_id: str, given: object) -> ZoneState:
    where = f"machineState.{zone_id}"
    zone = _object(given, where)
    return ZoneState(
        id=_number(zone_id, where),
        assignments=_number(zone.get("numberOfAssignments", 0), f"{where}.numberOfAssignments"),
        cells=_numbers(zone.get("cells"), f"{where}.cells"),
        memory={
            kind: _memory(amounts, f"{where}.memoryMap.{kind}")
            for kind, amounts in _object(zone.get("memoryMap"), f"{where}.memoryMap").items()
        },
    )


def _memory(given: object, where: str) -> ZoneMemory:
    amounts = _object(given, where)
    return ZoneMemory(**{field: _number(amounts.get(name, 0), f"{where}.{name}") for field, name in _AMOUNTS.items()})


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
    """A whole number >= 0 of at most 64 bits, also as the text that a JSON key is."""
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= _DIGITS:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 64:
        raise CheckpointError(f"{where} is not a whole number from 0 on")
    return given
