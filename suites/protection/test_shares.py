"""Shares: what a container keeps of a protection that is not its own alone, and protected memory that might be swapped.

    cgroup                 protection                         before             then
    kubepods, 184 Mi       the sum of what is below
      class Burstable      48 Mi memory.min, of 96 asked for
        pod kept-burstable 64 Mi memory.min: 32 Mi count      48 Mi of cache
        pod kept-less      32 Mi memory.min: 16 Mi count      24 Mi of cache
      pod unguarded        nothing                            48 Mi of cache
      pod aggressor        nothing                            nothing            takes what is left, and 5/6 of the
                                                                                 memory that others can lose

    kubepods, 160 Mi       the sum of what is below
      pod kept-by-pod      64 Mi memory.low
        container app      nothing of its own                 48 Mi of cache
      pod unguarded        nothing, since it is BestEffort    48 Mi of cache
      pod neighbour        nothing                            nothing            what is left, and half of that, or
                                                                                 3/4 where two can lose

    kubepods, 160 Mi       the sum of what is below
      pod kept-burstable   64 Mi memory.min
        its scope          nothing: crun before 1.18
          container app    64 Mi memory.min                   48 Mi of cache
      pod unguarded        nothing, since it is BestEffort    48 Mi of cache
      pod aggressor        nothing                            nothing            what is left, and 3/4 of that

    kubepods, 240 Mi       the sum of what is below
      pod kept-anonymous   64 Mi memory.low                   48 Mi anonymous
      pod exceeds-request  96 Mi memory.low                   124 Mi anonymous,
                                                              4 Mi of cache
      pod neighbour        nothing                            nothing            what is left, and half of that

How much of a protection counts is the model's word (`memqos.engine.cgroup.protection`). A class has half of what its
pods ask for while its kubelet has not summed up the newest of them. What a pod is protected by and its containers do
not ask for goes to them by use, where cgroups are mounted with memory_recursiveprot. The aggressor has a limit, since
what has none may be swapped under 1.27: what it takes it keeps. All that is there of anonymous memory may be swapped
out, up to the pod's share of the swap. Until it is written there nobody can take it: whoever needs memory first may
find nothing else, and memory.low gives way, which the kernel counts. What is lost then says nothing of what memory.low
alone protects. Some page cache can be taken at once, which is enough for 6.1 mostly to leave memory.low alone.

A cgroup that is protected in part is passed over as soon as it is down to that part. What each claims becomes less with
what it uses, so two that claim too much together are passed over as soon as what both use fits what their class has,
whoever of them lost how much: their sum may miss a batch of 64 pages (MEMCG_CHARGE_BATCH) of each, by each CPU.
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.fixture
def beyond(qos_node, qos_kubelet, qos_catalog):
    """What a neighbour's growth did to pods that claim more together than their class has."""
    pods = [qos_catalog.pod(name) for name in ["kept-burstable", "kept-less", "unguarded", "aggressor"]]
    tight = qos_node.tight(qos_kubelet, pods)
    with qos_node.watched_pods(pods, tight, rests_on=PREMISES, halved=True, steered=True) as watch:
        yield watch.press("aggressor", all_lose=True)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/class-is-kept-whole")
def test_pods_keep_together_what_their_class_has(beyond, qos_evidence):
    """They lose some, and reclaim stops where what is left of both fits what the class has."""
    qos_evidence.settle(
        *beyond.premises,
        *beyond.keep_together("kept-burstable", "kept-less"),
        *beyond.lives("aggressor"),
    )


@pytest.fixture
def by_pod(qos_node, qos_kubelet, qos_catalog):
    """What a neighbour's growth did to a container that only its pod protects."""
    pods = [qos_catalog.pod(name) for name in ["kept-by-pod", "unguarded", "neighbour"]]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        yield watch.press("neighbour", all_lose=True)


@pytest.fixture
def no_recursion(qos_node):
    """A machine whose cgroups are mounted without memory_recursiveprot."""
    with qos_node.mounted(recursive=False):
        yield


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/pods-protect-their-containers")
def test_a_container_is_kept_by_its_pods_protection(by_pod, qos_evidence):
    """Its own memory.low is 0, and still nothing of it is taken while others make room."""
    qos_evidence.settle(*by_pod.premises, by_pod.keeps("kept-by-pod"), by_pod.gives_way("unguarded"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/pods-protect-nobody-without-recursion")
@pytest.mark.usefixtures("no_recursion")
def test_a_container_is_not_kept_by_its_pod_without_recursiveprot(by_pod, qos_evidence):
    """The same pod loses page cache as a BestEffort one does, and no `low` is counted, since none counts."""
    qos_evidence.settle(
        *by_pod.premises,
        by_pod.gives_way("kept-by-pod"),
        by_pod.stays("kept-by-pod", "memory.events", "low"),
        by_pod.gives_way("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/bare-scopes-protect-nobody-without-recursion")
@pytest.mark.usefixtures("no_recursion")
def test_a_container_below_a_bare_scope_is_not_kept_without_recursiveprot(
    qos_node, qos_kubelet, qos_catalog, qos_evidence
):
    """Its own memory.min covers all that it uses, and its pod's does; the scope between them asks for nothing."""
    pods = [qos_catalog.pod(name) for name in ["kept-burstable", "unguarded", "aggressor"]]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        pressure = watch.press("aggressor", all_lose=True)

    qos_evidence.settle(*pressure.premises, pressure.gives_way("kept-burstable"), pressure.gives_way("unguarded"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/protected-memory-is-not-swapped")
def test_anonymous_memory_that_is_protected_is_not_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Who uses more than it requests is swapped out, up to its share; who does not, is not, though it may be."""
    pods = [qos_catalog.pod(name) for name in ["kept-anonymous", "exceeds-request", "neighbour"]]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        pressure = watch.press("neighbour", dirty=True)

    qos_evidence.settle(
        *pressure.premises,
        pressure.keeps("kept-anonymous"),
        pressure.swaps_nothing("kept-anonymous"),
        pressure.swaps("exceeds-request"),
        *pressure.lives("exceeds-request"),
    )
