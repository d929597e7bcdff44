"""Node: the cgroups above pods under each key of enforceNodeAllocatable.

    keys                       kubepods          the reserved cgroups
    pods                       allocatable       unchanged
    none                       the whole node    unchanged
    pods and system-reserved   allocatable       system's has its reservation as limit and as memory.min
    pods and kube-reserved     allocatable       kube's has its reservation as limit and as memory.min
    all three                  allocatable       both

The engine gives the expected values. A pod runs on the node, so that the cgroups are in the state in which a kubelet
keeps them.
"""

import pytest


@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("node/enforced-by-key")
@pytest.mark.parametrize(
    "keys",
    [
        ["pods"],
        ["none"],
        ["pods", "system-reserved"],
        ["pods", "kube-reserved"],
        ["pods", "system-reserved", "kube-reserved"],
    ],
    ids="+".join,
)
def test_each_key_enforces_its_cgroup(qos_node, qos_kubelet, qos_catalog, qos_evidence, keys):
    """The key pods limits kubepods to allocatable; each other key limits its reserved cgroup to the reservation."""
    kubelet = qos_kubelet.with_enforced(*keys)
    with qos_node.admitted([qos_catalog.pod("best-effort")], kubelet) as population:
        qos_evidence.settle(population.judge_node())
