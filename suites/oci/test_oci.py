"""An OCI runtime asked in its own words: what a container holds that was made from a bundle, and updated in part.

The requests are those of fixtures/oci.toml, and each is a claim of its own, which has its name. Every file of the
container is judged after them, also those that no request names, and what its systemd scope holds; the pod and the
container beside it must hold what they held before. No daemon is between: what is found is the runtime's own doing.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """The runtime does what is asked and nothing else, and refuses what it may not take."""
    qos_evidence.settle(qos_requests(qos_request))
