"""Values at rest: what every control file holds once the pods of the catalogue run under one kubelet."""

import pytest


@pytest.mark.claim("values/pod")
def test_pod_and_its_containers_hold_their_values(qos_population, qos_pod, qos_evidence):
    """A pod's cgroup and its containers' cgroups hold what the kubelet of this release gives them."""
    qos_evidence.settle(qos_population.judge_pod(qos_pod))


@pytest.mark.claim("values/qos-class")
def test_qos_class_holds_the_sums_of_its_pods(qos_population, qos_class, qos_evidence):
    """The cgroup of a QoS class holds the sums that the kubelet makes of the class's pods."""
    qos_evidence.settle(qos_population.judge_class(qos_class))


@pytest.mark.claim("values/node")
def test_node_holds_what_is_allocatable_and_reserved(qos_population, qos_evidence):
    """Kubepods and the reserved cgroups hold the node's allocatable memory, reservations and protection."""
    qos_evidence.settle(qos_population.judge_node())
