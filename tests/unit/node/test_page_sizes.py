"""Tolerances in batches of pages follow the machine's page size: 64 pages are 4 MiB with pages of 64 KiB."""

import dataclasses

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.cgroup.effective_protection import Effective
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Preconditions
from memqos.node.behaviour.pressure import charged_ahead
from memqos.node.behaviour.sample_findings import Observed
from memqos.node.behaviour.throttling import SecondProgram, furthest, modelled_sleep
from tests.unit.node.samples import EVENTS, course, files, planned, sample

MIB = 1 << 20


@pytest.mark.parametrize(("page_size", "slack"), [(4096, 262144), (16384, 1048576), (65536, 4194304)])
def test_a_batch_is_64_pages_of_the_machine(page_size, slack):
    assert sample(files(), page_size=page_size).slack == slack


@pytest.mark.parametrize(
    ("page_size", "verdict"), [(4096, Verdict.CONFORMS), (16384, Verdict.CONFORMS), (65536, Verdict.NOT_OBSERVABLE)]
)
def test_an_amount_is_near_a_limit_by_a_batch_of_the_machine(page_size, verdict):
    """memory.max is 4096000 in the plan: less than one batch of pages of 64 KiB."""
    found = course(sample(files(memory_current="4000000\n"), page_size=page_size)).comes_near(
        "memory.current", Knob.MEMORY_MAX
    )
    assert found.verdict is verdict
    if verdict is Verdict.NOT_OBSERVABLE:
        assert "no more than the 4194304 bytes of tolerance" in found.why_not


@pytest.mark.parametrize(("page_size", "used"), [(4096, Verdict.CONFORMS), (65536, Verdict.DEVIATES)])
def test_swap_counts_as_used_beyond_a_batch_of_the_machine(page_size, used):
    one = sample(files(memory_swap_current=f"{2 * MIB}\n"), page_size=page_size)
    assert course(one).swap.is_used().verdict is used


def test_what_cpus_charge_ahead_is_in_batches_of_the_machine():
    counts = Effective(usage=8 * MIB, min=Bytes(0), low=Bytes(0))
    assert charged_ahead(counts, 2, 256 << 10) == ""
    assert charged_ahead(counts, 2, 4 * MIB) == "of 8388608 bytes in use, 2 CPUs may have charged 8388608 ahead"


@pytest.mark.parametrize(
    ("page_size", "seconds", "verdict"),
    [
        (4096, 4.0, Verdict.DEVIATES),
        (4096, 60.0, Verdict.NOT_OBSERVABLE),
        (16384, 1.0, Verdict.DEVIATES),
        (16384, 4.0, Verdict.NOT_OBSERVABLE),
        (65536, 1.0, Verdict.NOT_OBSERVABLE),
    ],
)
def test_a_kill_breaks_no_rule_where_the_sleeps_end_in_memory_max(page_size, seconds, verdict):
    """memory.high 19.2 MiB, memory.max 24 MiB: one batch of pages of 64 KiB has 4 MiB of the 4.8 in between."""
    pod, app = planned(memory__high=Bytes(20119552), memory__max=Bytes(24 * MIB))
    shown = files(memory_current="20000000\n", memory_high="20119552\n", memory_max=f"{24 * MIB}\n")
    killed = shown | {"memory.events": EVENTS.format(high=9, oom_kill=1)}
    samples = [
        dataclasses.replace(one, planned=app.cgroup.knobs)
        for one in (
            sample(shown, at=0.0, page_size=page_size),
            sample(killed, at=seconds, exit_code=137, reason="OOMKilled", page_size=page_size),
        )
    ]
    premises = Preconditions(pod=pod, planned=app, knobs=(Knob.MEMORY_HIGH,), enacted_by=Setter.MEMQOS)
    spared, runs = Course(Observed(rests_on=premises, samples=tuple(samples))).lives()
    assert (spared.verdict, runs.verdict) == (verdict, verdict)
    if page_size == 65536:
        assert spared.why_not == (
            "it was killed, and each sleep above memory.high 20119552 lets 4194304 bytes pass, so memory.max 25165824 "
            "is soon reached"
        )


@pytest.mark.parametrize(
    ("page_size", "limit", "verdict"),
    [
        (4096, 41943040, Verdict.DEVIATES),
        (16384, 41943040, Verdict.DEVIATES),
        (65536, 41943040, Verdict.NOT_OBSERVABLE),
        (65536, 41943041, Verdict.DEVIATES),
    ],
)
def test_sleeps_are_not_missed_where_two_batches_reach_memory_max(page_size, limit, verdict):
    """memory.high is 32 MiB, memory.max 40 MiB, a batch of pages of 64 KiB 4 MiB: neither sleeps nor thrashing show."""
    _, app = planned(memory__high=Bytes(33554432), memory__max=Bytes(limit))
    shown = files(
        memory_current="39000000\n", memory_high="33554432\n", memory_max=f"{limit}\n",
        memory_stat="anon 39000000\nfile 0\npgmajfault 3\n",
        memory_pressure="".join(
            f"{name} avg10=0.00 avg60=0.00 avg300=0.00 total=0\n" for name in ("some", "full")
        ),
    )  # fmt: skip
    samples = [
        dataclasses.replace(sample(shown, at=at, page_size=page_size), planned=app.cgroup.knobs) for at in (0.0, 10.0)
    ]
    one = course(*samples)
    throttling = Course(dataclasses.replace(one.observed, threads=2)).throttling
    found = (throttling.waits(), throttling.each_thread_waits(), throttling.thrashes_its_text())
    assert [one.verdict for one in found] == [verdict] * 3
    if verdict is Verdict.NOT_OBSERVABLE:
        assert {one.why_not for one in found} == {
            "memory.max 41943040 is at most 2 batches of 4194304 bytes above memory.high 33554432: few sleeps fit"
        }


def test_growth_that_the_model_allows_depends_on_the_page_size():
    """Each sleep lets a batch through: with pages of 64 KiB a program grows sixteen times as much between sleeps."""
    looks = [(0.0, 80 * MIB), (10.0, 90 * MIB)]
    small, large = (furthest(looks, 64 * MIB, page_size=size) for size in (4096, 65536))
    assert small.allowed < large.allowed


@pytest.mark.parametrize(("page_size", "seconds"), [(4096, 2.5), (16384, 2.5), (65536, 1.99)])
def test_an_entry_pays_for_fewer_batches_where_they_are_larger(page_size, seconds):
    """4 MiB are 1024, 256 and 64 pages: at least 8, 2 and 1 batches, at the cap of 2 s less a tick; 2.5 s count."""
    entry = SecondProgram(usage=96 * MIB, said=None)
    assert modelled_sleep(64 * MIB, entry, page_size=page_size) == pytest.approx(seconds)
