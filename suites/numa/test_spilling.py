"""A zone that fills up while others are allowed: which of them the kernel turns to.

    cgroup          cpuset.mems                     cpuset.cpus   program asks for    after: memory.numa_stat
    pod spills      its own zone, of 48 Mi; the     its own       192 Mi anonymous    anon: its own, the nearest, and
                    nearest; one farther away       zone's                            nothing of the one farther away

What the zone is short of, huge pages have taken, which nobody uses; narrow_zone leaves at most 144 Mi of it, and the
nearest one has room for all that the program wants. The order is the word of the model for the distances that the
machine has (`memqos.engine.cgroup.zonelist`): the farther zone has a lower number than the others, so that an order by
number shows. "Nothing" is a batch of 64 pages, since what a runtime does to make the container may leave some.
"""

import pytest

from memqos import Knob
from memqos.testing import counted

MEMS = [Knob.CPUSET_MEMS]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default")
@pytest.mark.claim("numa/full-zone-spills-to-the-nearest")
def test_what_a_full_zone_has_no_room_for_is_on_the_nearest_one(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program runs on its own zone's CPUs and may use three zones, of which its own is nearly full."""
    order = qos_node.fallback()
    zones = [order.home, order.near, order.far]
    with (
        qos_node.narrowed(order.home),
        qos_node.watched(qos_catalog.pod("spills"), qos_kubelet, rests_on=MEMS, zone=zones) as container,
    ):
        course = container.until(counted("anon"))

    qos_evidence.settle(
        course.premises,
        course.spills_to(order.near, not_to=order.far),
        course.still_runs(),
    )
