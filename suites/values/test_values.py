"""Values at rest: every interface file while the pods of the catalogue run under one kubelet."""

import pytest


@pytest.mark.claim("values/pod")
def test_pod_and_its_containers_hold_their_values(qos_population, qos_pod, qos_evidence):
    """Every file of the pod's cgroup and its containers' cgroups, and each oom_score_adj, has its planned value."""
    qos_evidence.settle(qos_population.judge_pod(qos_pod))


@pytest.mark.claim("values/qos-class")
def test_qos_class_holds_the_sums_of_its_pods(qos_population, qos_class, qos_evidence):
    """The class's cgroup holds the sums over its pods."""
    qos_evidence.settle(qos_population.judge_class(qos_class))


@pytest.mark.claim("values/node")
def test_node_holds_what_is_allocatable_and_reserved(qos_population, qos_evidence):
    """Kubepods and the reserved cgroups hold allocatable memory, reservations and protection."""
    qos_evidence.settle(qos_population.judge_node())
