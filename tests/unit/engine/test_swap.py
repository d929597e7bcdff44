"""Swap of containers, by release and behaviour."""

from dataclasses import replace

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.model.node import CgroupVersion, KubeletSettings, SwapBehavior
from tests.unit.engine.pods import NODE, container, pod
from tests.unit.engine.reading import knobs


# memory.swap.max by release and behaviour, for a container with 1Gi to 2Gi on 8Gi with 4Gi of swap.
@pytest.mark.parametrize(
    ("release", "gate", "behavior", "variant", "text"),
    [
        # The gate off: the runtime itself turns a memory limit into "no swap".
        ("1.22", False, "", "shipped", "0"),
        ("1.22", True, "LimitedSwap", "shipped", "0"),
        ("1.27", True, "UnlimitedSwap", "shipped", "max"),
        ("1.28", False, "", "shipped", "0"),
        ("1.28", True, "LimitedSwap", "shipped", "536870912"),
        ("1.28", True, "UnlimitedSwap", "shipped", "max"),
        # By the documentation an unset field means LimitedSwap; the code made it unlimited.
        ("1.29", True, "", "shipped", "max"),
        ("1.29", True, "", "documented", "536870912"),
        ("1.30", True, "", "shipped", "0"),
        ("1.30", True, "NoSwap", "shipped", "0"),
        ("1.30", True, "LimitedSwap", "shipped", "536870912"),
        ("1.33", False, "", "shipped", "0"),
        ("1.36", None, "LimitedSwap", "shipped", "536870912"),
    ],
)
def test_swap(release, gate, behavior, variant, text):
    settings_ = KubeletSettings(
        feature_gates={} if gate is None else {"NodeSwap": gate},
        swap_behavior=SwapBehavior(behavior) if behavior else None,
    )
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))],
        Kubelet.of(node=NODE, settings=settings_, release=release, variant=Variant(variant)),
    )
    assert str(knobs(plan)["memory.swap.max"]) == text


@pytest.mark.parametrize(("release", "text"), [("1.30", "536870912"), ("1.31", "0")])
def test_critical_pods_never_swap_from_131_on(release, text):
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED)
    for one in (
        pod(container({"memory": "1Gi"}, {"memory": "2Gi"}), static=True),
        pod(container({"memory": "1Gi"}, {"memory": "2Gi"}), priority=2_000_000_000),
    ):
        plan = expect([one], Kubelet.of(node=NODE, settings=settings_, release=release))
        assert str(knobs(plan)["memory.swap.max"]) == text


@pytest.mark.parametrize(
    ("release", "behavior", "text"),
    [
        ("1.22", SwapBehavior.UNLIMITED, "max"),
        ("1.22", SwapBehavior.LIMITED, None),
        ("1.28", SwapBehavior.LIMITED, "0"),
        ("1.22", None, None),
        ("1.36", SwapBehavior.LIMITED, "0"),
    ],
)
def test_swap_of_a_container_without_memory(release, behavior, text):
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=behavior)
    found = knobs(expect([pod(container({"cpu": "1"}))], Kubelet.of(node=NODE, settings=settings_, release=release)))
    assert str(found.get("memory.swap.max")) == str(text)


@pytest.mark.parametrize("release", ["1.28", "1.36"])
def test_no_swap_controller(release):
    node = replace(NODE, swap_controller=False)
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED)
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))],
        Kubelet.of(node=node, settings=settings_, release=release),
    )
    assert "memory.swap.max" not in knobs(plan)


def test_request_above_the_machine_does_not_swap():
    settings_ = KubeletSettings(swap_behavior=SwapBehavior.LIMITED)
    plan = expect([pod(container({"memory": "9Gi"}))], Kubelet.of(node=NODE, settings=settings_, release="1.36"))
    assert str(knobs(plan)["memory.swap.max"]) == "0"


@pytest.mark.parametrize(
    ("version", "release", "gate", "behavior", "limit"),
    [
        ("v1", "1.22", True, "", 2 << 30),
        ("v1", "1.22", True, "UnlimitedSwap", -1),
        ("v1", "1.22", False, "", 0),
        ("v1", "1.28", True, "", 2 << 30),
        ("v1", "1.28", True, "LimitedSwap", 2 << 30),
        ("v1", "1.28", False, "", 2 << 30),
        ("v1", "1.30", True, "LimitedSwap", 2 << 30),
        ("v2", "1.22", True, "UnlimitedSwap", -1),
        ("v2", "1.30", True, "LimitedSwap", 0),
    ],
)
def test_swap_in_the_message(version, release, gate, behavior, limit):
    settings_ = KubeletSettings(
        feature_gates={"NodeSwap": gate}, swap_behavior=SwapBehavior(behavior) if behavior else None
    )
    node = replace(NODE, cgroup_version=CgroupVersion(version))
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))],
        Kubelet.of(node=node, settings=settings_, release=release),
    )
    assert plan.pods[0].containers[0].resources.memory_swap_limit_in_bytes == limit
