"""Limits: which memory counts against memory.max, and what the kernel reclaims or kills at the limit.

    cgroup             memory.max   memory.swap.max            program
    pod rewrites       48 Mi        max
      container app    24 Mi        by the revision            48 Mi of page cache
    pod shares         24 Mi        max
      container app    24 Mi        0, since it is Guaranteed  40 Mi in a file on a tmpfs
    pod shares-mapped  24 Mi        max
      container app    24 Mi        0, since it is Guaranteed  the same, through a mapping
    pod holds-small    48 Mi        max
      container app    48 Mi        0, since it is Guaranteed  8 Mi anonymous, and a second that wants 96 Mi, or that
                                                               takes a third of what is left, as anonymous memory or
                                                               in a file, and ends
    pod holds-guaranteed  64 Mi     max
      container app    64 Mi        0, since it is Guaranteed  48 Mi anonymous, a third of what is left, then nothing
    pod one-numa-node-cache 128 Mi       max
      container app    128 Mi, then 0, since it is Burstable   24 Mi of page cache
                       half of
                       what it uses

The runtime starts the second program in the container with the container's oom_score_adj, so the kernel kills the
larger of the two. Counters of a new cgroup begin at zero and are exact: there is no tolerance. Usage falls back
except for the batches of 64 pages that CPUs keep charged and the memory that the runtime's start of the second
program leaves. No container has memory.high, so nothing is throttled before memory.max.
"""

import pytest

from memqos import Knob
from memqos.testing import Free, ended, rises

PREMISES = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
SHARED = ["shares", "shares-mapped"]
CLAIMS = {"rewrites": "limits/page-cache-never-kills", **dict.fromkeys(SHARED, "limits/shared-memory-counts")}
"""The claim about each pod; a pod without a selected test is not created."""


@pytest.fixture(scope="module")
def beyond(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """The courses of programs that exceed their limits, by pod name; the pods run side by side."""
    with qos_scene(qos_kubelet) as scene:
        pods = [qos_catalog.pod(name) for name, claim in CLAIMS.items() if scene.shows(claim)]
        with qos_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES) as watch:
            programs = {pod.name: watch.container(pod.name) for pod in pods}
            killed = {name: program.until(ended()) for name, program in programs.items() if name in SHARED}
            return killed | {name: program.until_done() for name, program in programs.items() if name not in SHARED}


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/page-cache-never-kills")
def test_page_cache_is_reclaimed_at_memory_max(beyond, qos_evidence):
    """The program writes twice its limit and completes."""
    course = beyond["rewrites"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "max"),
        *course.gets_through(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/shared-memory-counts")
@pytest.mark.parametrize("pod", SHARED)
def test_a_file_on_a_tmpfs_counts_as_memory(beyond, qos_evidence, pod):
    """Without swap, tmpfs pages cannot be reclaimed, so the program is killed."""
    course = beyond[pod]

    qos_evidence.settle(
        course.premises,
        *course.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", instead="v1.32-single-process")
@pytest.mark.claim("limits/one-process-is-killed")
def test_a_second_program_is_killed_alone(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The container's own program keeps running."""
    with qos_node.watched(qos_catalog.pod("holds-small"), qos_kubelet, rests_on=PREMISES) as container:
        container.until_done()
        container.overfill()
        course = container.until(rises("memory.events", "oom_kill"))

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "oom_kill"),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/whole-group-is-killed")
def test_a_second_program_gets_the_container_killed(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """With memory.oom.group the kernel also kills the container's own program."""
    with qos_node.watched(qos_catalog.pod("holds-small"), qos_kubelet, rests_on=PREMISES) as container:
        container.until_done()
        container.overfill()
        course = container.until(ended())

    qos_evidence.settle(
        course.premises,
        *course.oom.is_killed(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/peak-is-kept")
def test_memory_peak_keeps_the_maximum(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The program frees its memory; memory.peak still has the maximum."""
    pod = qos_catalog.pod("holds-guaranteed")
    with qos_node.watched(pod, qos_kubelet, rests_on=PREMISES, steered=True) as container:
        container.until_done()
        most = container.take_a_third()
        container.do(Free())
        course = container.until_done()

    qos_evidence.settle(course.premises, course.peaked(most, cpus=qos_node.facts.cpus), course.falls_below(most))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/ended-program-gives-back")
def test_memory_of_an_exited_program_is_uncharged(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The anonymous memory of a second program is charged only while it runs."""
    with qos_node.watched(qos_catalog.pod("holds-small"), qos_kubelet, rests_on=PREMISES) as container:
        container.until_done()
        most = container.take_a_third(second_program=True)
        course = container.until_done()

    qos_evidence.settle(
        course.premises, course.peaked(most, cpus=qos_node.facts.cpus), course.falls_below(most), course.still_runs()
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/files-outlive-their-writer")
@pytest.mark.parametrize("kind", ["file", "tmpfs"])
def test_files_of_an_exited_program_stay_charged(qos_node, qos_kubelet, qos_catalog, qos_evidence, kind):
    """Page cache and shared memory of a second program stay charged to the container."""
    with qos_node.watched(qos_catalog.pod("holds-small"), qos_kubelet, rests_on=PREMISES) as container:
        container.until_done()
        most = container.leave_a_third(kind)
        course = container.until_done()

    qos_evidence.settle(
        course.premises, course.peaked(most, cpus=qos_node.facts.cpus), course.stays_near(most), course.still_runs()
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
@pytest.mark.claim("limits/lowered-limit-takes-page-cache")
def test_a_limit_below_usage_reclaims_page_cache(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """An update sets memory.max to half of the container's usage, and the kernel reclaims down to it."""
    with qos_node.watched(qos_catalog.pod("one-numa-node-cache"), qos_kubelet, rests_on=PREMISES) as container:
        before = container.until_done()
        container.halve_limit()
        after = container.until_done()

    qos_evidence.settle(
        before.premises,
        before.still_runs(),
        after.premises,
        after.shrinks_to_limit(),
        *after.lives(),
    )
