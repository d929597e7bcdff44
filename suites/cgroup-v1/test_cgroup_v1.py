"""cgroup v1: the limits of memory, and of memory plus swap, against a program that allocates more.

    cgroup                  memory.limit_in_bytes   memory.memsw.limit_in_bytes   before   program asks for
    pod slowly-over-limit   128 Mi                  none                          0
      container app         64 Mi                   64 Mi, or none                0        96 Mi in steps of 1 Mi
      container beside      64 Mi                   64 Mi, or none                0        nothing

Each kubelet's plan gives the containers' memory.memsw.limit_in_bytes; both limits are preconditions of all tests. The
pod has room, so the program reaches the container's limits first. Only pages whose charge cannot fail may exceed them,
at most one batch of 64 (mm/memcontrol.c, try_charge_memcg). The kernel does not kill a program at
memory.memsw.limit_in_bytes at once: it retries a charge while reclaim frees anything, such as pages of the program's
own file.
"""

import pytest

from memqos import Knob
from memqos.testing import ended, exceeds

PREMISES = [Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.24")
@pytest.mark.claim("cgroup-v1/limit-kills")
def test_the_program_is_killed_at_limit_in_bytes(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program allocates more than memory.limit_in_bytes; the runtime reports the OOM kill."""
    with qos_node.watched(qos_catalog.pod("slowly-over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES, forced=True),
        course.oom.reports_exit_code(),
        course.oom.reports_reason(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.24-limited-swap")
@pytest.mark.claim("cgroup-v1/memsw-bounds-swap")
def test_memory_and_swap_together_are_capped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """With LimitedSwap the program is OOM-killed when memory and swap together reach the memory limit."""
    with qos_node.watched(qos_catalog.pod("slowly-over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.stays_within("memory.memsw.max_usage_in_bytes", Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, forced=True),
        course.oom.reports_exit_code(),
        course.oom.reports_reason(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.24-unlimited-swap")
@pytest.mark.claim("cgroup-v1/no-memsw-swaps")
def test_without_a_cap_the_rest_is_swapped_out(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """With UnlimitedSwap memory stays within its limit, and memory plus swap exceed it."""
    with qos_node.watched(qos_catalog.pod("slowly-over-limit"), qos_kubelet, rests_on=PREMISES) as container:
        course = container.until(exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES))

    qos_evidence.settle(
        course.premises,
        course.exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES),
        course.ran_into("memory.failcnt"),
        course.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES, forced=True),
        course.still_runs(),
        course.progressed(),
    )
