"""Growth above memory.high in made-up samples: which the kernel's sleeps allow.

With memory.high at 100 MiB a program sleeps from 101.4 MiB on, and from 117.7 MiB on it gets 256 KiB in 2 s.
"""

import dataclasses

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.conditions import stalls
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Observed, Preconditions
from tests.unit.node.samples import QUIET, course, files, planned, sample

MIB = 1 << 20
HIGH = 100 * MIB
POD, APP = planned(memory__high=Bytes(HIGH))


def seen(*looks):
    """A course in which memory.current had these bytes at these times."""
    shown = [
        dataclasses.replace(
            sample(files(memory_current=f"{usage}\n", memory_high=f"{HIGH}\n"), at=at), planned=APP.cgroup.knobs
        )
        for at, usage in looks
    ]
    premises = Preconditions(pod=POD, planned=APP, knobs=(Knob.MEMORY_HIGH,), enacted_by=Setter.MEMQOS)
    return Course(Observed(rests_on=premises, samples=tuple(shown)))


def test_a_program_that_sleeps_as_modelled_conforms():
    """Four batches more in eight seconds, and one that is charged ahead."""
    finding = seen((0.0, 120 * MIB), (8.0, 121 * MIB)).throttling.grows_as_delayed()

    assert finding.verdict is Verdict.CONFORMS
    assert finding.expected == f"at most {121 * MIB + 256 * 1024}, 8.0 s after {120 * MIB}"
    assert finding.set_by is Setter.KERNEL
    assert "sleeps for its charges" in finding.reason.rule


@pytest.mark.parametrize("usage", [122 * MIB, 140 * MIB])
def test_a_program_that_grows_faster_deviates(usage):
    """As without throttling, or if memory.high was raised between two samples."""
    finding = seen((0.0, 90 * MIB), (1.0, 120 * MIB), (2.0, usage), (9.0, usage)).throttling.grows_as_delayed()

    assert finding.verdict is Verdict.DEVIATES
    assert finding.observed == str(usage)
    assert finding.expected == f"at most {120 * MIB + 256 * 1024}, 1.0 s after {120 * MIB}"


def test_growth_is_measured_from_where_it_costs_sleep():
    """Growth below memory.high, or within a hundredth above it, may be arbitrarily fast."""
    assert seen(
        (0.0, 0), (0.1, 101 * MIB), (0.2, 102 * MIB), (5.0, 103 * MIB)
    ).throttling.grows_as_delayed().verdict is (Verdict.CONFORMS)


@pytest.mark.parametrize("looks", [[(0.0, 99 * MIB), (1.0, 100 * MIB)], [(0.0, 110 * MIB)]])
def test_too_few_samples_above_are_not_observable(looks):
    finding = seen(*looks).throttling.grows_as_delayed()

    assert finding.verdict is Verdict.NOT_OBSERVABLE
    assert finding.why_not.startswith("fewer than two samples")


def pressed(*looks):
    """A course in which tasks had waited for these µs at these times, above memory.high all along."""
    shown = seen(*((at, 120 * MIB) for at, _ in looks))
    samples = [
        dataclasses.replace(
            one,
            reading=sample(
                files(
                    memory_current=f"{120 * MIB}\n",
                    memory_high=f"{HIGH}\n",
                    memory_pressure=QUIET.replace("total=0", f"total={total}"),
                ),
                at=at,
            ).reading,
        )
        for one, (at, total) in zip(shown.samples, looks, strict=True)
    ]
    return Course(dataclasses.replace(shown.observed, samples=tuple(samples)))


def test_a_program_that_waits_most_of_the_time_stalls():
    assert pressed((0.0, 1_000_000), (10.0, 9_000_000)).throttling.waits().verdict is Verdict.CONFORMS
    awake = pressed((0.0, 1_000_000), (10.0, 6_000_000)).throttling.waits()
    assert (awake.verdict, awake.observed) == (Verdict.DEVIATES, "5.0 s")
    assert awake.expected == "more than half of 10.0 s above memory.high"
    assert pressed((0.0, 1_000_000)).throttling.waits().verdict is Verdict.NOT_OBSERVABLE


def test_four_seconds_of_waiting_are_a_stall():
    condition = stalls()
    short, long = pressed((0.0, 3_999_999)).samples[0], pressed((0.0, 4_000_000)).samples[0]
    assert [condition.holds(one) for one in (short, long)] == [False, True]
    assert condition.shows(short) == "some total 3999999 µs in /pod"


def test_slow_progress_to_the_end_is_no_lasting_stall():
    slow, stuck = pressed((0.0, 4_608_000)).samples[0], pressed((0.0, 40_000_000)).samples[0]

    assert [stalls().holds(slow), stalls(for_good=True).holds(slow)] == [True, False]
    assert stalls(for_good=True).holds(stuck)


def test_without_a_planned_memory_high_nothing_is_observable():
    """The file's own memory.high is not the reference."""
    unplanned = course(sample(files(memory_current=f"{120 * MIB}\n")))

    for finding in (unplanned.throttling.waits(), unplanned.throttling.grows_as_delayed()):
        assert (finding.verdict, finding.why_not) == (Verdict.NOT_OBSERVABLE, "the plan sets no memory.high")
