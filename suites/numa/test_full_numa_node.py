"""A full NUMA node next to an empty one: the kernel reclaims page cache, and kills a program without any.

    cgroup                 cpuset.mems       program asks for           after: memory.numa_stat
    pod fills-numa-node         a node of 48 Mi   1 Gi anonymous, 16 Mi/s    killed; anon: that node only
    pod numa-cache         a node of 48 Mi   384 Mi of page cache       completes; file: that node only, and less
                                                                        of it than was written

Unused huge pages take up the rest of the NUMA node. Memory of other programs on it may be swapped out or dropped, so a
program gets more than 48 Mi: over 100 Mi on a machine that has run for long, and once all of 384. So one program asks
for as much as the whole NUMA node has. Reclaim is not judged if the other NUMA node has room for all the writes and the
kernel takes none of it. The killed program's memory cannot be swapped out, by its memory.swap.max. It may take memory
anywhere until it is dead (kernel/cgroup/cpuset.c, cpuset_node_allowed), and then has at most one batch of 64 pages
elsewhere.
"""

import pytest

from memqos import Knob
from memqos.testing import ended

MEMS = [Knob.CPUSET_MEMS]
NO_SWAP = [*MEMS, Knob.MEMORY_SWAP_MAX]


@pytest.fixture(scope="module")
def narrow_numa_node(qos_node):
    """The last NUMA node of the machine, with little free memory."""
    *_, numa_node = (numa_node.id for numa_node in qos_node.facts.numa_nodes)
    with qos_node.narrowed(numa_node):
        yield numa_node


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("numa/full-numa-node-kills")
def test_a_full_numa_node_kills_although_another_is_empty(
    qos_node, qos_kubelet, narrow_numa_node, qos_catalog, qos_evidence
):
    """The program is killed, although the other NUMA node has room for all of its memory."""
    with qos_node.watched(
        qos_catalog.pod("fills-numa-node"), qos_kubelet, rests_on=NO_SWAP, numa_node=narrow_numa_node
    ) as container:
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        course.oom.is_killed_for_its_numa_node(),
        course.numa.never_leaves(narrow_numa_node),
        course.oom.reports_exit_code(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("numa/full-numa-node-reclaims")
def test_page_cache_of_a_full_numa_node_is_reclaimed(
    qos_node, qos_kubelet, narrow_numa_node, qos_catalog, qos_evidence
):
    """The program writes more than its NUMA node can hold, and none of it goes to the other one."""
    with qos_node.watched(
        qos_catalog.pod("numa-cache"), qos_kubelet, rests_on=MEMS, numa_node=narrow_numa_node
    ) as container:
        course = container.until_done()

    qos_evidence.settle(
        course.premises,
        course.numa.never_leaves(narrow_numa_node, kind="file"),
        course.numa.is_reclaimed("file"),
        *course.gets_through(),
    )
