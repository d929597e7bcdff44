"""A real kubelet (1.36.3, Static, single-numa-node): its checkpoint and its log, from its configuration and pods."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from memqos.engine.numa.admit import Admitted, admit, container_hints, pod_started, start
from memqos.engine.numa.hints import NOTHING_REUSABLE
from memqos.engine.numa.policies import Policies
from memqos.engine.numa.state import parse, restore
from memqos.engine.plan import Refusal
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.quantity import Quantity
from tests.checkpoints import checkpoint_text
from tests.vectors.tables import pod as upstream_pod

FILE = Path(__file__).parents[3] / "trees" / "v1.36.3.static-single-numa.json"
TREE = json.loads(FILE.read_text())
UIDS = {name.removesuffix("-n1"): uid for name, _, uid in TREE["containers"].values()}


def quantities(given):
    return {name: Quantity.parse(str(text)) for name, text in given.items()}


def pod(name):
    """The kubelet's pod of this name: requests defaulted to limits, its own uid."""
    [manifest] = [one for one in TREE["pods"] if one["metadata"]["name"] == name]
    own = upstream_pod(manifest)
    containers = tuple(
        replace(one, resources=replace(one.resources, requests={**one.resources.limits, **one.resources.requests}))
        for one in own.containers
    )
    return replace(own, uid=UIDS.get(name, name), containers=containers, static=True)


@pytest.fixture
def kubelet():
    config = TREE["config"]
    settings = KubeletSettings(
        feature_gates=config["featureGates"],
        eviction_hard=config["evictionHard"],
        system_reserved=quantities(config["systemReserved"]),
        kube_reserved=quantities(config["kubeReserved"]),
        memory_manager_policy=config["memoryManagerPolicy"],
        topology_manager_policy=config["topologyManagerPolicy"],
        reserved_memory=tuple((one["numaNode"], quantities(one["limits"])) for one in config["reservedMemory"]),
    )
    node = TREE["node"]
    facts = NodeFacts(
        memory=int(node["mem_total_kib"]) * 1024,
        cpus=node["cpus"],
        numa_nodes=tuple(
            NumaNode(id=int(name.removeprefix("node")), memory=int(kib) * 1024) for name, kib in node["numa"].items()
        ),
    )
    rules = Policies.of(settings, Release.parse(TREE["kubelet"]))
    return start(facts, settings, rules), rules


def logged_masks(name):
    """The sets of NUMA nodes in the kubelet's logged hints for a pod, as bits."""
    lines = [line for line in TREE["journal"] if '"TopologyHints"' in line and f'pod="default/{name}-n1"' in line]
    [line] = [line for line in lines if "hints={" in line]
    hints = json.loads(line.split("hints=")[1].split(" pod=")[0])
    return [(one["NUMANodeAffinity"], one["Preferred"]) for one in hints["memory"]]


# The kubelet admits static pods in any order. Its log shows this one: before g-big NUMA node 0 was in use already, and
# before g-small it had no room left.
ORDER = ["g-two", "g-big", "g-small", "burst"]


def test_the_recorded_state_is_computed(kubelet):
    table, rules = kubelet
    pinned = {}
    for name in ORDER:
        own = pod(name)
        if f"{name}-n1" in "".join(line for line in TREE["journal"] if "hints={" in line):
            hints = container_hints(own, own.containers[0], table, NOTHING_REUSABLE, rules)
            assert [(one.affinity.bits, one.preferred) for one in hints["memory"]] == logged_masks(name)
        outcome = admit(own, table=table, policies=rules)
        assert isinstance(outcome, Admitted)
        table = pod_started(own, outcome.table, rules)
        pinned[name] = dict(outcome.cpuset_mems)
    assert pinned == {"g-two": {"a": "0", "b": "0"}, "g-big": {"a": "0"}, "g-small": {"a": "1"}, "burst": {}}
    assert json.loads(checkpoint_text("Static", table)) == TREE["memory_manager_state"]


def test_the_recorded_cgroups_have_these_numa_nodes(kubelet):
    """cpuset.mems of every container's cgroup in the tree."""
    state = parse(json.dumps(TREE["memory_manager_state"])).table
    seen = 0
    for container_id, (_, name, uid) in TREE["containers"].items():
        [found] = [files for path, files in TREE["cgroups"].items() if container_id in path]
        assert found["cpuset.mems"] == ",".join(map(str, state.numa_nodes_of(uid, name)))
        seen += 1
    assert seen == 8


def test_the_pod_that_was_not_admitted_is_refused(kubelet):
    """g-too-big has no container in the tree; in any order it is refused, for one of two reasons."""
    table, rules = kubelet
    assert "g-too-big-n1" not in {name for name, _, _ in TREE["containers"].values()}
    first = admit(pod("g-too-big"), table=table, policies=rules)
    assert isinstance(first, Refusal)
    assert first.reason_name == "TopologyAffinityError"
    later = admit(pod("g-too-big"), table=parse(json.dumps(TREE["memory_manager_state"])).table, policies=rules)
    assert later.reason_name == "UnexpectedAdmissionError"


def test_the_recorded_checksum_is_reproduced_and_the_kubelet_would_start_again(kubelet):
    table, rules = kubelet
    text = json.dumps(TREE["memory_manager_state"])
    checkpoint = parse(text)
    assert checkpoint.checksum == 3648945498
    assert checkpoint.intact(with_pods=False)
    assert json.loads(checkpoint_text("Static", checkpoint.table))["checksum"] == 3648945498
    assert restore(text, table, rules) == checkpoint.table
