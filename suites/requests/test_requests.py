"""Requests to the runtime: the files of containers that were created with one request and updated with others.

fixtures/requests.toml has the requests; each has a claim of the same name. After the requests every file of the
container is judged, also those that no request names; the pod and a neighbouring container must not change.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """The runtime applies the request and changes nothing else."""
    qos_evidence.settle(qos_requests(qos_request))
