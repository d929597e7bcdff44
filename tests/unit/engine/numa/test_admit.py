"""Admission: policies, scopes, refusals, reasons."""

from dataclasses import replace

import pytest

from memqos.engine.numa.admit import Admitted, admit, container_hints, is_placed, pod_hints, pod_started, release, start
from memqos.engine.numa.hints import NOTHING_REUSABLE
from memqos.engine.numa.policies import Policies
from memqos.engine.numa.topology_manager import Hint, Mask
from memqos.engine.plan import Refusal
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Container, Resources
from tests.unit.engine.numa.builders import (
    GIB,
    MIB,
    amounts,
    container,
    init,
    machine,
    placed,
    plain,
    pod,
    policies,
    sidecar,
)


def outcome(table, rules, one, **more):
    return admit(one, table=table, policies=rules, **more)


def test_containers_of_a_guaranteed_pod_are_pinned():
    found = outcome(machine(4, 4), policies(), plain("p", "1Gi", "5Gi"))
    assert isinstance(found, Refusal)
    found = outcome(machine(4, 4), policies(), plain("p", "1Gi", "2Gi"))
    assert found.cpuset_mems == {"c0": "0", "c1": "0"}
    found = outcome(machine(4, 4), policies(), plain("p", "5Gi"))
    assert found.cpuset_mems == {"c0": "0,1"}


def test_other_pods_are_not_pinned():
    table = machine(4)
    burstable = pod("p", container("c", "1Gi", limit="2Gi"))
    best_effort = pod("q", container("c"))
    for one in (burstable, best_effort):
        found = outcome(table, policies("single-numa-node"), one)
        assert found.table is table
        assert found.cpuset_mems == {}
        assert found.reasons["c"].rule.startswith("cpuset.mems is not written")


def test_with_both_managers_off_a_machine_may_have_any_numa_nodes():
    rules = Policies.of(KubeletSettings(), Release(36))
    table = machine(4)
    found = outcome(replace(table, numa_nodes={200: table.numa_nodes[0]}), rules, plain("p", "1Gi"))
    assert found.cpuset_mems == {}


def test_the_policy_none_places_nothing():
    rules = Policies.of(KubeletSettings(topology_manager_policy="restricted"), Release(36))
    assert not is_placed(plain("p", "1Gi"), rules)
    assert outcome(machine(4), rules, plain("p", "100Gi")).cpuset_mems == {}


REFUSALS = [
    ("none", "container", "UnexpectedAdmissionError"),
    ("best-effort", "container", "UnexpectedAdmissionError"),
    ("restricted", "container", "UnexpectedAdmissionError"),
    ("single-numa-node", "container", "UnexpectedAdmissionError"),
    ("single-numa-node", "pod", "UnexpectedAdmissionError"),
]


@pytest.mark.parametrize(("policy", "scope", "name"), REFUSALS)
def test_a_pod_that_fits_nowhere_has_no_hint_and_fails_at_allocation(policy, scope, name):
    """No hint means no preference, so the Topology Manager admits the pod."""
    found = outcome(machine(4, 4), policies(policy, scope), plain("p", "9Gi"))
    assert isinstance(found, Refusal)
    assert (found.pod, found.reason_name) == ("p", name)
    assert found.message.startswith("Allocate failed due to [memorymanager] failed to ")
    assert found.message.endswith(", which is unexpected")


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_pod_wider_than_a_numa_node_is_refused_by_the_topology_manager(scope):
    found = outcome(machine(4, 4), policies("single-numa-node", scope), plain("p", "5Gi"))
    assert (found.reason_name, found.message) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    assert found.reason.rule == "The Topology Manager's policy single-numa-node refuses the best merged hint."


def test_the_keps_example_of_a_pod_that_is_rejected():
    """Pod 1 takes both NUMA nodes as one group; pod 2 would fit into NUMA node 0, but must not use it."""
    table = placed(machine(4, 4), policies(), plain("pod1", "7Gi"))
    found = outcome(table, policies(), plain("pod2", "2Gi"))
    assert found.reason_name == "UnexpectedAdmissionError"


def test_an_init_container_can_keep_its_own_pod_out():
    """Its NUMA node is then in use alone, so no set of several may include it."""
    own = pod("p", init("i", "1Gi"), container("c", "5Gi"))
    assert outcome(machine(4, 4), policies(), own).reason_name == "UnexpectedAdmissionError"
    assert outcome(machine(4, 4), policies("restricted", "pod"), own).cpuset_mems == {"i": "0,1", "c": "0,1"}


