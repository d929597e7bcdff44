"""NUMA: where a container's memory is.

    cgroup               cpuset.mems    before   program asks for    after
    pod one-zone
      container app      one zone       0        40 Mi anonymous     anon of memory.numa_stat: that zone only

No tolerance: cpuset.mems binds every page of a program that starts inside (kernel cgroup-v2.rst, cpuset.mems).
"""

import pytest

from memqos.model.knob import Knob
from memqos.node import counted


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/mems-pins-anonymous-memory")
def test_anonymous_memory_is_on_the_zone_of_cpuset_mems(qos_node, qos_kubelet, qos_zone, qos_catalog, qos_evidence):
    """All anonymous memory of a container is on the zone that CRI's cpuset_mems names."""
    pod = qos_catalog.pod("one-zone")
    with qos_node.watched(pod, qos_kubelet, rests_on=[Knob.CPUSET_MEMS], zone=qos_zone) as container:
        course = container.until(counted("anon"))

    qos_evidence.settle(
        course.premises,
        course.anon_only_on(qos_zone),
    )
