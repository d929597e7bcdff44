"""NUMA: where a container's memory is.

    cgroup                 cpuset.mems       program asks for           after: memory.numa_stat
    pod one-numa-node           one node          40 Mi anonymous            anon: that node only
    pod one-numa-node-cache     one node          24 Mi of page cache        file: that node only
    pod one-numa-node-shared    one node          24 Mi on a tmpfs           shmem: that node only
    pod numa-huge          one node          8 Mi in huge pages         pages in use: that node's only
    pod init-then-app      its init's        40 Mi anonymous            anon: that node only
      by the draft of 2020 the other         40 Mi anonymous            anon: that node only
    pod numa-first         the first node    16 Mi anonymous            anon: that node only
    pod numa-second        the next node     16 Mi anonymous            anon: that node only
    pod numa-third         rejected
    pod numa-fourth        the freed node    16 Mi anonymous            anon: that node only
    pod numa-group         several nodes     16 Mi anonymous            anon: these nodes only

A node here is a NUMA node. Nothing is in use before. No tolerance: cpuset.mems binds every page of a program that
starts inside (kernel cgroup-v2.rst, cpuset.mems). The container's page cache also includes what the runtime's own
program read to make the container, on any NUMA node: some pages on top of what the container's program wrote.

The model of the Memory Manager (`memqos.engine.numa`) says which of the machine's NUMA nodes a pod gets.
"""

import pytest

from memqos import Knob
from memqos.testing import counted, gathered

MEMS = [Knob.CPUSET_MEMS]
ORDER = ["first", "second", "third", "fourth"]
KINDS = {"anon": "one-numa-node", "file": "one-numa-node-cache", "shmem": "one-numa-node-shared"}
CLAIMS = {
    "anon": "numa/mems-pins-anonymous-memory",
    "file": "numa/mems-pins-page-cache",
    "shmem": "numa/mems-pins-shared-memory",
}
"""The claim about each kind of memory; a program without a selected test does not run."""


@pytest.fixture(scope="module")
def bound(qos_node, qos_scene, qos_kubelet, qos_numa_node, qos_catalog):
    """The courses of programs bound to one NUMA node, by kind of memory, once each has its memory."""
    with qos_scene(qos_kubelet, f"numa-node-{qos_numa_node}") as scene:
        pods = {kind: qos_catalog.pod(KINDS[kind]) for kind, claim in CLAIMS.items() if scene.shows(claim)}
        with qos_node.watched_pods([*pods.values()], qos_kubelet, rests_on=MEMS, numa_node=qos_numa_node) as watch:
            return {kind: watch.container(pod.name).until(counted(kind)) for kind, pod in pods.items()}


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/mems-pins-anonymous-memory")
def test_anonymous_memory_is_on_the_numa_node_of_cpuset_mems(bound, qos_numa_node, qos_evidence):
    """All anonymous memory of a container is on the NUMA node that CRI's cpuset_mems names."""
    course = bound["anon"]

    qos_evidence.settle(course.premises, course.numa.is_only_on(qos_numa_node))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-static")
