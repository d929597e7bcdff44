"""Upstream's own tables for the Memory Manager (kubelet 1.32 to 1.36), row by row.

Not used, and why:
- TestStaticPolicyName: one row, a constant of the Go program.
- the rows of TestRemoveStaleState and TestAddContainer whose policyName is "mock": they test the manager around a
  policy that always fails, not a rule.
- TestStaticPolicyAllocatePod, first two rows, TestCheckpointStateStore and the second row of
  TestAllocateAndAddPodWithInitContainers: fragments of Go expressions without an input or an expectation.
- "Restore non-existing checkpoint" with its empty expectation is used as "no file: the fresh table".
Expected errors are compared word by word if they are the kubelet's messages about a pod, and by their data if memqos
has its own message (configuration errors).
"""

import json

import pytest

from memqos.engine.numa.admit import (
    EmptySharedPool,
    allocate_pod,
    container_hints,
    is_placed,
    pod_fault,
    pod_hints,
    pod_started,
    release,
)
from memqos.engine.numa.hints import NOTHING_REUSABLE, pod_request
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.reservation import (
    by_numa_node,
    check_fields,
    check_sums,
    empty_table,
    first_table,
    mixes_groups,
    remove_container,
)
from memqos.engine.numa.state import CheckpointError, StartRefusal, parse, restore, table_differences
from memqos.engine.numa.table import Block, NumaNodeState, NumaTable
from memqos.engine.numa.topology_manager import Mask
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import Container, Pod, Resources
from memqos.model.quantity import Quantity
from tests.checkpoints import checkpoint_text
from tests.vectors.memory_manager import (
    allocated,
    assert_same,
    assignments,
    called,
    error,
    hint,
    hints,
    plain,
    policies,
    rows,
    sized,
    state,
    zones,
)
from tests.vectors.tables import amounts, table


@pytest.mark.parametrize(
    ("row", "minor"),
    [
        *rows("memory_manager_static.v1.33.13", "TestStaticPolicyAllocate"),
        *rows("memory_manager_static.v1.35.6", "TestStaticPolicyAllocate"),
        *rows(
            "memory_manager_static.v1.36.3",
            "TestStaticPolicyAllocate",
            "TestStaticPolicyAllocateWithInitContainers",
            "TestStaticPolicyAllocateWithRestartableInitContainers",
        ),
    ],
)
def test_static_policy_allocates(row, minor):
    now = allocated(row, minor)
    if error(row):
        assert now.message == error(row)
    else:
        assert_same(row, now)


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager_static.v1.36.3", "TestStaticPolicyRemoveContainer"))
def test_static_policy_removes_a_container(row, minor):
    assert_same(row, remove_container(state(row["machineState"], row.get("assignments")), "pod1", "container1"))


def default_table(row):
    machine = row.get("machineInfo") or {"Topology": []}
    reserved = {int(zone): amounts for zone, amounts in row["systemReserved"].items()}
    return empty_table(zones(machine), reserved, ())


HINT_ROWS = [
    *rows("memory_manager_static.v1.33.13", "TestStaticPolicyGetTopologyHints"),
    *rows("memory_manager_static.v1.35.6", "TestStaticPolicyGetTopologyHints"),
    *rows("memory_manager_static.v1.36.3", "TestStaticPolicyGetTopologyHints"),
]


@pytest.mark.parametrize(("row", "minor"), HINT_ROWS)
def test_static_policy_hints_for_a_container(row, minor):
    own, rules = called(row["pod"]), policies(row, minor)
    now = state(row.get("machineState"), row.get("assignments"))
    found = container_hints(own, own.containers[0], now, NOTHING_REUSABLE, rules) if is_placed(own, rules) else None
    assert {kind: list(of_kind) for kind, of_kind in (found or {}).items()} == hints(row["expectedTopologyHints"])


@pytest.mark.parametrize(
    ("row", "minor"),
    [
        *rows("memory_manager_static.v1.35.6", "TestStaticPolicyGetPodTopologyHints"),
        *rows("memory_manager_static.v1.36.3", "TestStaticPolicyGetPodTopologyHints"),
    ],
)
def test_static_policy_hints_for_a_pod(row, minor):
    own, rules = called(row["pod"]), policies(row, minor)
    found = pod_hints(own, state(row.get("machineState")), rules) if is_placed(own, rules) else None
    assert {kind: list(of_kind) for kind, of_kind in (found or {}).items()} == hints(row["expectedTopologyHints"])


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager_static.v1.36.3", "Test_getPodRequestedResources"))
def test_a_pods_request(row, minor):
    assert pod_request(plain(row["pod"]), policies(row, minor)) == row["expected"]


