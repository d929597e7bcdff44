"""A real kubelet: upgrades, resizes, memory-backed volumes, evictions and the Memory Manager's checkpoint.

    pods             guaranteed-one, burstable, best-effort: one of each QoS class
    pod sized        request 64 Mi, limit 128 Mi; resized to 96/128, 96/192 and 128/128 Mi
    writes-volume    its init container leaves 24 Mi in a memory-backed volume; its limit is 64 Mi
    swaps-over-high  takes 50 Mi with a limit of 48 Mi, so that some is swapped; holds-small has 8 Mi
    above-high       asks for 124 Mi of its limit of 128 Mi; memory.high is below
    over-request     requests 32 Mi and uses 256 Mi
    within-request   requests 64 Mi and uses 48 Mi; holds-small is Guaranteed and uses 8 of 48 Mi

The kubelet in the machine has made everything that is judged here, so every finding above containers is about it.
"""

import pytest

from memqos.testing import MemoryVolume

pytestmark = pytest.mark.more
PODS = ["guaranteed-one", "burstable", "best-effort"]
USERS = ["swaps-over-high", "holds-small"]


@pytest.fixture
def pods(qos_node, qos_kubelet, qos_catalog):
    """The pods on the node, and read."""
    with qos_node.admitted(list(map(qos_catalog.pod, PODS)), qos_kubelet) as population:
        yield population


@pytest.mark.claim("kubelet/upgrade")
def test_upgrade_leaves_running_pods_alone(qos_node, qos_kubelet, pods, qos_evidence):
    """Every level holds what the new kubelet writes over what the old one left."""
    qos_evidence.settle(qos_node.restart_kubelet(pods, qos_node.upgraded(qos_kubelet)).judge_all())


@pytest.mark.claim("kubelet/rollback")
def test_rollback_leaves_running_pods_alone(qos_node, qos_kubelet, pods, qos_evidence):
    """Every level holds what the old kubelet writes again, and what it leaves of the new one's."""
    later = qos_node.restart_kubelet(pods, qos_node.upgraded(qos_kubelet))

    qos_evidence.settle(qos_node.restart_kubelet(later, qos_kubelet).judge_all())


