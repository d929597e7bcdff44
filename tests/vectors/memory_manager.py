"""The tables of the Memory Manager's tests as values of the engine."""

from dataclasses import replace

import pytest

from memqos.engine.numa.admit import is_placed
from memqos.engine.numa.hints import NOTHING_REUSABLE
from memqos.engine.numa.policies import Policies
from memqos.engine.numa.reservation import Rejection, allocate
from memqos.engine.numa.table import Block, MemoryTable, NumaNodeState, NumaTable
from memqos.engine.numa.topology_manager import Hint, Mask
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NumaNode
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity
from tests.vectors.tables import pod, resources, table


def rows(name, *tables):
    """The rows of some tables of one file as parameters: the row and its minor version."""
    minor = int(name.split(".")[-2])
    return [
        pytest.param(row, minor, id=f"1.{minor}-{row.get('description', row.get('name', '')).replace(' ', '-')[:80]}")
        for one in tables
        for row in table(name)["tables"][one]
    ]


def policies(row, minor, **more):
    gates = {
        "PodLevelResources": row.get("podLevelResourcesEnabled", False),
        "PodLevelResourceManagers": row.get("podLevelResourceManagersEnabled", False),
    }
    return Policies.of(
        KubeletSettings(feature_gates=gates, memory_manager_policy=row.get("policyName", "Static"), **more),
        Release(minor),
    )


def zones(machine):
    return [
        NumaNode(
            id=node["Id"],
            memory=node.get("Memory", 0),
            hugepages={one["PageSize"] * 1024: one["NumPages"] for one in node.get("HugePages", [])},
        )
        for node in machine["Topology"]
    ]


def blocks(given):
    return tuple(Block(tuple(one["NUMAAffinity"]), one["Type"], one["Size"]) for one in given)


def assignments(given):
    return {uid: {name: blocks(held) for name, held in containers.items()} for uid, containers in (given or {}).items()}


def memory(given):
    return MemoryTable(
        total=given["TotalMemSize"],
        system_reserved=given["SystemReserved"],
        allocatable=given["Allocatable"],
        reserved=given["Reserved"],
        free=given["Free"],
    )


def state(machine, held=None):
    """A table from upstream's machine state and assignments."""
    return NumaTable(
        numa_nodes={
            int(zone_id): NumaNodeState(
                id=int(zone_id),
                assignments=zone.get("NumberOfAssignments", 0),
                cells=tuple(zone.get("Cells") or ()),
                memory={kind: memory(given) for kind, given in zone.get("MemoryMap", {}).items()},
            )
            for zone_id, zone in (machine or {}).items()
        },
        assignments=assignments(held),
    )


def hint(given):
    affinity = given.get("NUMANodeAffinity")
    return Hint(None if affinity is None else Mask.of(affinity), given.get("Preferred", False))


def hints(given):
    """Hints by resource; nothing for "no preference"."""
    return {kind: [hint(one) for one in of_kind] for kind, of_kind in (given or {}).items()}


def sized(size, name, kind=ContainerKind.APP):
    own = {"cpu": Quantity.parse("1"), "memory": Quantity.parse(size)} if size else {}
    return Container(name=name, kind=kind, resources=Resources(requests=own, limits=own))


def spec(given, kind):
    """A container of upstream's containerSpec; one with memory also has equal cpu, so that it is Guaranteed."""
    request = given.get("memRequest", given.get("request"))
    limit = given.get("memLimit", given.get("limit"))
    if given.get("restartPolicy") == "Always":
        kind = ContainerKind.SIDECAR
    one = sized(request, given["name"], kind)
    if limit == request:
        return one
    limits = one.resources.limits | {"memory": Quantity.parse(limit)}
    return Container(name=one.name, kind=kind, resources=Resources(requests=one.resources.requests, limits=limits))


def plain(node):
    """A literal pod; upstream's spelling of its uid."""
    return replace(pod(node), uid=node["ObjectMeta"]["UID"])


def called(node):
    """A pod from a call of one of upstream's helper functions, or a literal one."""
    if "$call" not in node:
        return plain(node)
    arguments = node["args"]
    if node["$call"] == "getPodWithPodLevelResources":
        uid, own, name, of_container = arguments
        container = Container(name=name, resources=resources(lowered_lists(of_container)))
        return Pod(name=uid, uid=uid, containers=(container,), resources=resources(lowered_lists(own)))
    if node["$call"] == "makeMultiContainerPodWithOptions":
        init, apps, options = arguments
        own = options["$assign"]["pod.Spec.Resources"]
        uid, request, limit = "pod", own["Requests"]["memory"], own["Limits"]["memory"]
    else:
        uid, request, limit, init, apps = arguments
    cpu = {"cpu": Quantity.parse("4")}
    return Pod(
        name=uid,
        uid=uid,
        init_containers=tuple(spec(one, ContainerKind.INIT) for one in init or ()),
        containers=tuple(spec(one, ContainerKind.APP) for one in apps),
        resources=Resources(
            requests=cpu | {"memory": Quantity.parse(request)}, limits=cpu | {"memory": Quantity.parse(limit)}
        ),
    )


def lowered_lists(node):
    return {key.lower(): value for key, value in node.items()}


def error(row):
    """The message of an expected error; "" if none is expected."""
    given = row.get("expectedError") or row.get("expectedErr")
    while given and given["$call"] == "admission.NewEmptyPodSharedPoolError":
        given = given["args"][0]
    return given["args"][0] if given else ""


def allocated(row, minor):
    """All containers of a row's pod, allocated in order with the row's hint; the rejection if one fails."""
    own, rules = called(row.get("pod") or row["podAllocate"]), policies(row, minor)
    now, reusable = state(row["machineState"], row.get("assignments")), NOTHING_REUSABLE
    if not is_placed(own, rules):
        return now
    for one in own.init_containers + own.containers:
        outcome = allocate(
            own, one, table=now, hint=hint(row.get("topologyHint", {})), reusable=reusable, policies=rules
        )
        if isinstance(outcome, Rejection):
            return outcome
        now, reusable = outcome.table, outcome.reusable
    return now


def assert_same(row, now):
    assert now.assignments == assignments(row["expectedAssignments"])
    assert now.numa_nodes == state(row["expectedMachineState"]).numa_nodes
