"""Shares: containers that share the protection of a class or pod, and protected memory that may be swapped.

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

The model (`memqos.engine.cgroup.protection`) computes the effective protection. A class has half of its pods' requests
while the kubelet has not summed up the newest pods. With memory_recursiveprot a pod's protection that its containers do
not claim is distributed to them by usage. The aggressor has a limit, because 1.27 lets a pod without one swap: it keeps
what it takes. All anonymous memory may be swapped out, up to the pod's share of the swap. Until a page is written to
swap it cannot be reclaimed, so the first allocation may find nothing else; then memory.low gives way, which the kernel
counts, and the loss says nothing about memory.low. Some page cache can be reclaimed at once, which on 6.1 is mostly
enough to leave memory.low alone.

Reclaim skips a partly protected cgroup once its usage is down to the protected part. A claim shrinks with the usage, so
reclaim skips two cgroups that together claim too much as soon as their usage fits the protection of their class,
however the loss was divided: their sum may be short by a batch of 64 pages (MEMCG_CHARGE_BATCH) of each, for each
CPU.
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]


@pytest.fixture
def beyond(qos_node, qos_kubelet, qos_catalog):
    """The pods that together claim more than their class has, after a neighbour has grown."""
    pods = [qos_catalog.pod(name) for name in ["kept-burstable", "kept-less", "unguarded", "aggressor"]]
    tight = qos_node.tight(qos_kubelet, pods)
    with qos_node.watched_pods(pods, tight, rests_on=PREMISES, halved=True, steered=True) as watch:
        yield watch.press("aggressor", all_lose=True)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/class-is-kept-whole")
def test_pods_together_keep_the_memory_min_of_their_class(beyond, qos_evidence):
    """They lose some, and reclaim stops when their usage fits the protection of the class."""
    qos_evidence.settle(
        *beyond.premises,
        *beyond.keep_together("kept-burstable", "kept-less"),
        *beyond.lives("aggressor"),
    )


@pytest.fixture
def by_pod(qos_node, qos_kubelet, qos_catalog):
    """The container that only its pod protects, after a neighbour has grown."""
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
def test_a_pods_protection_covers_its_container(by_pod, qos_evidence):
    """Its own memory.low is 0, but it loses nothing while unprotected memory can be reclaimed."""
    qos_evidence.settle(*by_pod.premises, by_pod.keeps("kept-by-pod"), by_pod.gives_way("unguarded"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/pods-protect-nothing-without-recursion")
@pytest.mark.usefixtures("no_recursion")
def test_a_pods_protection_covers_no_container_without_recursiveprot(by_pod, qos_evidence):
    """The same pod loses page cache as a BestEffort one does, without a `low` event: its effective memory.low is 0."""
    qos_evidence.settle(
        *by_pod.premises,
        by_pod.gives_way("kept-by-pod"),
        by_pod.stays("kept-by-pod", "memory.events", "low"),
        by_pod.gives_way("unguarded"),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("protection/bare-scopes-protect-nothing-without-recursion")
@pytest.mark.usefixtures("no_recursion")
def test_a_container_below_a_bare_scope_is_unprotected_without_recursiveprot(
    qos_node, qos_kubelet, qos_catalog, qos_evidence
):
    """Its own memory.min and its pod's cover all of its usage; the scope between them has no protection."""
    pods = [qos_catalog.pod(name) for name in ["kept-burstable", "unguarded", "aggressor"]]
    with qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch:
        pressure = watch.press("aggressor", all_lose=True)

    qos_evidence.settle(*pressure.premises, pressure.gives_way("kept-burstable"), pressure.gives_way("unguarded"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("protection/protected-memory-is-not-swapped")
def test_protected_anonymous_memory_is_not_swapped(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A pod above its request is swapped out, up to its share; a pod within its request is not."""
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
