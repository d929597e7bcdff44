"""What the cgroups of pods live through."""

import pytest


@pytest.mark.claim("lifecycle/drift-of-pod")
@pytest.mark.kubelet("v1.36-tiered")
def test_drift_of_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A foreign write to a pod's cgroup is seen in that file alone, and is gone once the values are written again."""
    pod = qos_catalog.pod("burstable")
    with qos_node.admitted([pod], qos_kubelet) as population:
        qos_evidence.settle(qos_node.drift_of_pod(population, pod))
