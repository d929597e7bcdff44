"""Requests that no runtime may take, or that versions and drivers take differently; at creation and in updates.

The requests are those of fixtures/requests.toml. A refused one must leave no container and no cgroup, change nothing
that was there, and the runtime must take the next request.
"""


def test_refusal(qos_request, qos_requests, qos_evidence):
    """What cannot be carried out is refused with an error, whole, and leaves everything as it was."""
    qos_evidence.settle(qos_requests(qos_request))
