"""Requests that exist only in CRI: sandboxes, containers that do not run, status, stats and reports of OOM kills.

claims.toml defines each case (`asks`). Stats are compared with the kernel's files, read before and after the call: a
correct value lies between the two readings, or outside by at most 64 pages for each CPU, which the kernel charges
ahead.
"""


def test_case(qos_case, qos_cases, qos_evidence):
    """The runtime behaves as the claim says."""
    qos_evidence.settle(qos_cases(qos_case))