@pytest.mark.claim("kubelet/resize-after-upgrade")
def test_a_resize_after_an_upgrade(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Request and limit grow under the new kubelet, over what the old one left."""
    pod, older = qos_catalog.pod("sized"), qos_kubelet.without_swap()
    with qos_node.admitted([pod], older) as before:
        newer = qos_node.upgraded(older)
        population = qos_node.restart_kubelet(before, newer)
        findings = qos_node.resize(population, pod, newer, to=qos_catalog.pod("sized-both")).judge()

    qos_evidence.settle(findings)


@pytest.fixture
def resized(qos_node, qos_kubelet, qos_catalog):
    """The pod sized, once it has the resources of another pod: every file of it and its container.

    The levels above, which the kubelet writes once a minute, are judged by kubelet/resize-deferred.
    """

    def resized_to(other):
        pod, kubelet = qos_catalog.pod("sized"), qos_kubelet.without_swap()
        with qos_node.admitted([pod], kubelet) as population:
            return qos_node.resize(population, pod, kubelet, to=qos_catalog.pod(other), above=False).judge()

    return resized_to


@pytest.mark.claim("kubelet/resize-request")
def test_a_resize_of_the_request_alone(resized, qos_evidence):
    """The container's files have the new request's values, and the pod's files the old ones."""
    qos_evidence.settle(resized("sized-request"))


@pytest.mark.claim("kubelet/resize-both")
def test_a_resize_of_request_and_limit(resized, qos_evidence):
    """The container's files and the pod's limit have the new values."""
    qos_evidence.settle(resized("sized-both"))


@pytest.mark.claim("kubelet/resize-to-limit")
def test_a_resize_of_the_request_up_to_the_limit(resized, qos_evidence):
    """The container's memory.high is the old one; its other files have the new values."""
    qos_evidence.settle(resized("sized-to-limit"))


@pytest.mark.claim("kubelet/resize-without-room")
def test_a_resize_that_the_node_has_no_room_for(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Status and files after a request beyond the node's memory, and after one that fits."""
    pod, kubelet = qos_catalog.pod("sized"), qos_kubelet.without_swap()
    with qos_node.admitted([pod, qos_catalog.pod("burstable")], kubelet) as population:
        waits = qos_node.resize_refused(population, pod, kubelet, to=qos_catalog.pod("sized-beyond-node"))
        fits = qos_node.resize(population, pod, kubelet, to=qos_catalog.pod("sized-both"), above=False).judge()

    qos_evidence.settle([*waits, *fits])


@pytest.mark.claim("kubelet/resize-deferred")
def test_a_deferred_resize_is_carried_out_when_there_is_room(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Status and files while another pod requests most of the memory, and after that one shrinks."""
    sized, most, kubelet = qos_catalog.pod("sized"), qos_catalog.pod("reserves-most"), qos_kubelet.without_swap()
    larger, smaller = qos_catalog.pod("sized-beyond-room"), qos_catalog.pod("reserves-little")
    with qos_node.admitted([sized, most], kubelet) as population:
        waits = qos_node.resize_refused(population, sized, kubelet, to=larger)
        findings = qos_node.resize_made_room_for(population, [sized, most], kubelet, to=[larger, smaller])

    qos_evidence.settle([*waits, *findings])


@pytest.mark.claim("kubelet/resize-infeasible")
def test_a_resize_of_a_container_that_may_swap(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Status and files after the request of a container with LimitedSwap has changed."""
    pod = qos_catalog.pod("sized")
    with qos_node.admitted([pod], qos_kubelet) as population:
        findings = qos_node.resize_refused(population, pod, qos_kubelet, to=qos_catalog.pod("sized-request"))

    qos_evidence.settle(findings)


@pytest.mark.claim("kubelet/volume-size")
def test_the_size_of_a_memory_backed_volume(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The tmpfs has the size of the pod's limit, of a smaller sizeLimit, or of the node's allocatable memory."""
    volumes = [
        MemoryVolume(name="unlimited", container_path="/unlimited"),
        MemoryVolume(name="small", container_path="/small", size_limit="8Mi"),
        MemoryVolume(name="large", container_path="/large", size_limit="1Ti"),
    ]
    pods = [qos_catalog.pod("sized"), qos_catalog.pod("best-effort")]
    with qos_node.admitted(pods, qos_kubelet, memory_volumes=volumes) as population:
        findings = qos_node.kubelet_verbs(population).volume_sizes(volumes)

    qos_evidence.settle(findings)


@pytest.mark.claim("kubelet/volume-size-stays")
def test_a_resize_leaves_the_size_of_a_memory_backed_volume(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The tmpfs has the size of the old limit, or of its sizeLimit, after the limit has grown."""
    pod, kubelet = qos_catalog.pod("sized"), qos_kubelet.without_swap()
    volumes = [
        MemoryVolume(name="unlimited", container_path="/unlimited"),
        MemoryVolume(name="large", container_path="/large", size_limit="1Ti"),
    ]
    with qos_node.admitted([pod], kubelet, memory_volumes=volumes) as population:
        resized = qos_node.resize(population, pod, kubelet, to=qos_catalog.pod("sized-both"), above=False)
        findings = qos_node.kubelet_verbs(population).volume_sizes(volumes, when="after the resize")

    qos_evidence.settle([*findings, *resized.judge()])


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/volume-charge")
def test_pages_of_a_volume_count_for_the_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The pod's shmem has the 24 MiB of the ended init container, the app container's has none of it."""
    volume = MemoryVolume(name="volume", container_path="/volume")
    with qos_node.admitted([qos_catalog.pod("writes-volume")], qos_kubelet, memory_volumes=[volume]) as population:
        findings = qos_node.kubelet_verbs(population).volume_pages()

    qos_evidence.settle(findings)


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/reports-memory")
def test_reported_memory_is_the_kernel_s(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """/stats/summary and /metrics/resource agree with memory.current, memory.stat and memory.swap.current."""
    with qos_node.admitted(list(map(qos_catalog.pod, USERS)), qos_kubelet) as population:
        findings = qos_node.kubelet_verbs(population).reports.memory()

    qos_evidence.settle(findings)


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/high-evicts-nothing")
def test_a_pod_above_memory_high_is_not_evicted(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The pod still runs after two looks of the eviction manager."""
    with qos_node.admitted([qos_catalog.pod("above-high")], qos_kubelet) as population:
        findings = qos_node.eviction_verbs(population).nothing_at_high()

    qos_evidence.settle(findings)


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/evicts-over-request")
def test_the_pod_over_its_request_is_evicted(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A kubelet whose threshold is above the available memory evicts over-request; the others keep their memory."""
    over, *others = [qos_catalog.pod(name) for name in ("over-request", "within-request", "holds-small")]
    with qos_node.admitted([over, *others], qos_kubelet) as population:
        eviction = qos_node.eviction_verbs(population)
        before = eviction.before(over, uses="256Mi")
        qos_node.restart_kubelet(population, qos_kubelet.with_eviction(before.threshold))
        findings = eviction.only(over, before)

    qos_evidence.settle(findings)


@pytest.mark.kubelet("v1.36-static")
@pytest.mark.claim("kubelet/memory-manager-state")
def test_the_memory_manager_s_checkpoint(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """Checkpoint and cpuset.mems of a pod with an init container, whose memory is reused."""
    with qos_node.admitted([qos_catalog.pod("init-then-app")], qos_kubelet) as population:
        findings = qos_node.kubelet_verbs(population).memory_manager_places()

    qos_evidence.settle(findings)