@pytest.mark.parametrize(
    ("row", "minor"), rows("memory_manager_static.v1.36.3", "Test_isAffinityViolatingNUMAAllocations")
)
def test_sets_of_numa_nodes_that_mix_groups(row, minor):
    mask = Mask.of(row["topologyHint"]["NUMANodeAffinity"])
    assert mixes_groups(state(row["machineState"]), mask) is row["isViolationExpected"]


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager_static.v1.36.3", "TestValidatePodScopeResources"))
def test_the_shared_part_of_a_pod(row, minor):
    gates = {key.split(".")[1].split('"')[0]: on for key, on in row["features"].items()}
    rules = Policies.of(KubeletSettings(feature_gates=gates, memory_manager_policy="Static"), Release(minor))
    assert pod_fault(called(row["pod"]), rules) == error(row)


ALLOCATE_POD = table("memory_manager_static.v1.36.3")["tables"]["TestStaticPolicyAllocatePod"][2]


@pytest.mark.parametrize("row", ALLOCATE_POD, ids=lambda row: row["description"].replace(" ", "-")[:120])
def test_static_policy_allocates_a_pod_as_a_whole(row):
    own, rules = called(row["pod"]), policies(row, 36)
    now = state(row["machineState"])
    if not is_placed(own, rules):
        assert row["expectedAssignments"] == {}
        assert now.numa_nodes == state(row["expectedMachineState"]).numa_nodes
        return
    outcome = allocate_pod(own, table=now, hint=hint(row["topologyHint"]), policies=rules)
    if error(row):
        assert isinstance(outcome, EmptySharedPool)
        assert outcome.message == error(row)
        return
    assert outcome[0].assignments == assignments(row["expectedAssignments"])
    # Upstream compares these states like checkpoints: amounts as sums over the NUMA nodes of a group.
    assert table_differences(outcome[0], state(row["expectedMachineState"])) == ()


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager_static.v1.36.3", "TestStaticPolicyNew"))
def test_static_policy_needs_reserved_memory(row, minor):
    reserved = tuple(
        (int(zone), {kind: Quantity.of_bytes(size) for kind, size in amounts.items()})
        for zone, amounts in (row.get("systemReserved") or {}).items()
    )
    settings = KubeletSettings(
        memory_manager_policy="Static",
        reserved_memory=reserved,
        eviction_hard={},
        kube_reserved={"memory": Quantity.of_bytes(512 << 20)} if reserved else None,
    )
    facts = NodeFacts(memory=4 << 30, numa_nodes=(NumaNode(id=0, memory=2 << 30), NumaNode(id=1, memory=2 << 30)))
    if error(row):
        assert error(row) == "[memorymanager] you should specify the system reserved memory"
        with pytest.raises(ManifestError, match="needs memory to be reserved"):
            first_table(facts, settings, policies(row, minor))
    else:
        assert (
            first_table(facts, settings, policies(row, minor)).numa_nodes[1].of("memory").system_reserved == 512 << 20
        )


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager_static.v1.36.3", "TestStaticPolicyStart"))
def test_static_policy_starts_with_a_recorded_state(row, minor):
    text = checkpoint_text("Static", state(row.get("machineState"), row.get("assignments")))
    outcome = restore(text, default_table(row), policies(row, minor))
    if error(row):
        assert outcome.message == error(row)
    else:
        # The kubelet continues with the recorded split; only a group's sums equal the expected state.
        assert outcome.numa_nodes == state(row["machineState"]).numa_nodes
        assert table_differences(outcome, state(row["expectedMachineState"])) == ()
        assert outcome.assignments == assignments(row["expectedAssignments"])


def reserved_memory(given):
    return tuple((one["NumaNode"], amounts(one["Limits"])) for one in given)


