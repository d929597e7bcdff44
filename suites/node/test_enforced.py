"""Node: what enforceNodeAllocatable makes of the cgroups above pods, with every key and without any.

    keys                       kubepods          the reserved cgroups
    pods                       what is left      are not touched
    none                       the whole node    are not touched
    pods and system-reserved   what is left      system's has its reservation as limit and as memory.min
    pods and kube-reserved     what is left      kube's has its reservation as limit and as memory.min
    all three                  what is left      both

The engine says what each of the files holds; what is read is the kernel's. A pod is on the node, so that the cgroups
have been brought to where a kubelet has them.
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
    """Kubepods is limited to what is left with the key pods, and a reserved cgroup to what is reserved with its own."""
    kubelet = qos_kubelet.with_enforced(*keys)
    with qos_node.admitted([qos_catalog.pod("best-effort")], kubelet) as population:
        qos_evidence.settle(population.judge_node())
