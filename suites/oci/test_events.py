"""What an OCI runtime's command `events` tells of a container's memory.

    container            memory.max   program asks for
    stats-agree          96 Mi        48 Mi, and holds it
    oom-event            64 Mi        96 Mi in steps of 1 Mi

Stats are asked for when a container's memory has settled; the files are read before and after, and an answer within 64
pages of what lies between agrees: memory.stat is counted for each processor in batches of that size (mm/memcontrol.c,
MEMCG_CHARGE_BATCH). Of an OOM kill whoever follows the events is told; `events` follow from before the start.
"""

import pytest


@pytest.mark.claim("oci/stats-agree")
def test_stats_agree_with_the_kernels_files(qos_told_stats, qos_evidence):
    """The stats of a container that holds memory are what its files show."""
    qos_evidence.settle(qos_told_stats("bundle-reservation-and-limit"))


@pytest.mark.behaviour
@pytest.mark.claim("oci/oom-event")
def test_an_oom_kill_is_told(qos_told_oom, qos_evidence):
    """A program that asks for 96 MiB is killed at 64, and whoever follows the runtime's events hears of it."""
    qos_evidence.settle(qos_told_oom("bundle-no-swap"))
