from fractions import Fraction

import pytest

from memqos.catalog.kubelet_config import load_settings, settings_of
from memqos.errors import ManifestError, UsageError
from memqos.model.node import SwapBehavior
from memqos.model.quantity import Quantity

BASE = b"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memoryThrottlingFactor: 0.9
featureGates: {MemoryQoS: true, NodeSwap: true}
systemReserved: {memory: 100Mi}
"""


def test_a_field_wins_over_the_file_and_is_the_origin():
    found = settings_of(BASE, "kubelet.yaml", ["memoryThrottlingFactor=0.5", "featureGates.NodeSwap=false"])
    assert found.throttling_factor == Fraction(1, 2)
    assert found.feature_gates == {"MemoryQoS": True, "NodeSwap": False}
    assert found.origin["memoryThrottlingFactor"] == "--set memoryThrottlingFactor"
    assert found.origin["featureGates.NodeSwap"] == "--set featureGates.NodeSwap"
    assert found.origin["featureGates.MemoryQoS"] == "kubelet.yaml:4"


def test_the_last_one_wins():
    found = settings_of(BASE, "k", ["memoryThrottlingFactor=0.5", "memoryThrottlingFactor=0.25"])
    assert found.throttling_factor == Fraction(1, 4)


def test_keys_of_maps_may_have_dots_and_texts_stay_texts():
    found = load_settings(None, ["evictionHard.memory.available=5%", "systemReserved.memory=100"])
    assert found.eviction_hard == {"memory.available": "5%"}
    assert found.system_reserved == {"memory": Quantity.parse("100")}


def test_lists_and_objects_are_yaml():
    overrides = ["reservedMemory=[{numaNode: 1, limits: {memory: 1Gi}}]", "memorySwap={swapBehavior: LimitedSwap}"]
    found = load_settings(None, [*overrides, "enforceNodeAllocatable=[pods, kube-reserved]"])
    assert found.reserved_memory == ((1, {"memory": Quantity.parse("1Gi")}),)
    assert found.swap_behavior is SwapBehavior.LIMITED
    assert found.enforce_node_allocatable == ("pods", "kube-reserved")
    assert found.origin["memorySwap.swapBehavior"] == "--set memorySwap"


def test_null_removes_a_field_and_nothing_is_an_empty_text():
    found = settings_of(BASE, "k", ["memoryThrottlingFactor=null", "systemReserved=null", "cgroupRoot="])
    assert (found.throttling_factor, found.system_reserved, found.cgroup_root) == (None, None, "")


@pytest.mark.parametrize("override", ["memoryThrottlingFactor", "=1", "a..b=1", ".=1"])
def test_no_key_and_value(override):
    with pytest.raises(UsageError) as caught:
        load_settings(None, [override])
    assert "is not key=value" in str(caught.value)


@pytest.mark.parametrize(("override", "says"), [
    ("memoryThrottlngFactor=1", "Did you mean 'memoryThrottlingFactor'?"),
    ("memorySwap.swapBehaviour=NoSwap", "memorySwap.swapBehaviour: unknown field"),
    ("memorySwap.swapBehavior=Never", "memorySwap.swapBehavior: 'Never' is not one of"),
    ("featureGates.MemoryQoS=maybe", "expected true or false"),
    ("featureGates=true", "expected a mapping"),
    ("cgroupRoot.sub=1", "expected a string"),
    ("maxPods=[", "this is not YAML"),
    ("systemReserved.memory=12q", "'12q' is not a quantity"),
])  # fmt: skip
def test_the_override_is_named(override, says):
    with pytest.raises(ManifestError) as caught:
        load_settings(None, [override])
    assert str(caught.value).startswith(f"--set {override.partition('=')[0]}")
    assert says in str(caught.value)


def test_two_documents_are_not_a_value():
    with pytest.raises(UsageError, match="more than one YAML document"):
        load_settings(None, ["maxPods=1\n---\n2"])
