"""A configuration as policies, by release."""

import pytest

from memqos.engine.numa.policies import (
    MemoryPolicy,
    PodLevel,
    Policies,
    TopologyOptions,
    TopologyPolicy,
    TopologyScope,
    option_available,
    topology_options,
)
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings


def test_a_kubelet_places_nothing_unless_configured():
    found = Policies.of(KubeletSettings(), Release(36))
    assert found.memory is MemoryPolicy.NONE
    assert found.topology is TopologyPolicy.NONE
    assert found.scope is TopologyScope.CONTAINER
    assert found.options == TopologyOptions(prefer_closest=False, max_numa_nodes=8)


def test_all_configured_fields_are_used():
    settings = KubeletSettings(
        memory_manager_policy="Static",
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "T", "max-allowable-numa-nodes": "12"},
    )
    found = Policies.of(settings, Release(36))
    assert (found.memory, found.topology, found.scope) == ("Static", "restricted", "pod")
    assert found.options == TopologyOptions(prefer_closest=True, max_numa_nodes=12)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("memory_manager_policy", "BestEffort"),
        ("topology_manager_policy", "numa"),
        ("topology_manager_scope", "none"),
    ],
)
def test_an_unknown_policy_is_refused_with_its_place(field, name):
    in_file = "".join(part.title() if count else part for count, part in enumerate(field.split("_")))
    settings = KubeletSettings(**{field: name}, origin={in_file: "kubelet.yaml:7"})
    with pytest.raises(ManifestError) as caught:
        Policies.of(settings, Release(36))
    assert str(caught.value).startswith(f"kubelet.yaml:7: {in_file}: '{name}' is not a valid value. Known: ")
    assert caught.value.data == {"file": "kubelet.yaml", "line": 7, "field": in_file, "got": None}


@pytest.mark.parametrize(
    ("origin", "where"),
    [("--set x", "--set x"), ("", "kubelet configuration"), ("a:b", "a:b"), ("k.yaml:3", "k.yaml:3")],
)
def test_a_place_without_a_line_is_named(origin, where):
    settings = KubeletSettings(memory_manager_policy="x", origin={"memoryManagerPolicy": origin})
    with pytest.raises(ManifestError) as caught:
        Policies.of(settings, Release(36))
    assert caught.value.where == f"{where}: memoryManagerPolicy"


@pytest.mark.parametrize(
    ("minor", "on", "expected"),
    [(22, True, "Static"), (31, False, "None"), (32, False, "Static"), (22, False, "None")],
)
def test_before_1_32_the_gate_can_switch_the_memory_manager_off(minor, on, expected):
    settings = KubeletSettings(memory_manager_policy="Static", feature_gates={"MemoryManager": on})
    assert Policies.of(settings, Release(minor)).memory == expected


def test_before_1_27_a_topology_policy_needs_its_gate():
    settings = KubeletSettings(topology_manager_policy="restricted", feature_gates={"TopologyManager": False})
    with pytest.raises(ManifestError, match="needs the feature gate TopologyManager"):
        Policies.of(settings, Release(26))
    assert Policies.of(settings, Release(27)).topology is TopologyPolicy.RESTRICTED
    none = KubeletSettings(feature_gates={"TopologyManager": False})
    assert Policies.of(none, Release(26)).topology is TopologyPolicy.NONE


ON = {"PodLevelResources": True}
BOTH = {"PodLevelResources": True, "PodLevelResourceManagers": True}


@pytest.mark.parametrize(
    ("minor", "gates", "expected"),
    [
        (31, ON, PodLevel.BY_CONTAINER),
        (32, ON, PodLevel.BY_CONTAINER),
        (33, ON, PodLevel.BY_CONTAINER),
        (34, {}, PodLevel.LEFT_ALONE),
        (34, {"PodLevelResources": False}, PodLevel.BY_CONTAINER),
        (35, BOTH, PodLevel.LEFT_ALONE),
        (36, {}, PodLevel.LEFT_ALONE),
        (36, {"PodLevelResources": False, "PodLevelResourceManagers": True}, PodLevel.LEFT_ALONE),
        (36, BOTH, PodLevel.MANAGED),
        (37, BOTH, PodLevel.MANAGED),
    ],
)
def test_pods_with_pod_level_resources_by_release(minor, gates, expected):
    assert Policies.of(KubeletSettings(feature_gates=gates), Release(minor)).pod_level is expected


