"""What API defaulting makes of amounts, as far as a plan shows it."""

import pytest

from memqos.engine.defaulting import container_defaults
from memqos.engine.expect import expect
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import NODE, amounts, container, pod, resources


@pytest.mark.parametrize(
    ("given", "kept"),
    [("100.5m", "101m"), ("100m", "100m"), ("1.0001", "1001m"), ("1u", "1m"), ("64Mi", "64Mi"), ("0", "0")],
)
def test_amounts_are_rounded_up_to_whole_millis(given, kept):
    own = container_defaults(container({"cpu": given, "memory": "1Gi"})).resources.requests
    assert own == amounts({"cpu": kept, "memory": "1Gi"})


def test_a_limit_is_rounded_before_it_becomes_the_request():
    found = container_defaults(container(None, {"cpu": "0.0001"}, origin={"limits.cpu": "a.yaml:3"}))
    assert found.resources == resources({"cpu": "1m"}, {"cpu": "1m"})
    assert found.origin == {"limits.cpu": "a.yaml:3", "requests.cpu": "a.yaml:3, from the limit"}


def test_a_container_that_needs_nothing_is_left_as_it_is():
    one = container({"memory": "1Gi"}, {"memory": "2Gi"})
    assert container_defaults(one) is one


def test_overhead_is_rounded_too():
    plan = expect(
        [pod(container(None, {"memory": "1Mi"}), overhead={"memory": Quantity.parse("0.0001")})],
        node=NODE,
        release="1.36",
    )
    # A thousandth of a byte more than 1Mi is one byte more.
    assert str(plan.pods[0].cgroup.knobs[Knob.MEMORY_MAX].written) == "1048577"


@pytest.mark.parametrize(
    ("gate", "memory", "weight"),
    [
        (False, "1073741824", "20"),  # 1 + (512 - 2) * 9999 / 262142
        (True, "1073741824", "79"),  # 1 + (2048 - 2) * 9999 / 262142
    ],
)
def test_without_the_gate_pod_level_memory_counts_for_burstable_and_cpu_does_not(gate, memory, weight):
    one = pod(
        container({"cpu": "500m", "memory": "64Mi"}),
        resources=resources({"cpu": "2", "memory": "1Gi"}),
    )
    settings = KubeletSettings(feature_gates={"MemoryQoS": True, "PodLevelResources": gate})
    burstable = expect([one], node=NODE, settings=settings, release="1.32").qos[0]
    assert str(burstable.knobs[Knob.MEMORY_MIN].written) == memory
    assert str(burstable.knobs[Knob.CPU_WEIGHT].written) == weight
