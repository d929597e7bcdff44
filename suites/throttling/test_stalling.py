"""The stall: programs above the memory.high of the 1.22 formula, side by side.

    cgroup                   memory.high   memory.max   before   program asks for
    pod stalls               max           48 Mi        0
      container app          19.2 Mi       24 Mi        0        40 Mi in steps of 256 Ki
    pod stalls-in-threads    max           48 Mi        0
      container app          19.2 Mi       24 Mi        17 Mi    23 Mi in four threads
    pod rewrites             max           48 Mi        0
      container app          19.2 Mi       24 Mi        0        48 Mi of page cache
    pod obeys                max           48 Mi        0
      container app          19.2 Mi       24 Mi        0        a bit above memory.high, then nothing, then three
                                                                 quarters of it
    pod entered              max           128 Mi       0
      container app          51.2 Mi       64 Mi        0        80 Mi in steps of 256 Ki; when it stalls, a second
                                                                 program takes 4 Mi, or what it has in 5 s
      container beside       51.2 Mi       64 Mi        0        nothing; a second program takes as much

A run without 1.22 takes the 1.27 formula with a factor of 0.4: memory.high is then 14.4 Mi of rewrites, 35.2 and 30.4
Mi of entered, and the same of the others.

Preconditions of all tests: memory.high, memory.max and memory.swap.max are as planned. The pods share no memory.high,
so each sleeps only for its own.

The kernel records for each task the pages charged above memory.high, and makes the task sleep for them when it
returns to user space (mm/memcontrol.c, mem_cgroup_handle_over_high); tasks sleep in parallel. So while one thread waits
four seconds, each of four threads waits at least one second by its own clock: half of the longest sleep.
Together they grow no faster than the model allows for that many tasks (`memqos.engine.cgroup.throttle`,
fastest_growth). That is an upper bound: another thread on the same CPU may use pages charged ahead. The test does not
claim how much faster than one thread they are, because charged-ahead pages are returned when other tasks run on the
CPU.

A second program measures its own sleep: its run time minus the time on a CPU and in the run queue. So the runtime's
start-up time does not count, and a slow host adds no sleep. The model gives the minimum (least_wait): a program sleeps
once for each batch of 64 pages, except for batches that another one has paid for. There is no maximum: if other tasks
run on its CPU while it sleeps, each sleep yields one page. The runtime's own program, which becomes the second
program, is charged to the container as well: some MiB, or about 12 with runc 1.3, which may be too much. If the
kernel kills for that, nothing is judged. After five seconds the second program stops allocating; if the model expects
a longer sleep, half of the five seconds is required.
"""

import pytest

from memqos import Knob
from memqos.testing import Free, either, ended, stalls, thread_stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
CLAIMS = {
    "rewrites": ["throttling/page-cache-is-reclaimed"],
    "obeys": ["throttling/recovers"],
    "stalls": ["throttling/stall", "throttling/container-stalls"],
    "stalls-in-threads": ["throttling/threads-wait-each"],
    "entered": ["throttling/entering-is-slow"],
}
"""The claims about each pod; a pod without a selected test is not created."""


@pytest.fixture(scope="module")
def side_by_side(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """The course of each pod's program, by pod name; all tests use it."""
    with qos_scene(qos_kubelet) as scene:
        pods = [qos_catalog.pod(name) for name, claims in CLAIMS.items() if scene.shows(*claims)]
        with qos_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES, steered=True) as watch:
            return {pod.name: HAPPENS[pod.name](watch, pod.name) for pod in pods}


def has_written(watch, name):
    """The course of a program until it has executed its commands."""
    return watch.container(name).until_done()


def has_obeyed(watch, name):
    """The course of a program that frees its memory and takes most of it again, and when it had freed it."""
    program = watch.container(name)
    program.exceed_high()
    program.until_done()
    program.do(Free())
    program.until_done()
    freed = program.now
    program.stay_below_high()
    return program.until_done(), freed


def has_stalled(watch, name):
    """The course of a program until it has stalled for long, or was killed."""
    return watch.container(name).until(either(stalls(), ended()))


def has_stalled_in_threads(watch, name):
    """The course of a program until one of its threads has stalled for long, or it was killed."""
    return watch.container(name).until(either(thread_stalls(), ended()))


def was_entered(watch, name):
    """The courses of a throttled container, of a second program in it, and of one in the neighbouring container."""
    app, beside = watch.container(name, "app"), watch.container(name, "beside")
    app.exceed_high()
    app.until_done()
    undisturbed = beside.enter()
    entry = app.enter()
    return app.until_done(), entry, undisturbed


HAPPENS = {
    "rewrites": has_written,
    "obeys": has_obeyed,
    "stalls": has_stalled,
    "stalls-in-threads": has_stalled_in_threads,
    "entered": was_entered,
}


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/stall")
def test_a_program_between_high_and_max_stalls(side_by_side, qos_evidence):
    """A program without reclaimable memory waits nearly all the time and never reaches memory.max."""
    stalled = side_by_side["stalls"]

    qos_evidence.settle(
        stalled.premises,
        stalled.throttling.waits(),
        stalled.throttling.grows_as_delayed(),
        stalled.stays("memory.events", "max", why_not=stalled.throttling.reaches_limit()),
        *stalled.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/container-stalls")
def test_the_whole_container_stalls(side_by_side, qos_evidence):
    """With one program, no task works while another waits: `full` rises as `some` does."""
    stalled = side_by_side["stalls"]

    qos_evidence.settle(
        stalled.premises,
        stalled.rises("memory.pressure", "some total"),
        stalled.rises("memory.pressure", "full total"),
        stalled.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/page-cache-is-reclaimed")
def test_page_cache_above_memory_high_is_reclaimed_and_nothing_stalls(side_by_side, qos_evidence):
    """A program that writes far more than memory.high completes: its page cache is reclaimed."""
    course = side_by_side["rewrites"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        *course.gets_through(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/recovers")
def test_a_program_that_frees_its_memory_recovers(side_by_side, qos_evidence):
    """Above memory.high it frees its memory, and takes most of it again without another `high` event."""
    course, freed = side_by_side["obeys"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.rises_no_more("memory.events", "high", since=freed),
        course.finishes(),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/threads-wait-each")
def test_each_thread_waits_for_its_own_charges(side_by_side, qos_evidence):
    """Each thread sleeps only for its own charges, and all of them sleep."""
    course = side_by_side["stalls-in-threads"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.throttling.each_thread_waits(),
        course.throttling.grows_as_delayed(),
        *course.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
@pytest.mark.claim("throttling/entering-is-slow")
def test_a_program_started_in_a_throttled_container_is_slow(side_by_side, qos_evidence):
    """It takes only 4 MiB and sleeps for them; the same program in the neighbouring container does not."""
    course, entry, undisturbed = side_by_side["entered"]

    qos_evidence.settle(
        course.premises, course.throttling.is_entered_slowly(entry, undisturbed=undisturbed), course.still_runs()
    )