@pytest.mark.parametrize(
    ("minor", "memory", "topology"),
    [
        (22, 22, 22),
        (23, 22, 22),
        (24, 22, 24),
        (28, 22, 24),
        (29, 29, 24),
        (31, 29, 24),
        (33, 32, 24),
        (35, 34, 24),
        (37, 36, 24),
    ],
)
def test_revisions_are_named_after_their_first_release(minor, memory, topology):
    found = Policies.of(KubeletSettings(), Release(minor))
    assert found.memory_revision == f"memory-manager v1.{memory}"
    assert found.topology_revision == f"topology-manager v1.{topology}"


@pytest.mark.parametrize(
    ("minor", "groups", "sidecars", "need"),
    [
        (23, False, False, False),
        (28, False, False, True),
        (29, False, True, True),
        (31, False, True, True),
        (32, True, True, True),
    ],
)
def test_rules_by_release(minor, groups, sidecars, need):
    found = Policies.of(KubeletSettings(), Release(minor))
    assert (found.checks_groups, found.sidecars, found.up_to_need) == (groups, sidecars, need)


ALPHA = {"TopologyManagerPolicyAlphaOptions": True}
NO_BETA = {"TopologyManagerPolicyBetaOptions": False}


@pytest.mark.parametrize(
    ("option", "minor", "gates", "expected"),
    [
        ("prefer-closest-numa-nodes", 25, ALPHA, False),
        ("prefer-closest-numa-nodes", 26, {}, False),
        ("prefer-closest-numa-nodes", 27, ALPHA, True),
        ("prefer-closest-numa-nodes", 28, {}, True),
        ("prefer-closest-numa-nodes", 31, NO_BETA, False),
        ("prefer-closest-numa-nodes", 32, NO_BETA, True),
        ("max-allowable-numa-nodes", 30, {}, False),
        ("max-allowable-numa-nodes", 31, {}, True),
        ("max-allowable-numa-nodes", 34, NO_BETA, False),
        ("max-allowable-numa-nodes", 35, NO_BETA, True),
    ],
)
def test_options_by_release_and_gate(option, minor, gates, expected):
    assert option_available(option, Release(minor), gates) is expected


@pytest.mark.parametrize(
    ("options", "minor", "gates", "words"),
    [
        ({"prefer-closest-numa-nodes": "true"}, 27, ALPHA, "need the feature gate TopologyManagerPolicyOptions"),
        ({"prefer-closest-numa-nodes": "true"}, 36, {"TopologyManagerPolicyOptions": False}, "need the feature gate"),
        ({"nearest": "true"}, 36, {}, "'nearest' is not available in 1.36.*Available: prefer-closest-numa-nodes, max-"),
        ({"nearest": "true"}, 26, {"TopologyManagerPolicyOptions": True}, "Available: none"),
        ({"prefer-closest-numa-nodes": "yes"}, 36, {}, "is 'yes', which is neither true nor false"),
        ({"max-allowable-numa-nodes": "7"}, 36, {}, "is 7, and must be at least 8"),
        ({"max-allowable-numa-nodes": "-+9"}, 36, {}, "is '-\\+9', which is not an integer"),
        ({"max-allowable-numa-nodes": "٩٩"}, 36, {}, "not an integer"),
        ({"max-allowable-numa-nodes": "9" * 40}, 36, {}, "not an integer"),
    ],
)
def test_options_that_a_kubelet_refuses(options, minor, gates, words):
    settings = KubeletSettings(topology_manager_policy_options=options, feature_gates=gates)
    with pytest.raises(ManifestError, match=words):
        topology_options(settings, Release(minor))


def test_options_work_in_1_27_with_both_gates():
    settings = KubeletSettings(
        topology_manager_policy_options={"prefer-closest-numa-nodes": "1"},
        feature_gates=ALPHA | {"TopologyManagerPolicyOptions": True},
    )
    assert topology_options(settings, Release(27)).prefer_closest is True
