"""Requests to reject, or that versions and drivers handle differently; at creation and in updates.

fixtures/requests.toml has the requests. A rejected request must leave no container and no cgroup and change nothing,
and the runtime must accept the next request.
"""


def test_refusal(qos_request, qos_requests, qos_evidence):
    """The runtime rejects the whole request with an error and changes nothing."""
    qos_evidence.settle(qos_requests(qos_request))
