"""The lifecycle of pods' cgroups."""

import pytest


@pytest.mark.claim("lifecycle/drift-of-pod")
@pytest.mark.kubelet("v1.36-tiered")
def test_drift_of_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Another program writes a file of a pod's cgroup; writing the planned values again undoes it."""
    pod = qos_catalog.pod("burstable")
    with qos_node.admitted([pod], qos_kubelet) as population:
        qos_evidence.settle(qos_node.drift_of_pod(population, pod))
