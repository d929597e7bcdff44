"""A container's lifecycle: its values survive restarts, reloads and updates, and removal leaves nothing behind.

claims.toml defines each case (`asks`). Slow events happen once for all selected cases that need them: one systemctl
daemon-reload, one daemon-reexec, one restart of the runtime's daemon.
"""


def test_case(qos_case, qos_cases, qos_evidence):
    """The container keeps its values, or nothing is left behind, as the claim says."""
    qos_evidence.settle(qos_cases(qos_case))
