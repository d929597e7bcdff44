"""The same requests to another OCI runtime of the machine, without the engine's word on either."""

import pytest


@pytest.mark.claim("oci/as-another-runtime")
def test_another_runtime_makes_the_same_of_the_same_requests(qos_compared, qos_evidence):
    """What differs is a deviation, unless the two versions are known to differ there."""
    qos_evidence.settle(qos_compared())
