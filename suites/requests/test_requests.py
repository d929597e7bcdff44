"""Requests made of the runtime itself: what a container holds that was created with one, and updated with others.

The requests are those of fixtures/requests.toml, and each is a claim of its own, which has its name. Every file of the
container is judged after them, also those that no request names; the pod and the container beside it must hold what
they held before.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """The runtime does what is asked, and nothing else."""
    qos_evidence.settle(qos_requests(qos_request))
