"""Requests through Docker's own API: the files of containers that were created with a HostConfig and updated.

fixtures/docker.toml has the requests; each has a claim of the same name. After the requests every file of the container
is judged, also those that no request names; the pod and a neighbouring container must not change. Docker has no pods: a
pod is the cgroup parent of its containers.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """Docker applies the request and changes nothing else; it rejects an invalid request and leaves nothing behind."""
    qos_evidence.settle(qos_requests(qos_request))
