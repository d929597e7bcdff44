"""What only one who speaks CRI can ask: sandboxes, containers that do not run, status, stats, and who is told of kills.

What each case asks for is in claims.toml. Stats are held against the kernel's files, which are read before and after
the runtime is asked: a right answer lies between the two, or beyond them by no more than 64 pages for each CPU, which
the kernel charges ahead.
"""


def test_case(qos_case, qos_cases, qos_evidence):
    """The runtime does what the claim says."""
    qos_evidence.settle(qos_cases(qos_case))
