"""A kubelet comes back with another configuration or release over pods that run on: every level is judged then."""

import pytest


@pytest.mark.claim("lifecycle/gate-off-leaves-all")
def test_gate_off_leaves_all(qos_kubelets_in_turn, qos_evidence):
    """A kubelet of 1.36 that comes back with the gate off resets nothing: every level holds what it held."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.36-tiered", "v1.36-off"))


@pytest.mark.claim("lifecycle/gate-off-resets-above-pods")
def test_gate_off_resets_above_pods(qos_kubelets_in_turn, qos_evidence):
    """A kubelet of 1.37 without the gate resets kubepods and Burstable, and leaves pods and containers."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.37-tiered", "v1.37-off"))


@pytest.mark.claim("lifecycle/gate-on-again")
def test_gate_on_again(qos_kubelets_in_turn, qos_evidence):
    """With the gate on again kubepods and the classes hold their protection again."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.37-tiered", "v1.37-off", "v1.37-tiered"))


@pytest.mark.claim("lifecycle/policy-none-to-tiered")
def test_policy_none_to_tiered(qos_kubelets_in_turn, qos_evidence):
    """TieredReservation after None protects the classes, and no pod that was there before."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.36-none", "v1.36-tiered"))


@pytest.mark.claim("lifecycle/policy-tiered-to-none")
def test_policy_tiered_to_none(qos_kubelets_in_turn, qos_evidence):
    """None after TieredReservation resets the classes, and no pod that was there before."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.36-tiered", "v1.36-none"))


@pytest.mark.claim("lifecycle/factor-taken-away")
def test_factor_taken_away(qos_kubelets_in_turn, qos_evidence):
    """Without a throttling factor containers that run on keep their memory.high."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.37-tiered", "v1.37-default"))


@pytest.mark.claim("lifecycle/upgrade")
def test_upgrade(qos_kubelets_in_turn, qos_evidence):
    """A kubelet of 1.36 after one of 1.27 leaves pods and containers, and writes its own values above them."""
    qos_evidence.settle(qos_kubelets_in_turn("v1.27", "v1.36-tiered"))
