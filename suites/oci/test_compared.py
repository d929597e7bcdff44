"""The same requests to another OCI runtime on the machine, compared without the engine."""

import pytest


@pytest.mark.claim("oci/as-another-runtime")
def test_another_runtime_applies_the_same_requests_alike(qos_compared, qos_evidence):
    """A difference is a deviation unless a trait of either version names it."""
    qos_evidence.settle(qos_compared())
