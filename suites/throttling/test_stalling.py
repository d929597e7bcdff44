"""The stall: programs that are above memory.high as the formula of 1.22 has it, side by side.

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

All tests rest on memory.high, memory.max and memory.swap.max as the plan has them. None of the pods is above another
one's memory.high, and each sleeps for its own.

The kernel notes with each task what it was charged above memory.high, and lets it sleep for that when it returns to
user space (mm/memcontrol.c, mem_cgroup_handle_over_high): one sleeps beside the other. So while the container stalls
for four seconds each of four threads waits for one in all, by its own clock: half of the longest sleep. And all grow
together no faster than the model lets so many tasks grow (`memqos.engine.cgroup.throttle`, fastest_growth), an upper
bound: what one was charged ahead another one on its CPU may use. How much faster than one thread they are is not
claimed: what is charged ahead is given back where others run on the CPU meanwhile.

A second program tells itself how long it slept: of the time since it runs, what it neither ran nor waited for a CPU. So
what the runtime needs to start it does not count, and a slow host makes no sleep. The least is the model's word
(least_wait): a program pays for each batch of 64 pages with a sleep, but for those that another one has paid for. How
long it takes at most nothing says: where others run on its CPU while it sleeps, a sleep buys a page. The runtime's own
program, which becomes the second one, is charged to the container as well: some MiB of it, or some 12 with runc 1.3,
which may be too much. Where something is killed for that, nothing is said. After five seconds the second program takes
no more; of one that the model has sleep for longer, half of them is asked.
"""

import pytest

from memqos import Knob
from memqos.testing import Free, either, ended, stalls

PREMISES = [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
CLAIMS = {
    "rewrites": ["throttling/page-cache-is-reclaimed"],
    "obeys": ["throttling/recovers"],
    "stalls": ["throttling/stall", "throttling/nobody-gets-on"],
    "stalls-in-threads": ["throttling/threads-wait-each"],
    "entered": ["throttling/entering-is-slow"],
}
"""By pod the claims that look at it: a pod that no selected test looks at is not there."""


@pytest.fixture(scope="module")
def side_by_side(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """What became of each pod's program, by the pod's name; all tests look at it."""
    with qos_scene(qos_kubelet) as scene:
        pods = [qos_catalog.pod(name) for name, claims in CLAIMS.items() if scene.shows(*claims)]
        with qos_node.watched_pods(pods, qos_kubelet, rests_on=PREMISES, steered=True) as watch:
            return {pod.name: HAPPENS[pod.name](watch, pod.name) for pod in pods}


def has_written(watch, name):
    """What became of a program until it had done what it was told."""
    return watch.container(name).until_done()


def has_obeyed(watch, name):
    """What became of a program that gave back what it took and took most of it again, and when it had given it back."""
    program = watch.container(name)
    program.exceed_high()
    program.until_done()
    program.do(Free())
    program.until_done()
    freed = program.now
    program.stay_below_high()
    return program.until_done(), freed


def has_stalled(watch, name):
    """What became of a program until it had waited for long, or was killed."""
    return watch.container(name).until(either(stalls(), ended()))


def was_entered(watch, name):
    """What became of a container that was entered, the second program in it, and the one in the container beside it."""
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
    "stalls-in-threads": has_stalled,
    "entered": was_entered,
}


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/stall")
def test_a_program_between_high_and_max_stalls(side_by_side, qos_evidence):
    """A program that cannot give memory back waits nearly all the time, and is not killed since it gets nowhere."""
    stalled = side_by_side["stalls"]

    qos_evidence.settle(
        stalled.premises,
        stalled.waits(),
        stalled.grows_as_delayed(),
        stalled.stays("memory.events", "max"),
        *stalled.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/nobody-gets-on")
def test_the_stall_is_one_of_the_whole_container(side_by_side, qos_evidence):
    """Not some task waits while others work: `full` rises as `some` does, since there is one program."""
    stalled = side_by_side["stalls"]

    qos_evidence.settle(
        stalled.premises,
        stalled.rises("memory.pressure", "some total"),
        stalled.rises("memory.pressure", "full total"),
        stalled.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/page-cache-is-reclaimed")
def test_page_cache_above_memory_high_is_reclaimed_and_nothing_stalls(side_by_side, qos_evidence):
    """A program that writes far more than memory.high gets through: its page cache makes room."""
    course = side_by_side["rewrites"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        *course.gets_through(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/recovers")
def test_a_program_that_frees_in_time_is_slowed_no_more(side_by_side, qos_evidence):
    """It was above memory.high, gave its memory back, and takes most of it again without being counted once more."""
    course, freed = side_by_side["obeys"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.rises_no_more("memory.events", "high", since=freed),
        course.finishes(),
        course.still_runs(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/threads-wait-each")
def test_each_thread_of_a_program_waits_for_what_it_takes(side_by_side, qos_evidence):
    """None of them pays for another, and none gets on while the others pay."""
    course = side_by_side["stalls-in-threads"]

    qos_evidence.settle(
        course.premises,
        course.rises("memory.events", "high"),
        course.each_thread_waits(),
        course.grows_as_delayed(),
        *course.lives(),
    )


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.22")
@pytest.mark.claim("throttling/entering-is-slow")
def test_a_program_that_is_started_in_a_throttled_container_is_slow(side_by_side, qos_evidence):
    """It wants no more than 4 MiB, and sleeps for them, as the same program beside it does not."""
    course, entry, undisturbed = side_by_side["entered"]

    qos_evidence.settle(course.premises, course.is_entered_slowly(entry, undisturbed=undisturbed), course.still_runs())