def test_restricted_refuses_a_hint_that_is_not_preferred():
    table = placed(machine(4, 4), policies(), plain("wide", "6Gi"))
    assert outcome(table, policies("restricted"), plain("p", "1Gi")).reason_name == "TopologyAffinityError"
    lax = outcome(table, policies("best-effort"), plain("p", "1Gi"))
    assert lax.cpuset_mems == {"c0": "0,1"}


def test_the_scope_pod_keeps_all_containers_on_one_set_of_numa_nodes():
    own = plain("p", "3Gi", "3Gi")
    by_container = outcome(machine(4, 4), policies("restricted", "container"), own)
    assert by_container.cpuset_mems == {"c0": "0", "c1": "1"}
    by_pod = outcome(machine(4, 4), policies("restricted", "pod"), own)
    assert by_pod.cpuset_mems == {"c0": "0,1", "c1": "0,1"}
    assert outcome(machine(4, 4), policies("single-numa-node", "pod"), own).reason_name == "TopologyAffinityError"


def test_without_a_topology_policy_the_scope_has_no_effect():
    own = plain("p", "3Gi", "3Gi")
    assert outcome(machine(4, 4), policies("none", "pod"), own).cpuset_mems == {"c0": "0", "c1": "1"}


def test_the_pods_request_counts_init_containers_and_sidecars():
    own = pod("p", sidecar("s", "1Gi"), init("i", "4Gi"), container("c", "1Gi"))
    hints = pod_hints(own, machine(4, 5), policies("restricted", "pod"))
    assert [one.affinity.numa_nodes for one in hints["memory"] if one.preferred] == [(1,)]
    before_sidecars = pod_hints(own, machine(4, 5), policies("restricted", "pod", minor=27))
    assert [one.affinity.numa_nodes for one in before_sidecars["memory"] if one.preferred] == [(0,), (1,)]


def test_init_containers_free_memory_for_the_next():
    own = pod("p", init("i", "4Gi"), container("c", "3Gi"))
    found = outcome(machine(4), policies("single-numa-node"), own)
    assert found.cpuset_mems == {"i": "0", "c": "0"}
    running = pod_started(own, found.table, policies())
    assert running.numa_nodes[0].of("memory").free == GIB
    assert list(running.assignments["p"]) == ["c"]


def test_a_refused_pod_leaves_nothing_behind():
    table = placed(machine(4), policies(), plain("q", "1Gi"))
    found = outcome(table, policies(), plain("p", "2Gi", "2Gi"))
    assert isinstance(found, Refusal)
    assert "p" not in table.assignments
    assert table.numa_nodes[0].of("memory").free == 3 * GIB


def test_admitting_again_changes_nothing():
    """A restarted kubelet admits the existing pods again."""
    rules = policies("single-numa-node")
    table = placed(machine(4, 4), rules, plain("p", "3Gi", "1Gi"), plain("q", "2Gi"))
    again = outcome(table, rules, plain("p", "3Gi", "1Gi"))
    assert again.table == table
    assert again.cpuset_mems == {"c0": "0", "c1": "0"}
    assert again.reasons["c0"].because[0].rule == "A container that holds memory keeps it."


def test_a_restarted_kubelet_asks_again_for_an_init_container_that_has_ended():
    rules = policies("single-numa-node")
    own = pod("p", init("i", "3Gi"), container("c", "2Gi"))
    running = pod_started(own, placed(machine(4, 4), rules, own), rules)
    assert outcome(running, rules, own).table.numa_nodes_of("p", "i") == (1,)


def test_a_pod_that_holds_memory_is_hinted_where_its_first_container_is():
    rules = policies("restricted", "pod")
    table = placed(machine(4, 4), rules, plain("p", "1Gi"))
    assert pod_hints(plain("p", "1Gi"), table, rules) == {"memory": (Hint(Mask.of([0]), preferred=True),)}
    assert pod_hints(plain("p", "2Gi"), table, rules) is None


@pytest.mark.parametrize("kind", ["app", "init"])
def test_amounts_that_are_not_whole(kind):
    half = amounts(cpu="1", memory="1500m")
    bad = Container(name="bad", resources=Resources(requests=half, limits=half))
    good = container("c", "1Gi")
    own = pod("p", good)
    own = (
        pod("p", good, bad)
        if kind == "app"
        else type(own)(name="p", uid="p", containers=(good,), init_containers=(bad,))
    )
    rules = policies("best-effort", "pod")
    assert pod_hints(own, machine(4), rules) is None
    assert container_hints(own, bad, machine(4), NOTHING_REUSABLE, rules) is None
    found = outcome(machine(4), rules, own)
    assert found.message == (
        "Allocate failed due to [memorymanager] failed to represent quantity as int64, which is unexpected"
    )


