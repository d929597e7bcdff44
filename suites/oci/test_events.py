"""The memory reports of an OCI runtime's command `events`.

    container            memory.max   program asks for
    stats-agree          96 Mi        48 Mi, and holds it
    oom-event            64 Mi        96 Mi in steps of 1 Mi

The stats are read once the container's memory has settled, and the files before and after them. A value within 64 pages
of that range agrees: the kernel counts memory.stat per CPU in batches of that size (mm/memcontrol.c,
MEMCG_CHARGE_BATCH). For OOM kills, `events` runs from before the container's start.
"""

import pytest


@pytest.mark.claim("oci/stats-agree")
def test_stats_agree_with_the_kernels_files(qos_stats_findings, qos_evidence):
    """The stats of a container with memory in use match its files."""
    qos_evidence.settle(qos_stats_findings("bundle-reservation-and-limit"))


@pytest.mark.behaviour
@pytest.mark.claim("oci/oom-event")
def test_an_oom_kill_is_reported(qos_oom_findings, qos_evidence):
    """A program that allocates 96 MiB is killed at 64 MiB, and the runtime's events report it."""
    qos_evidence.settle(qos_oom_findings("bundle-no-swap"))
