"""The kubelet's checkpoint memory_manager_state as it writes it: what tests of reading it start from."""

import json
from typing import Any

from memqos.engine.numa.state import checksum
from memqos.engine.numa.table import Blocks, NumaNodeState, NumaTable


def checkpoint_text(policy: str, table: NumaTable, *, with_pods: bool = False) -> str:
    """The file for a table under a policy; with_pods: the newer format."""
    whole: dict[str, Any] = {
        "policyName": policy,
        # Go sorts the keys of a map as text: zone 10 comes before zone 2.
        "machineState": {str(one): zone_json(table.numa_nodes[one]) for one in sorted(table.numa_nodes, key=str)},
    }
    if table.assignments:
        whole["entries"] = {
            uid: {name: blocks_json(blocks) for name, blocks in sorted(names.items())}
            for uid, names in sorted(table.assignments.items())
        }
    if with_pods and table.pod_blocks:
        whole["podEntries"] = {
            uid: {"memoryBlocks": blocks_json(blocks)} for uid, blocks in sorted(table.pod_blocks.items())
        }
    whole["checksum"] = checksum(policy, table, with_pods=with_pods)
    return json.dumps(whole, separators=(",", ":"))


def zone_json(zone: NumaNodeState) -> dict[str, Any]:
    return {
        "numberOfAssignments": zone.assignments,
        "memoryMap": {
            kind: {
                "total": amounts.total,
                "systemReserved": amounts.system_reserved,
                "allocatable": amounts.allocatable,
                "reserved": amounts.reserved,
                "free": amounts.free,
            }
            for kind, amounts in sorted(zone.memory.items())
        },
        "cells": list(zone.cells),
    }


def blocks_json(blocks: Blocks) -> list[dict[str, Any]]:
    return [{"numaAffinity": list(block.numa_nodes), "type": block.kind, "size": block.size} for block in blocks]