@pytest.mark.parametrize(
    ("row", "minor"), rows("reserved_memory_validation.v1.36.3", "TestValidateReservedMemoryConfiguration")
)
def test_reserved_memory_in_the_configuration(row, minor):
    settings = KubeletSettings(reserved_memory=reserved_memory(row["kubeletConfiguration"].get("ReservedMemory", [])))
    if not error(row):
        check_fields(settings)
        return
    words = {
        "duplicate value": "given twice",
        "is not supported": "is not a type of memory",
        "may not be zero": "more than zero",
    }
    [expected] = [own for upstream, own in words.items() if upstream in error(row)]
    with pytest.raises(ManifestError, match=expected):
        check_fields(settings)


@pytest.mark.parametrize("row", table("memory_manager.v1.36.3")["tables"]["TestValidateReservedMemory"])
def test_reserved_memory_adds_up(row):
    _name, node, machine, reserved, message = row
    settings = KubeletSettings(reserved_memory=reserved_memory(reserved))
    known = {zone.id: zone for zone in zones(machine)}
    if not message:
        check_sums(settings, amounts(node), known)
        return
    with pytest.raises(ManifestError) as caught:
        check_sums(settings, amounts(node), known)
    data = caught.value.data
    assert message == (
        f"the total amount {data['numa_nodes']} of type {data['type']} is not equal to the value {data['node']} "
        "determined by Node Allocatable feature"
    )


@pytest.mark.parametrize("row", table("memory_manager.v1.36.3")["tables"]["TestConvertPreReserved"])
def test_reserved_memory_by_numa_node(row):
    _name, reserved, expected, message = row
    found = by_numa_node(KubeletSettings(reserved_memory=reserved_memory(reserved)), {0: None, 1: None})
    assert message == ""
    assert found == {int(zone): kinds for zone, kinds in expected.items()}


@pytest.mark.parametrize(
    ("row", "minor"),
    [
        *rows("memory_manager.v1.36.3", "TestGetSystemReservedMemory", "TestNewManager"),
        *rows("memory_manager.v1.32.13", "TestNewManager"),
    ],
)
def test_a_new_manager(row, minor):
    name = row.get("policyName", "Static")
    settings = KubeletSettings(
        memory_manager_policy="Static" if isinstance(name, dict) else name,
        reserved_memory=reserved_memory(row["systemReservedMemory"]),
        system_reserved=amounts(row["nodeAllocatableReservation"]),
        eviction_hard={},
    )
    facts = NodeFacts(memory=20 << 30, numa_nodes=tuple(zones(row["machineInfo"])), hugepage_sizes=())

    def start():
        return first_table(facts, settings, Policies.of(settings, Release(minor)))

    if row.get("description") == "Should return empty map when reservation is not done":
        # The function of this row runs before the policy, which then refuses the empty map.
        assert by_numa_node(settings, {0: None, 1: None}) == {0: {}, 1: {}}
    elif not error(row):
        expected = {int(zone): kinds for zone, kinds in row["expectedReserved"].items()}
        if settings.memory_manager_policy == "None":
            expected = {0: {"memory": 0}, 1: {"memory": 0}}  # the row repeats a default that nothing reads
        assert {
            zone.id: {"memory": zone.of("memory").system_reserved} for zone in start().numa_nodes.values()
        } == expected
    else:
        with pytest.raises(ManifestError) as caught:
            start()
        assert caught.value.data["field"] in {"reservedMemory", "memoryManagerPolicy"}


def not_mocked(given):
    return [one for one in given if one.values[0]["policyName"] != "mock"]


@pytest.mark.parametrize(("row", "minor"), not_mocked(rows("memory_manager.v1.36.3", "TestRemoveStaleState")))
def test_removed_pods_are_released(row, minor):
    now = state(row["machineState"], row["assignments"])
    for uid in row["assignments"]:
        now = release(uid, now)
    assert_same(row, now)


@pytest.mark.parametrize(("row", "minor"), not_mocked(rows("memory_manager.v1.36.3", "TestAddContainer")))
def test_the_manager_allocates_and_adds_a_container(row, minor):
    now = allocated(row, minor)
    assert now.numa_nodes == state(row["expectedMachineState"]).numa_nodes


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager.v1.36.3", "TestRemoveContainer"))
def test_the_manager_removes_a_container(row, minor):
    name = {"fakeID1": "fakeContainer1", "fakeID2": "fakeContainer2"}.get(row["removeContainerID"], "unknown")
    assert_same(row, remove_container(state(row["machineState"], row["assignments"]), "fakePod1", name))


