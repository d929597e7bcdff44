"""Memory use of Docker containers: OOM kills, and Docker's statistics.

    cgroup               memory.max   before   program asks for
    pod over-limit       64 Mi        0
      container app      64 Mi        0        96 Mi in steps of 1 Mi

The stats are read once the container's memory has settled, and the files before and after them. A value within 64
pages of that range agrees: the kernel counts memory.stat per CPU in batches of that size (mm/memcontrol.c,
MEMCG_CHARGE_BATCH).
"""

import pytest

from memqos import Knob
from memqos.testing import ended

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("docker/oom-killed")
def test_a_program_is_killed_at_its_limit(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Docker reports that the kernel killed the program at memory.max."""
    with qos_node.watched(qos_catalog.pod("over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        *course.oom.is_killed(),
        course.oom.reports_reason(),
    )


@pytest.mark.claim("docker/stats-agree")
def test_stats_agree_with_the_kernels_files(qos_stats_findings, qos_evidence):
    """The stats of a container with memory in use match its files."""
    qos_evidence.settle(qos_stats_findings("docker-everything"))
