"""Tolerances in batches of pages follow the machine's page size: 64 pages are 4 MiB with pages of 64 KiB."""

import dataclasses
import json

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.cgroup.effective_protection import Effective
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.conditions import thread_stalls
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Observed, Preconditions
from memqos.node.behaviour.pressure import charged_ahead
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


def above_high(*looks, page_size=65536, threads=1, report="", **texts):
    """A container with a memory.high of 19.2 MiB and a memory.max of 24, and what was seen of it.

    looks: the time, how long the pod has waited for memory by then, both in seconds, and the exit code, None while it
    runs.
    """
    _, app = planned(memory__high=Bytes(20119552), memory__max=Bytes(24 * MIB))
    samples = []
    for at, waited, ended in looks:
        texts["cgroup_events"] = f"populated {int(ended is None)}\nfrozen 0\n"
        pressure = "".join(
            f"{name} avg10=0.00 avg60=0.00 avg300=0.00 total={int(waited * 1e6)}\n" for name in ("some", "full")
        )
        shown = files(
            memory_current="25100288\n", memory_high="20119552\n", memory_max=f"{24 * MIB}\n", memory_pressure=pressure,
            **texts,
        )  # fmt: skip
        one = sample(shown, at=at, page_size=page_size, exit_code=ended, reason="OOMKilled", report=report)
        samples.append(dataclasses.replace(one, planned=app.cgroup.knobs))
    observed = course(*samples).observed
    return Course(dataclasses.replace(observed, threads=threads)).throttling


@pytest.mark.parametrize(("waited", "verdict"), [(8.1, Verdict.CONFORMS), (4.3, Verdict.DEVIATES)])
def test_nothing_waits_any_more_after_a_kill(waited, verdict):
    """Seen on ppc64le: 8.1 s of the 8.7 s until the kill, and 24.5 s until the end of the watch."""
    found = above_high((0.0, 0.0, None), (8.7, waited, 137), (24.5, waited, 137)).waits()
    assert (found.verdict, found.expected) == (verdict, "more than half of 8.7 s above memory.high")


def test_a_program_waits_whatever_the_runtime_says_later():
    """Seen on ppc64le: the first answer came when the program had been killed, so each sample has that status."""
    found = above_high((0.0, 0.0, None), (8.7, 8.1, None))
    late = [
        dataclasses.replace(one, status=dataclasses.replace(one.status, exit_code=137))
        for one in found.observed.samples
    ]
    found = Course(dataclasses.replace(found.observed, samples=tuple(late))).throttling.waits()
    assert (found.verdict, found.observed) == (Verdict.CONFORMS, "8.1 s")


@pytest.mark.parametrize(
    ("page_size", "limit", "used", "verdict"),
    [
        (65536, 8585216, 4849664, Verdict.NOT_OBSERVABLE),
        (65536, 8585216, 4390912, Verdict.DEVIATES),
        (65536, 0, 0, Verdict.DEVIATES),
        (16384, 8585216, 4849664, Verdict.DEVIATES),
        (4096, 8585216, 8585216, Verdict.DEVIATES),
    ],
)
def test_the_kernel_swaps_no_more_with_less_than_64_pages_left(page_size, limit, used, verdict):
    """Seen on ppc64le: killed with 4,849,664 of 8,585,216 bytes of swap in use; 57 pages were left."""
    pod, app = planned(memory__swap__max=Bytes(limit))
    shown = files(
        memory_swap_current=f"{used}\n", memory_swap_max=f"{limit}\n", memory_events=EVENTS.format(high=9, oom_kill=1)
    )
    one = sample(shown, page_size=page_size, exit_code=137, reason="OOMKilled")
    premises = Preconditions(pod=pod, planned=app, knobs=(Knob.MEMORY_SWAP_MAX,), enacted_by=Setter.MEMQOS)
    observed = Observed(rests_on=premises, samples=(dataclasses.replace(one, planned=app.cgroup.knobs),))
    killed, done = Course(dataclasses.replace(observed, commands=2)).swaps_through()
    assert (killed.verdict, done.verdict) == (verdict, verdict)
    assert Course(observed).still_runs().verdict is verdict
    if verdict is Verdict.NOT_OBSERVABLE:
        assert done.why_not == (
            "it was killed, and 3735552 bytes of memory.swap.max 8585216 were left, "
            "too few for the kernel's 64 pages of 65536"
        )


def waits(*seconds):
    line = {"event": "step", "ms": 1, "command": 2, "verb": "anon", "id": 2, "bytes": 1, "of": 9}
    lines = [{**line, "max_us": each * 1e6, "thread": thread} for thread, each in enumerate(seconds, start=1)]
    return "".join(f"{json.dumps(each)}\n" for each in lines)


@pytest.mark.parametrize(
    ("page_size", "report", "ended", "verdict"),
    [
        (65536, waits(3.4, 3.0), 137, Verdict.CONFORMS),
        (65536, waits(0.3, 0.3), 137, Verdict.NOT_OBSERVABLE),
        (65536, waits(4.0, 0.0), None, Verdict.DEVIATES),
        (65536, "", None, Verdict.NOT_OBSERVABLE),
        (4096, waits(0.3, 0.3), 137, Verdict.DEVIATES),
    ],
)
def test_threads_that_wait_too_little_deviate_unless_memory_max_is_near(page_size, report, ended, verdict):
    looks = ((0.0, 0.0, None), (2.0, 1.0, ended))
    found = above_high(*looks, page_size=page_size, threads=2, report=report).each_thread_waits()
    assert found.verdict is verdict
    if not report:
        assert found.why_not == "none of its threads has taken memory yet"
    elif verdict is Verdict.NOT_OBSERVABLE:
        assert "lets 4194304 bytes pass" in found.why_not


@pytest.mark.parametrize(
    ("seconds", "holds"), [((), False), ((3.9, 3.9), False), ((0.1, 4.0), True)], ids=["none", "short", "one"]
)
def test_a_thread_has_stalled_after_four_seconds_of_its_own(seconds, holds):
    one = sample(files(), report=waits(*seconds))
    assert thread_stalls().holds(one) is holds
    assert thread_stalls().shows(one) == f"the longest that one has waited is {max(seconds, default=0) * 1e6:.0f} µs"


@pytest.mark.parametrize(
    ("page_size", "read", "verdict"),
    [
        (65536, 113, Verdict.NOT_OBSERVABLE),
        (65536, 14, Verdict.DEVIATES),
        (16384, 113, Verdict.NOT_OBSERVABLE),
        (4096, 113, Verdict.DEVIATES),
    ],
)
def test_text_of_a_few_large_pages_is_read_again_by_few_faults(page_size, read, verdict):
    """Seen on ppc64le: 12 major faults read 113 pages of text again, while the program got on by three pages."""
    samples = [
        sample(
            files(memory_stat=f"anon {anon}\nfile 0\npgmajfault {faulted}\nworkingset_refault_file {again}\n"),
            at=float(at),
            page_size=page_size,
        )
        for at, (anon, faulted, again) in enumerate([(39780352, 29, 208), (39780352 + 3 * page_size, 41, 208 + read)])
    ]
    found = course(*samples).throttling.thrashes_its_text()
    assert found.verdict is verdict
    if verdict is Verdict.NOT_OBSERVABLE:
        assert found.why_not == (
            f"12 major faults read {read} pages of {page_size} bytes again: it got on by {3 * page_size} bytes"
        )


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
