"""NUMA: where a container's memory is.

    cgroup               cpuset.mems    before   program asks for    after
    pod one-zone
      container app      one zone       0        40 Mi anonymous     anon of memory.numa_stat: that zone only

    cgroup               cpuset.mems    before   program asks for    after
    pod init-then-app, as kubelets place it
      container app      its init's     0        40 Mi anonymous     anon of memory.numa_stat: that zone only
    pod init-then-app, as the draft of 2020 places it
      container app      the other      0        40 Mi anonymous     anon of memory.numa_stat: that zone only

No tolerance: cpuset.mems binds every page of a program that starts inside (kernel cgroup-v2.rst, cpuset.mems).
"""

import pytest

from memqos import Knob
from memqos.testing import counted


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
        course.is_only_on(qos_zone),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-static")
@pytest.mark.claim("numa/memory-follows-the-policy")
def test_memory_is_where_the_policy_places_it_and_the_draft_places_it_elsewhere(
    qos_node, qos_kubelet, qos_catalog, qos_evidence
):
    """A container's anonymous memory is on the zone that the Memory Manager in force gives it: the draft's is another.

    Kubelets use an init container's memory again, so that the app container fits on its zone; the draft does not.
    """
    pod, draft = qos_catalog.pod("init-then-app"), qos_catalog.kubelet("v1.36-static-draft")
    with qos_node.watched(pod, qos_kubelet, rests_on=[Knob.CPUSET_MEMS]) as container:
        shipped = container.until(counted("anon"))
    with qos_node.watched(pod, draft, rests_on=[Knob.CPUSET_MEMS]) as container:
        drafted = container.until(counted("anon"))

    qos_evidence.settle(
        shipped.premises,
        shipped.is_only_where_planned(),
        drafted.premises,
        drafted.is_only_where_planned(),
        drafted.placed_elsewhere_than(shipped),
    )
