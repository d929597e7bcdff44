"""Requests to an OCI runtime directly: the files of containers that were created from a bundle and partly updated.

fixtures/oci.toml has the requests; each has a claim of the same name. After the requests every file of the container is
judged, also those that no request names, and the files of its systemd scope; the pod and a neighbouring container must
not change. No daemon is involved: every finding is about the runtime itself.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """The runtime applies the request and changes nothing else, or rejects an invalid request."""
    qos_evidence.settle(qos_requests(qos_request))
