"""What a container lives through: every value holds, and whoever goes leaves nothing behind.

What each case asks for is in claims.toml. What takes long happens once for all selected cases that wait for it: one
systemctl daemon-reload, one daemon-reexec, one restart of the runtime's daemon.
"""


def test_case(qos_case, qos_cases, qos_evidence):
    """Every value of the container holds, or nothing is left, as the claim says."""
    qos_evidence.settle(qos_cases(qos_case))
