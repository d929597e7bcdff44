"""Pods with pod-level resources: placed by container, exempt, or placed as a whole."""

import pytest

from memqos.engine.numa.admit import Admitted, admit, allocate_pod, pod_fault, pod_hints, pod_started, release
from memqos.engine.numa.hints import pod_request
from memqos.engine.numa.reservation import NOT_WHOLE, remove_container
from memqos.engine.numa.table import Block
from memqos.engine.numa.topology_manager import NO_AFFINITY
from memqos.engine.plan import Refusal
from memqos.model.pod import Pod, Resources
from tests.unit.engine.numa.builders import (
    GIB,
    MANAGED,
    amounts,
    container,
    init,
    machine,
    placed,
    pod,
    policies,
    sidecar,
)

WHOLE = policies("restricted", "pod", gates=MANAGED)


def held(table, uid):
    return {
        name: [(block.numa_nodes, block.size // GIB) for block in blocks]
        for name, blocks in table.assignments[uid].items()
    }


def test_the_pod_is_placed_once_and_its_containers_share():
    own = pod("p", sidecar("s", "1Gi"), init("i"), init("j", "2Gi"), container("c", "1Gi"), container("d"), total="4Gi")
    outcome = admit(own, table=machine(8, 8), policies=WHOLE)
    table = outcome.table
    assert table.pod_blocks == {"p": (Block((0,), "memory", 4 * GIB),)}
    assert held(table, "p") == {
        "s": [((0,), 1)],
        "i": [((0,), 3)],
        "j": [((0,), 2)],
        "c": [((0,), 1)],
        "d": [((0,), 2)],
    }
    assert [table.numa_nodes[zone].of("memory").free // GIB for zone in (0, 1)] == [4, 8]
    assert table.numa_nodes[0].assignments == 1
    assert outcome.cpuset_mems == dict.fromkeys(["s", "i", "j", "c", "d"], "0")


def test_a_zero_amount_has_no_block():
    own = pod("p", container("c", "1Gi", hugepages_2Mi="0"), total="4Gi")
    assert held(placed(machine(8), WHOLE, own), "p") == {"c": [((0,), 1)]}


def test_its_memory_is_released_with_the_last_container():
    own = pod("p", init("i", "1Gi"), container("c", "1Gi"), container("d"), total="4Gi")
    table = placed(machine(8), WHOLE, own)
    running = pod_started(own, table, WHOLE)
    assert list(running.assignments["p"]) == ["c", "d"]
    assert running.numa_nodes == table.numa_nodes
    one_left = remove_container(running, "p", "c")
    assert one_left.numa_nodes == table.numa_nodes
    assert remove_container(one_left, "p", "d") == machine(8)
    assert release("p", table) == machine(8)


def test_it_is_placed_once_only():
    own = pod("p", container("c", "1Gi"), total="4Gi")
    table = placed(machine(8), WHOLE, own)
    assert allocate_pod(own, table=table, hint=NO_AFFINITY, policies=WHOLE)[0] is table
    # The only container holds less than the pod: no preference, and its memory stays.
    assert pod_hints(own, table, WHOLE) is None
    assert admit(own, table=table, policies=WHOLE).table is table


def test_exclusive_containers_must_leave_memory_for_shared_ones():
    own = pod("p", container("c", "4Gi"), container("d"), total="4Gi")
    message = (
        "pod rejected, sum of exclusive container memory requests equals pod budget, "
        "leaving no memory for shared containers"
    )
    assert pod_fault(own, WHOLE) == message
    assert pod_hints(own, machine(8), WHOLE) == {"memory": ()}
    refused = admit(own, table=machine(8), policies=WHOLE)
    assert (refused.reason_name, refused.message) == (
        "TopologyAffinityError",
        "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
    )
    lax = admit(own, table=machine(8), policies=policies("best-effort", "pod", gates=MANAGED))
    assert (lax.reason_name, lax.message) == ("EmptyPodSharedPoolError", message)


TOO_LARGE = (
    "pod rejected, largest exclusive init container requests 3221225472 of memory, but only 2147483648 available"
)


@pytest.mark.parametrize(
    ("containers", "fault"),
    [
        (
            [sidecar("s", "2Gi"), init("i", "3Gi"), container("c")],
            TOO_LARGE,
        ),
        (
            [sidecar("s", "4Gi"), init("i"), container("c", "1Gi")],
            "pod rejected, pod has shared init containers but no memory available for them",
        ),
        ([sidecar("s"), container("c", "3Gi")], ""),
        ([init("i", "4Gi"), container("c")], ""),
    ],
)
def test_init_containers_must_fit_with_the_sidecars(containers, fault):
    assert pod_fault(pod("p", *containers, total="4Gi"), WHOLE) == fault


def test_it_can_be_refused_without_room():
    own = pod("p", container("c", "1Gi"), total="9Gi")
    refused = admit(own, table=machine(8), policies=policies("best-effort", "pod", gates=MANAGED))
    assert refused.reason_name == "UnexpectedAdmissionError"
    assert "failed to find NUMA nodes to extend" in refused.message


HALF = amounts(cpu="1", memory="1500m")


def fractional(*, in_pod):
    own = Resources(requests=HALF, limits=HALF)
    whole = Resources(requests=amounts(cpu="8", memory="4Gi"), limits=amounts(cpu="8", memory="4Gi"))
    one = container("c", "1500m")
    return Pod(name="p", uid="p", containers=(one,), resources=own if in_pod else whole)


def test_amounts_of_containers_must_be_whole():
    own = fractional(in_pod=False)
    assert pod_fault(own, WHOLE) == NOT_WHOLE
    assert allocate_pod(own, table=machine(8), hint=NO_AFFINITY, policies=WHOLE).message == NOT_WHOLE
    refused = admit(own, table=machine(8), policies=policies("best-effort", "pod", gates=MANAGED))
    assert (refused.reason_name, refused.message) == ("EmptyPodSharedPoolError", NOT_WHOLE)


def test_a_pod_whose_own_amount_is_not_whole_is_admitted_and_not_placed():
    own, table = fractional(in_pod=True), machine(8)
    assert pod_fault(own, WHOLE) == NOT_WHOLE
    admitted = admit(own, table=table, policies=WHOLE)
    assert admitted.table is table
    assert admitted.cpuset_mems == {}


def test_the_scope_container_has_its_own_message():
    own = pod("p", container("c", "9Gi"), total="9Gi")
    table = machine(8, 8)
    refused = admit(own, table=table, policies=policies("single-numa-node", "container", gates=MANAGED))
    assert (refused.reason_name, refused.message) == (
        "TopologyAffinityError",
        "Pod Scope pod with pod-level resources failed admission with a container-level topology manager",
    )


def test_a_zero_in_spec_resources_is_no_request():
    own = pod("p", container("c", "1Gi"), total="4Gi")
    zero = own.resources.requests | amounts(hugepages_2Mi="0")
    own = Pod(
        name="p", uid="p", containers=own.containers, resources=Resources(requests=zero, limits=own.resources.limits)
    )
    assert pod_request(own, WHOLE) == {"memory": 4 * GIB}


def test_in_the_scope_container_containers_are_placed_one_by_one():
    own = pod("p", container("c", "1Gi"), container("d", "1Gi", limit="2Gi"), total="4Gi")
    outcome = admit(own, table=machine(8), policies=policies("best-effort", "container", gates=MANAGED))
    assert outcome.table.pod_blocks == {}
    assert held(outcome.table, "p") == {"c": [((0,), 1)], "d": []}
    assert outcome.cpuset_mems == {"c": "0"}


def test_a_container_that_shares_cannot_be_placed_without_an_affinity():
    """Container by container the shared ones request nothing, and there is no default NUMA node for that."""
    own = pod("p", container("c"), total="4Gi")
    refused = admit(own, table=machine(8), policies=policies("none", gates=MANAGED))
    assert isinstance(refused, Refusal)
    assert "failed to get the default NUMA affinity" in refused.message


@pytest.mark.parametrize(("minor", "gates"), [(34, {}), (36, {}), (37, {"PodLevelResourceManagers": False})])
def test_an_exempt_pod(minor, gates):
    own = pod("p", container("c", "1Gi"), total="4Gi")
    table = machine(8)
    outcome = admit(own, table=table, policies=policies("restricted", minor=minor, gates=gates))
    assert isinstance(outcome, Admitted)
    assert outcome.table is table
    assert outcome.cpuset_mems == {}


def test_in_1_33_its_containers_count():
    own = pod("p", container("c", "1Gi"), total="4Gi")
    outcome = admit(own, table=machine(8), policies=policies(minor=33, gates={"PodLevelResources": True}))
    assert held(outcome.table, "p") == {"c": [((0,), 1)]}


def test_in_1_33_its_containers_make_the_pods_request_too():
    own = pod("p", container("c", "1Gi"), total="4Gi")
    assert pod_request(own, policies(minor=33, gates={"PodLevelResources": True})) == {"memory": GIB}


def test_a_burstable_pod_is_admitted_without_memory_of_its_own():
    own = pod("p", container("c", "1Gi"), total="4Gi")
    less = Resources(requests=amounts(cpu="8", memory="3Gi"), limits=own.resources.limits)
    own = Pod(name="p", uid="p", containers=own.containers, resources=less)
    outcome = admit(own, table=machine(8), policies=WHOLE)
    assert outcome.cpuset_mems == {}
