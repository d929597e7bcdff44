"""A kubelet comes back with another configuration or release over pods that run on: every level is judged then.

The kubelets of each case are in claims.toml.
"""


def test_case(qos_case, qos_kubelets_in_turn, qos_evidence):
    """Each level holds what the kubelets in turn leave there."""
    qos_evidence.settle(qos_kubelets_in_turn(*qos_case.asks.kubelets))
