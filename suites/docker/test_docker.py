"""The Docker Engine asked in its own words: what a container holds that was created with a HostConfig, and updated.

The requests are those of fixtures/docker.toml, and each is a claim of its own, which has its name. Every file of the
container is judged after them, also those that no request names; the pod and the container beside it must hold what
they held before. Docker knows no pods: a pod is the cgroup parent that its containers name.
"""


def test_request(qos_request, qos_requests, qos_evidence):
    """Docker does what is asked and nothing else; what it may not take it refuses, and leaves nothing behind."""
    qos_evidence.settle(qos_requests(qos_request))
