"""Node: which pod is killed when kubepods runs out of memory.

    cgroup                   oom_score_adj                memory.max       before             then
    kubepods                                              256 Mi
      pod holds-guaranteed   -997                         64 Mi            48 Mi anonymous
      pod holds-little       1000                         max              32 Mi anonymous
      pod holds-some         1000                         max              88 Mi anonymous
      pod holds-much         1000                         max              128 Mi anonymous
      pod greedy-burstable   below 1000, by its request   max              nothing            what is left, and 16 Mi
      pod greedy-guaranteed  -997                         248 Mi           nothing            what is left, and 16 Mi

None of the memory can be reclaimed: the pods that hold it may not swap. The model (`memqos.engine.cgroup.victims`)
predicts the victim from the planned scores and the usage before. The prediction is judged if the first victim is ahead
by 8 Mi: a pod's figure does not include its page tables and page cache.

A pod survives only if the victim frees its memory in time. The kernel stops waiting for a victim before the last
gathered pages, at most 10000, are freed (mm/mmap.c, exit_mmap; mm/mmu_gather.c, MAX_GATHER_BATCH_COUNT). If the
victim had no more than that, the kernel kills another: so a victim here has at least twice as many.
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
LITTLE = ["holds-guaranteed", "holds-little", "greedy-burstable"]
MUCH = ["holds-guaranteed", "holds-much", "greedy-burstable"]
TWO = ["holds-some", "greedy-guaranteed"]


@pytest.fixture
def crowd(request, qos_node, qos_kubelet, qos_catalog):
    """Watches the pods that a test names, under a kubelet with little allocatable memory."""
    pods = [qos_catalog.pod(name) for name in request.param]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet), rests_on=PREMISES, steered=True) as watch:
        yield watch


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/usage-decides")
@pytest.mark.parametrize(
    "crowd", [["holds-guaranteed", "holds-little", "greedy-burstable"]], indirect=True, ids=["little"]
)
def test_a_large_burstable_pod_is_killed_before_a_small_best_effort_pod(crowd, qos_evidence):
    """Its higher usage outweighs its lower oom_score_adj."""
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
def test_a_best_effort_pod_is_killed_before_a_burstable_pod_of_equal_size(crowd, qos_evidence):
    """The Burstable pod takes the last memory, and the BestEffort pod is killed."""
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
def test_a_guaranteed_pod_outlives_a_smaller_best_effort_pod(crowd, qos_evidence):
    """A BestEffort pod that uses less is killed for it."""
    ends = crowd.exhaust("greedy-guaranteed")

    qos_evidence.settle(
        *ends.premises,
        ends.is_killed("holds-some"),
        ends.is_spared("greedy-guaranteed"),
        ends.still_runs("greedy-guaranteed"),
    )
