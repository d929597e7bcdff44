"""A kubelet restarts with another configuration or release while pods keep running; then every level is judged.

claims.toml names the kubelets of each case.
"""


def test_case(qos_case, qos_kubelets_in_turn, qos_evidence):
    """Each level has the values that the kubelets, one after another, leave there."""
    qos_evidence.settle(qos_kubelets_in_turn(*qos_case.asks.kubelets))