CPU_ON_ONE = {"cpu": [Hint(Mask.of([1]), preferred=True)]}


def test_hints_of_other_providers_count():
    rules = policies("single-numa-node")
    found = outcome(machine(4, 4), rules, plain("p", "1Gi", "1Gi"), others={"c0": [CPU_ON_ONE, None]})
    assert found.cpuset_mems == {"c0": "1", "c1": "0"}
    by_pod = outcome(machine(4, 4), policies("restricted", "pod"), plain("p", "1Gi"), others={"": [CPU_ON_ONE]})
    assert by_pod.cpuset_mems == {"c0": "1"}
    refused = outcome(machine(4, 4), rules, pod("p", container("c")), others={"c": [{"cpu": []}]})
    assert refused.reason_name == "TopologyAffinityError"


def test_closest_numa_nodes_are_preferred_with_the_option():
    far = {0: (10, 40, 20), 1: (40, 10, 40), 2: (20, 40, 10)}
    table = machine(4, 4, 4)
    table = type(table)(numa_nodes=table.numa_nodes, distances=far)
    wide = plain("p", "5Gi")
    assert outcome(table, policies("best-effort"), wide).cpuset_mems == {"c0": "0,1"}
    assert outcome(table, policies("best-effort", closest=True), wide).cpuset_mems == {"c0": "0,2"}


def test_releasing_restores_the_table():
    table = machine(4, 4, pages=8)
    full = placed(table, policies(), pod("p", init("i", "2Gi"), container("c", "3Gi", hugepages_2Mi="4Mi")))
    assert release("p", full) == table
    assert release("unknown", full) is full


def test_every_container_has_a_chain_of_reasons():
    found = outcome(machine(4, 4), policies("restricted"), plain("p", "1Gi"))
    reason = found.reasons["c0"]
    assert reason.rule == "cpuset.mems lists the NUMA nodes of the container's memory blocks, ascending."
    assert reason.revision == "memory-manager v1.36"
    assert reason.inputs[0].value == "0"
    allocation, decision = reason.because
    assert allocation.inputs[0].name == "c0: requests.memory"
    assert allocation.inputs[0].value == "1073741824"
    assert decision.rule == "The Topology Manager's policy restricted admits the best merged hint."
    assert [one.value for one in decision.inputs[:2]] == ["restricted", "container"]
    assert decision.inputs[2].value == "3 sets of NUMA nodes, 2 preferred, first: NUMA nodes 01, preferred"
    assert decision.arithmetic == "best: NUMA nodes 01, preferred"
    assert decision.revision == "topology-manager v1.24"


def test_reasons_without_a_query_and_without_a_fit():
    none = outcome(machine(4), policies(), plain("p", "1Gi")).reasons["c0"].because[1]
    assert none.rule == "The Topology Manager's policy none queries no provider and gives no affinity."
    refused = outcome(machine(4), policies("best-effort"), plain("p", "5Gi"))
    [decision] = refused.reason.because
    assert decision.inputs[2].value == "no preference"
    unpinned = outcome(machine(4), policies("best-effort"), pod("p", container("c")))
    assert unpinned.reasons["c"].because[0].inputs[2].value == "no preference"


def test_inputs_have_their_places():
    settings = KubeletSettings(
        memory_manager_policy="Static",
        topology_manager_policy="restricted",
        origin={"memoryManagerPolicy": "kubelet.yaml:3", "topologyManagerPolicy": "kubelet.yaml:4"},
    )
    rules = Policies.of(settings, Release(36))
    own = replace(container("c", "1Gi"), origin={"limits.memory": "pod.yaml:9"})
    allocation, decision = outcome(machine(4), rules, pod("p", own)).reasons["c"].because
    assert allocation.inputs[0].origin == "pod.yaml:9"
    assert [one.origin for one in decision.inputs[:2]] == ["kubelet.yaml:4", "default"]
    burstable = outcome(machine(4), rules, pod("q", container("c", "1Gi", limit="2Gi")))
    assert burstable.reasons["c"].inputs[0].origin == "kubelet.yaml:3"


def test_the_first_table_comes_from_the_configuration():
    settings = KubeletSettings(
        memory_manager_policy="Static",
        reserved_memory=((0, amounts(memory="100Mi")),),
    )
    table = start(NodeFacts(memory=GIB), settings, Policies.of(settings, Release(36)))
    assert table.numa_nodes[0].of("memory").allocatable == 924 * MIB
    assert isinstance(outcome(table, policies(), plain("p", "924Mi")), Admitted)
