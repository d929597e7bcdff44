"""Random pods on random machines through the kubelet's Memory Manager and Topology Manager: every step, every NUMA
node.
"""

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.admit import Admitted, admit, pod_started, release, start
from memqos.engine.numa.policies import Policies
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.quantity import Quantity
from tests.vectors.tables import amounts, pod, table

ROWS = [
    pytest.param(row, version, id=f"{version}-{index}")
    for version in ("v1.32.13", "v1.36.3")
    for index, row in enumerate(table(f"numa_random.{version}")["rows"])
]
# The default eviction threshold is part of what `reservedMemory` adds up to.
EVICTION = Quantity.parse("100Mi")


def machine(row):
    zones = tuple(
        NumaNode(
            id=node["id"],
            memory=node["memory"],
            cpus=(node["id"],),
            distances=tuple(node["distances"]),
            hugepages={int(size): count for size, count in node["hugepages"].items()},
        )
        for node in row["nodes"]
    )
    return NodeFacts(memory=sum(zone.memory for zone in zones), cpus=len(zones), numa_nodes=zones)


def configuration(row):
    reserved = amounts(row["reservation"])
    return KubeletSettings(
        feature_gates=row["featureGates"],
        memory_manager_policy="Static",
        topology_manager_policy=row["policy"],
        topology_manager_scope=row["scope"],
        topology_manager_policy_options=row["options"] or None,
        system_reserved=reserved | {"memory": reserved["memory"] - EVICTION},
        reserved_memory=tuple((one["NumaNode"], amounts(one["Limits"])) for one in row["reservedMemory"]),
    )


def numa_nodes_of(table_now):
    return {
        str(zone.id): [
            zone.assignments,
            sorted(zone.cells),
            {kind: memory.free for kind, memory in sorted(zone.memory.items()) if memory.total},
        ]
        for zone in table_now.numa_nodes.values()
    }


@pytest.mark.parametrize(("row", "version"), ROWS)
def test_steps(row, version):
    facts, settings, minor = machine(row), configuration(row), Release.parse(version)
    policies = Policies.of(settings, minor)
    under = Kubelet.of(node=facts, settings=settings, release=minor)
    now = start(facts, settings, policies)
    expected, pods = numa_nodes_of(now), {}
    for step in row["steps"]:
        if "admit" in step:
            one = seen_by(pod(step["admit"]), under)
            outcome = admit(one, table=now, policies=policies)
            if isinstance(outcome, Admitted):
                now, pods[one.uid] = outcome.table, one
                assert dict(outcome.cpuset_mems) == step["mems"]
            else:
                assert (outcome.reason_name, outcome.message) == (step["reason"], step["message"])
        elif "start" in step:
            now = pod_started(pods[step["start"]], now, policies) if step["start"] in pods else now
        else:
            now = release(step["release"], now)
        expected = step.get("zones", expected)
        assert numa_nodes_of(now) == expected