@pytest.mark.parametrize(("row", "minor"), rows("memory_manager.v1.36.3", "TestGetTopologyHints"))
def test_the_manager_hints(row, minor):
    # The row's pod is in the Go test's body: one container with 1Gi of memory and one 1Gi page. No pod is active
    # there, so that the manager first releases what the row has assigned.
    wanted = sized("1Gi", "c").resources.requests | {"hugepages-1Gi": Quantity.parse("1Gi")}
    container = Container(name="c", resources=Resources(requests=wanted, limits=wanted))
    own = Pod(name="p", uid="p", containers=(container,))
    now = release("fakePod1", state(row["machineState"], row["assignments"]))
    found = container_hints(own, container, now, NOTHING_REUSABLE, policies(row, minor))
    assert {kind: list(of_kind) for kind, of_kind in found.items()} == hints(row["expectedHints"])


def test_init_containers_hold_nothing_after_the_next_container_started():
    [[row], _] = table("memory_manager.v1.36.3")["tables"]["TestAllocateAndAddPodWithInitContainers"]
    now = allocated(row, 36)
    assert_same(row, pod_started(plain(row["podAllocate"]), now, policies(row, 36)))


CHECKPOINTS = [
    *(("1.36", row) for row in table("memory_manager_state.v1.36.3")["tables"]["TestCheckpointStateRestore"]),
    *(("1.35", [*row, False]) for row in table("memory_manager_state.v1.35.6")["tables"]["TestCheckpointStateRestore"]),
]


@pytest.mark.parametrize(
    ("release_text", "row"), CHECKPOINTS, ids=[f"{one}-{row[0].replace(' ', '-')}" for one, row in CHECKPOINTS]
)
def test_checkpoints_are_read_and_their_checksums_checked(release_text, row):
    name, text, message, expected, with_pods = row
    if not text:
        fresh = NumaTable(numa_nodes={0: NumaNodeState(id=0, cells=(0,))})
        assert expected == {}
        assert restore(None, fresh, policies({}, 36)) is fresh
        return
    if "invalid JSON" in name:
        with pytest.raises(CheckpointError, match="it is not JSON"):
            parse(text)
        return
    checkpoint = parse(text)
    assert checkpoint.intact(with_pods=with_pods) is (message == "")
    if message:
        rules = policies({"podLevelResourceManagersEnabled": with_pods, "podLevelResourcesEnabled": with_pods}, 36)
        outcome = restore(text, NumaTable(numa_nodes={}), rules)
        assert isinstance(outcome, StartRefusal)
        assert message in outcome.message
    else:
        assert checkpoint.table.assignments == assignments(expected["assignments"])
        assert checkpoint.table.numa_nodes == state(expected["machineState"]).numa_nodes


def test_the_newer_format_has_its_own_checksum():
    """The row is about a kubelet without the gate; the same file is intact to one with it."""
    [text] = [row[1] for _, row in CHECKPOINTS if "from v2" in row[0]]
    checkpoint = parse(text)
    assert checkpoint.checksum == 1278640530
    assert checkpoint.intact(with_pods=True)
    assert checkpoint.table.pod_blocks == {"pod": (Block((0,), "memory", 512),)}


@pytest.mark.parametrize("name", ["TestCheckpointStateHelpers", "TestCheckpointStateClear"])
def test_a_stored_checkpoint_is_read_back(name):
    for row in table("memory_manager_state.v1.36.3")["tables"][name]:
        given = state(row["machineState"], row["assignments"])
        assert parse(checkpoint_text("static", given)).table == given
        assert json.loads(checkpoint_text("static", given))["policyName"] == "static"
        assert checkpoint_text("static", parse(checkpoint_text("static", given)).table) == checkpoint_text(
            "static", given
        )


def test_the_policy_none_places_nothing():
    assert not is_placed(Pod(name="p", uid="p", containers=(sized("1Gi", "c"),)), policies({"policyName": "None"}, 36))
    assert policies({"policyName": "Static"}, 36).memory is MemoryPolicy.STATIC
