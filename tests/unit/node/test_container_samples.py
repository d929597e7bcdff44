"""Conclusions from one container's samples, before anything is judged."""

import math

import pytest

from memqos.node.behaviour.watched_container import Sampled
from memqos.runtime.base import ContainerHandle, SandboxHandle, SandboxSpec
from tests.unit.node.samples import APP, course, done, files, sample

RUNS, LOST = sample(files()), sample(files(memory_swap_max="max\n"))
GONE = sample(None, files(), exit_code=137)


def sampled(*looks, runs_from=0.0):
    """A container with these samples, after the runtime reported the first one's status."""
    sandbox = SandboxHandle(
        id="s", spec=SandboxSpec(name="web", namespace="default", uid="1", cgroup_parent="/pod", log_directory="/log")
    )
    handle = ContainerHandle(id="c", name="app", sandbox=sandbox, log_path="/log/app.log")
    one = Sampled(
        key="web/app",
        premises=course(RUNS).observed.rests_on,
        handle=handle,
        path=APP,
        args=("anon", "4K"),
        page_size=4096,
    )
    one.runs_from(runs_from)
    for look in looks:
        one.add_status(look.status, look.reading)
        one.seen(look.reading)
    return one


@pytest.mark.parametrize(
    ("looks", "runs_from", "is_sound"),
    [
        ((RUNS, RUNS), 0.0, True),
        ((RUNS, LOST, RUNS), 0.0, False),
        ((RUNS, GONE), 0.0, True),
        # Its files are the kernel's, until the runtime has written them.
        ((LOST,), math.inf, False),
        # It ended before it was known to run: its last files count.
        ((LOST, GONE), math.inf, False),
        ((RUNS, GONE), math.inf, False),
        ((GONE,), 0.0, False),
    ],
)
def test_no_sample_of_a_sound_container_is_lost(looks, runs_from, is_sound):
    assert sampled(*looks, runs_from=runs_from).is_sound == is_sound


def test_a_premise_is_judged_anew_where_its_text_is_another_one():
    one = sampled(RUNS, RUNS, LOST, RUNS, LOST)

    assert [one.is_broken(look) for look in one.samples] == [
        look.reading.file(APP, "memory.swap.max") == "max\n" for look in one.samples
    ]


def test_unfinished_commands_are_those_without_a_report():
    one = sampled(RUNS)
    assert (one.undone, one.work_is_done) == (1, False)

    line = done(1, 4096)
    one.add_log(f"2026-11-21T04:11:42.338000000Z stdout F {line[:20]}")
    one.seen(RUNS.reading)
    assert one.undone == 1
    one.add_log(line[20:])
    one.seen(RUNS.reading)
    assert (one.undone, one.work_is_done, one.samples[-1].done) == (0, True, 1)
