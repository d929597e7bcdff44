"""A NUMA node fills up while others are allowed: the kernel continues on the nearest.

    cgroup          cpuset.mems                     cpuset.cpus   program asks for    after: memory.numa_stat
    pod spills      its own node, of 48 Mi; the     its own       192 Mi anonymous    anon: its own, the nearest, and
                    nearest; one farther away       node's                            nothing of the one farther away

A node here is a NUMA node. Unused huge pages take up the rest of the program's own one: narrow_numa_node leaves at most
144 Mi. The nearest has room for all of the program's memory. The expected order is the model's for the machine's
distances (`memqos.model.topology`). The farther NUMA node has a lower number than the others, so an order by
number would show. "Nothing" allows a batch of 64 pages, since a runtime may leave some when it makes the container.
"""

import pytest

from memqos import Knob
from memqos.testing import counted

MEMS = [Knob.CPUSET_MEMS]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("numa/full-numa-node-spills-to-the-nearest")
def test_a_full_numa_node_spills_to_the_nearest(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program runs on its own NUMA node's CPUs and may use three NUMA nodes, of which its own is nearly full."""
    order = qos_node.fallback()
    numa_nodes = [order.home, order.near, order.far]
    with (
        qos_node.narrowed(order.home),
        qos_node.watched(qos_catalog.pod("spills"), qos_kubelet, rests_on=MEMS, numa_node=numa_nodes) as container,
    ):
        course = container.until(counted("anon"))

    qos_evidence.settle(
        course.premises,
        course.numa.spills_to(order.near, not_to=order.far),
        course.still_runs(),
    )
