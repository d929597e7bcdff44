"""Builders of pods, machines and policies for these tests. Sizes are texts like "1Gi"; cpu is always 1."""

from memqos.engine.numa.admit import Admitted, admit
from memqos.engine.numa.policies import MemoryPolicy, Policies, TopologyOptions, TopologyPolicy, TopologyScope
from memqos.engine.numa.reservation import empty_table
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

MIB = 1 << 20
GIB = 1 << 30


def amounts(**given):
    """Resources by name; huge pages as hugepages_2Mi."""
    return {name.replace("_", "-"): Quantity.parse(text) for name, text in given.items()}


def container(name, size="", *, kind=ContainerKind.APP, limit="", **more):
    """A container with equal requests and limits; without a size it has none, with a limit it is not Guaranteed."""
    requests = amounts(cpu="1", memory=size, **more) if size else {}
    limits = requests | (amounts(memory=limit) if limit else {})
    return Container(name=name, kind=kind, resources=Resources(requests=requests, limits=limits))


def init(name, size="", **more):
    return container(name, size, kind=ContainerKind.INIT, **more)


def sidecar(name, size="", **more):
    return container(name, size, kind=ContainerKind.SIDECAR, **more)


def pod(uid, *containers, total=""):
    """A pod; total: its pod-level memory, together with 8 CPUs."""
    own = amounts(cpu="8", memory=total) if total else {}
    return Pod(
        name=uid,
        uid=uid,
        containers=tuple(one for one in containers if one.kind is ContainerKind.APP),
        init_containers=tuple(one for one in containers if one.kind is not ContainerKind.APP),
        resources=Resources(requests=own, limits=own) if total else None,
    )


def plain(uid, *sizes):
    """A Guaranteed pod of app containers c0, c1 …"""
    return pod(uid, *(container(f"c{count}", size) for count, size in enumerate(sizes)))


def machine(*sizes, pages=0):
    """NUMA nodes of these sizes in GiB, each with this number of 2Mi pages, unreserved."""
    zones = [NumaNode(id=n, memory=size * GIB, hugepages={2 * MIB: pages}) for n, size in enumerate(sizes)]
    return empty_table(zones, {}, ())


def policies(topology="none", scope="container", *, minor=36, closest=False, gates=None):
    settings = KubeletSettings(
        memory_manager_policy="Static",
        topology_manager_policy=topology,
        topology_manager_scope=scope,
        feature_gates=gates or {},
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"} if closest else None,
    )
    return Policies.of(settings, Release(minor))


MANAGED = {"PodLevelResources": True, "PodLevelResourceManagers": True}


def placed(table, rules, *pods):
    """The table with pods admitted one after the other; each must be."""
    for one in pods:
        outcome = admit(one, table=table, policies=rules)
        assert isinstance(outcome, Admitted), outcome
        table = outcome.table
    return table


__all__ = [
    "GIB",
    "MANAGED",
    "MIB",
    "MemoryPolicy",
    "NodeFacts",
    "TopologyOptions",
    "TopologyPolicy",
    "TopologyScope",
    "amounts",
    "container",
    "init",
    "machine",
    "placed",
    "plain",
    "pod",
    "policies",
    "sidecar",
]
