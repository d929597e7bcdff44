"""Node: who is killed when all pods together have run out of what the kubelet leaves them.

    cgroup                   oom_score_adj                memory.max       before             then
    kubepods                                              256 Mi
      pod holds-guaranteed   -997                         64 Mi            48 Mi anonymous
      pod holds-little       1000                         max              32 Mi anonymous
      pod holds-some         1000                         max              88 Mi anonymous
      pod holds-much         1000                         max              128 Mi anonymous
      pod greedy-burstable   below 1000, by its request   max              nothing            what is left, and 16 Mi
      pod greedy-guaranteed  -997                         248 Mi           nothing            what is left, and 16 Mi

Nothing of it can be reclaimed, but for what a pod may swap: none of those that hold memory may. Who is killed is the
model's word (`memqos.engine.cgroup.victims`), from the planned scores and from what was in use before. It is held to
where the first is ahead by 8 Mi: page tables and what is in page cache are in nobody's own figure.

Who outlives a kill lives off the victim's memory, which has to be given back in time for that. The kernel stops waiting
for a victim before it frees the last pages that it gathered, at most 10000 (mm/mmap.c, exit_mmap; mm/mmu_gather.c,
MAX_GATHER_BATCH_COUNT), and kills the next one if that is all there was: so a victim has at least twice as many.
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
LITTLE = ["holds-guaranteed", "holds-little", "greedy-burstable"]
MUCH = ["holds-guaranteed", "holds-much", "greedy-burstable"]
TWO = ["holds-some", "greedy-guaranteed"]


@pytest.fixture
def crowd(request, qos_node, qos_kubelet, qos_catalog):
    """The pods that a test names, under a kubelet that leaves them little memory, all of them watched."""
    pods = [qos_catalog.pod(name) for name in request.param]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet), rests_on=PREMISES, steered=True) as watch:
        yield watch


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/usage-decides")
@pytest.mark.parametrize(
    "crowd", [["holds-guaranteed", "holds-little", "greedy-burstable"]], indirect=True, ids=["little"]
)
def test_a_burstable_pod_that_uses_much_goes_before_a_best_effort_one(crowd, qos_evidence):
    """What it uses more weighs more than its lower score."""
    ends = crowd.exhaust("greedy-burstable")

    qos_evidence.settle(
        *ends.premises,
        ends.is_killed("greedy-burstable"),
        ends.is_spared("holds-little"),
        ends.is_spared("holds-guaranteed"),
        ends.still_runs("holds-little"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/class-decides")
@pytest.mark.parametrize("crowd", [MUCH], indirect=True, ids=["much"])
def test_a_best_effort_pod_goes_before_a_burstable_one_that_uses_no_more(crowd, qos_evidence):
    """The Burstable pod takes the last of the memory, and it is not the one that is killed."""
    ends = crowd.exhaust("greedy-burstable")

    qos_evidence.settle(
        *ends.premises,
        ends.is_killed("holds-much"),
        ends.is_spared("greedy-burstable"),
        ends.is_spared("holds-guaranteed"),
        ends.still_runs("greedy-burstable"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/guaranteed-outlives")
@pytest.mark.parametrize("crowd", [TWO], indirect=True, ids=["two"])
def test_a_guaranteed_pod_that_takes_all_is_not_killed_for_it(crowd, qos_evidence):
    """A BestEffort pod that uses less is killed for it."""
    ends = crowd.exhaust("greedy-guaranteed")

    qos_evidence.settle(
        *ends.premises,
        ends.is_killed("holds-some"),
        ends.is_spared("greedy-guaranteed"),
        ends.still_runs("greedy-guaranteed"),
    )
