"""The tables in this folder as input of the engine: pods in upstream's spelling, nodes, settings.

The JSON files are unchanged extracts. `$call` and `$ref` are unevaluated Go expressions; `plain` evaluates those in the
rows used here.
"""

import json
from fractions import Fraction
from functools import cache
from pathlib import Path

from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, ReservationPolicy, SwapBehavior
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity
from tests.vectors.reading import watched

FOLDER = Path(__file__).parent


@cache
def table(name):
    return watched(name, json.loads((FOLDER / f"{name}.json").read_text()))


def lowered(node):
    """Keys as in YAML: Go's field names begin with a capital letter."""
    if isinstance(node, dict):
        return {key[:1].lower() + key[1:]: lowered(value) for key, value in node.items()}
    return [lowered(item) for item in node] if isinstance(node, list) else node


def amounts(node):
    return {name: Quantity.parse(str(value)) for name, value in (node or {}).items()}


def resources(node):
    node = node or {}
    return Resources(requests=amounts(node.get("requests")), limits=amounts(node.get("limits")))


def container(node, kind, index):
    if kind is ContainerKind.INIT and node.get("restartPolicy") == "Always":
        kind = ContainerKind.SIDECAR
    return Container(name=node.get("name", f"c{index}"), kind=kind, resources=resources(node.get("resources")))


def pod(node):
    """A pod from its JSON, without defaulting and validation."""
    node = lowered(node)
    meta = node.get("metadata") or node.get("objectMeta") or {}
    spec = node.get("spec", {})
    own = spec.get("resources")
    return Pod(
        name=meta.get("name", "p"),
        uid=meta.get("uid", "u"),
        containers=tuple(container(c, ContainerKind.APP, i) for i, c in enumerate(spec.get("containers") or [])),
        init_containers=tuple(
            container(c, ContainerKind.INIT, i) for i, c in enumerate(spec.get("initContainers") or [], 100)
        ),
        resources=resources(own) if own is not None else None,
        overhead=amounts(spec.get("overhead")),
        priority=spec.get("priority"),
        priority_class_name=spec.get("priorityClassName") or "",
    )


def node_facts(row):
    return NodeFacts(
        memory=row["machineMemory"],
        swap=row["machineSwap"],
        cpus=4,
        swap_controller=row["swapController"],
        cgroup_version=CgroupVersion.V2 if row.get("cgroup2", True) else CgroupVersion.V1,
    )


def settings(row):
    """The configuration of a row of kubelet_functions or kubelet_podlevel.

    Allocatable memory is a row's input; here a reservation gives it. Without `singleProcessOOMKill` the functions treat
    it as set, as before the configuration's defaults.
    """
    allocatable = row.get("nodeAllocatable", {}).get("memory", row["machineMemory"])
    reserved = row["machineMemory"] - int(allocatable)
    return KubeletSettings(
        feature_gates={"MemoryQoS": row["memoryQoS"], **row.get("featureGates", {})},
        cpu_cfs_quota=row["cpuCFSQuota"],
        single_process_oom_kill=row.get("singleProcessOOMKill", True),
        # A kubelet refuses TieredReservation without the gate; the functions below then ignore it.
        memory_reservation_policy=ReservationPolicy(row["memoryReservationPolicy"]) if row["memoryQoS"] else None,
        swap_behavior=SwapBehavior(row["swapBehavior"]),
        # They also ignore whether a kubelet starts on cgroup v1.
        fail_cgroup_v1=False,
        throttling_factor=Fraction(str(row["throttlingFactor"])),
        system_reserved={"memory": Quantity.of_bytes(reserved)} if reserved else None,
    )