@pytest.mark.claim("numa/memory-follows-the-policy")
def test_memory_is_where_the_policy_in_force_places_it(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """A container's anonymous memory is on the NUMA node that the Memory Manager in force gives it.

    Kubelets reuse an init container's memory, so the app container fits on the same NUMA node. The 2020 draft does not
    and chooses another one.
    """
    pod, draft = qos_catalog.pod("init-then-app"), qos_catalog.kubelet("v1.36-static-draft")
    with qos_node.watched(pod, draft, rests_on=MEMS) as container:
        drafted = container.until(counted("anon"))
    with qos_node.watched(pod, qos_kubelet, rests_on=MEMS) as container:
        shipped = container.until(counted("anon"))

    qos_evidence.settle(
        shipped.premises,
        shipped.numa.is_only_where_planned(),
        drafted.premises,
        drafted.numa.is_only_where_planned(),
        drafted.numa.placed_elsewhere_than(shipped.numa),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/mems-pins-page-cache")
def test_page_cache_is_on_the_numa_node_of_cpuset_mems(bound, qos_numa_node, qos_evidence):
    """All page cache of a container's program is on the NUMA node that CRI's cpuset_mems names."""
    course = bound["file"]

    qos_evidence.settle(course.premises, course.numa.is_only_on(qos_numa_node, kind="file"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/mems-pins-shared-memory")
def test_shared_memory_is_on_the_numa_node_of_cpuset_mems(bound, qos_numa_node, qos_evidence):
    """A file on a tmpfs is on the NUMA node that CRI's cpuset_mems names."""
    course = bound["shmem"]

    qos_evidence.settle(course.premises, course.numa.is_only_on(qos_numa_node, kind="shmem"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/mems-pins-huge-pages")
def test_huge_pages_come_from_the_numa_node_of_cpuset_mems(
    qos_node, qos_kubelet, qos_numa_node, qos_catalog, qos_evidence
):
    """Every NUMA node has huge pages; the program uses those of the node that CRI's cpuset_mems names."""
    pod = qos_catalog.pod("numa-huge")
    with (
        qos_node.huge_volume() as huge,
        qos_node.watched(pod, qos_kubelet, rests_on=MEMS, numa_node=qos_numa_node, volumes=[huge.mount]) as container,
    ):
        course = container.until_done()
        placed = huge.is_only_on(qos_numa_node)

    qos_evidence.settle(course.premises, course.finishes(), course.still_runs(), placed)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/changed-mems-move-pages")
def test_memory_moves_with_cpuset_mems(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """An update names another NUMA node while the program holds its memory."""
    here, *_, there = (numa_node.id for numa_node in qos_node.facts.numa_nodes)
    with qos_node.watched(qos_catalog.pod("one-numa-node"), qos_kubelet, rests_on=MEMS, numa_node=here) as container:
        before = container.until(counted("anon"))
        container.rebind(there)
        after = container.until(gathered("anon", there))

    qos_evidence.settle(
        before.premises,
        before.numa.is_only_on(here),
        after.premises,
        after.numa.ends_only_on(there),
        after.still_runs(),
    )


@pytest.fixture(scope="module")
def in_order(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """Two pods that take most of a NUMA node each, a third, and a fourth after the first has ended.

    The courses of first and second, whether the third was rejected, and the courses of second and fourth.
    """
    first, second, third, fourth = (qos_catalog.pod(f"numa-{name}") for name in ORDER)
    with qos_scene(qos_kubelet, "in-order"), qos_node.keeping_pods():
        with qos_node.watched_pods([first, second, third], qos_kubelet, rests_on=MEMS) as watch:
            placed = [watch.container(pod.name).until(counted("anon")) for pod in (first, second)]
            refused = watch.is_refused(third, "UnexpectedAdmissionError", "TopologyAffinityError")
        before = [first, second, third]
        with qos_node.watched_pods([second, fourth], qos_kubelet, rests_on=MEMS, before=before) as watch:
            return placed, refused, [watch.container(pod.name).until(counted("anon")) for pod in (second, fourth)]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-static")
@pytest.mark.claim("numa/static-places-in-order")
def test_pods_are_placed_in_order_until_no_numa_node_has_room(in_order, qos_evidence):
    """Of three pods that take most of a NUMA node each, on two NUMA nodes, the last one is rejected.

    If the free NUMA nodes together have no room either, the Memory Manager gives no hint, the Topology Manager admits
    the pod, and the allocation fails. If two free ones have room, as with four, the Topology Manager rejects the pod.
    """
    (one, other), refused, _ = in_order

    qos_evidence.settle(
        one.premises,
        one.numa.is_only_where_planned(),
        other.premises,
        other.numa.is_only_where_planned(),
        other.numa.placed_elsewhere_than(one.numa),
        refused,
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-static")
@pytest.mark.claim("numa/freed-numa-node-is-used-again")
def test_the_next_pod_uses_the_numa_node_of_an_ended_pod(in_order, qos_evidence):
    """The first pod ends, the second stays where it is, and the next pod gets the first one's NUMA node."""
    (freed, stood), _, (stands, takes) = in_order

    qos_evidence.settle(
        *(course.premises for course in (freed, stood, stands, takes)),
        *(course.numa.is_only_where_planned() for course in (freed, stood, stands, takes)),
        takes.numa.placed_elsewhere_than(stands.numa),
        takes.numa.placed_where(freed.numa),
        stands.numa.placed_where(stood.numa),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-tiered")
@pytest.mark.claim("numa/far-numa-node-holds-memory")
def test_memory_is_on_a_numa_node_without_cpus(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program runs on the CPUs of a NUMA node other than the one that it is bound to."""
    far = next(numa_node.id for numa_node in qos_node.facts.numa_nodes if not numa_node.cpus)
    with qos_node.watched(qos_catalog.pod("one-numa-node"), qos_kubelet, rests_on=MEMS, numa_node=far) as container:
        course = container.until(counted("anon"))

    qos_evidence.settle(course.premises, course.numa.is_only_on(far))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-static-groups")
@pytest.mark.claim("numa/group-holds-its-memory")
def test_memory_is_on_the_numa_nodes_assigned_to_a_large_pod(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The pod requests more than one NUMA node has; the machine has NUMA nodes outside its group."""
    with qos_node.watched(qos_catalog.pod("numa-group"), qos_kubelet, rests_on=MEMS) as container:
        course = container.until(counted("anon"))

    qos_evidence.settle(course.premises, course.numa.is_only_where_planned())
