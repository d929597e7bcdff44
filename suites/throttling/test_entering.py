"""Entering: a second program in a container that is throttled, as somebody starts one there to look around.

    cgroup               memory.high   memory.max   before                  then
    pod entered          max           128 Mi
      container app      51.2 Mi       64 Mi        stalls above 51.2 Mi    a second program takes 2 Mi
      container beside   51.2 Mi       64 Mi        nothing                 the same

The second program's own clock tells how long it took, so what the runtime needs to start it does not count. The least
is the model's word (`memqos.engine.cgroup.throttle`, least_wait): a program pays for each batch of 64 pages with a
sleep, but for those that another one has paid for. How long it takes at most nothing says: where others run on its CPU
while it sleeps, a sleep buys a page. The runtime's own program, which becomes the second one, is charged to the
container as well: some MiB of it, or some 12 with runc 1.3, which may be too much. Where something is killed for that,
nothing is said. The second program is given up after ten seconds.
"""

import pytest

from memqos import Knob
from memqos.testing import stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/entering-is-slow")
def test_a_program_that_is_started_in_a_throttled_container_is_slow(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """It wants no more than 2 MiB, and sleeps for them."""
    with qos_node.watched_pods([qos_catalog.pod("entered")], qos_kubelet, rests_on=PREMISES) as watch:
        app, beside = watch.container("entered", "app"), watch.container("entered", "beside")
        app.until(stalls())
        undisturbed = beside.enter()
        entry = app.enter()
        course = app.until(stalls())

    qos_evidence.settle(course.premises, course.is_entered_slowly(entry, undisturbed=undisturbed), course.still_runs())
