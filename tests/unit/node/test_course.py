"""Findings about one container's course, on made-up samples."""

import dataclasses

import pytest

from memqos.engine.answer.explain import failure
from memqos.engine.answer.finding import Verdict
from memqos.model.knob import MAX, Bytes, Knob
from memqos.node import counted, exceeds, reaches, rises
from memqos.node.behaviour.conditions import work_done
from memqos.node.behaviour.course import Course
from tests.unit.node.samples import QUIET, course, done, events, files, legacy, planned, sample


def test_limits_of_cgroup_v1_are_run_into_by_the_pod_or_its_container():
    before, after = sample(legacy()), sample(legacy(failcnt="2\n"), legacy(failcnt="3\n"))
    gone = sample(None, legacy(failcnt="3\n"), exit_code=137)

    assert course(before, after).ran_into("memory.failcnt").verdict is Verdict.CONFORMS
    assert course(before, after, gone).ran_into("memory.failcnt").observed == "5"
    assert course(before).ran_into("memory.failcnt").verdict is Verdict.DEVIATES
    assert course(sample(files())).ran_into("memory.failcnt").verdict is Verdict.NOT_OBSERVABLE
    evidence = course(before).ran_into("memory.failcnt").evidence
    assert evidence["memory.oom_control of the pod"] == "oom_kill_disable 0 under_oom 0 oom_kill 1"
    assert evidence["memory.usage_in_bytes of the container, at most"] == "8192"


@pytest.mark.parametrize(
    ("most", "exactly", "forced"),
    [
        ("16384\n", Verdict.CONFORMS, Verdict.CONFORMS),
        ("278528\n", Verdict.DEVIATES, Verdict.CONFORMS),
        ("278529\n", Verdict.DEVIATES, Verdict.DEVIATES),
    ],
)
def test_charges_that_cannot_fail_may_pass_a_limit_by_one_batch(most, exactly, forced):
    """64 pages of 4 KiB above 16384 bytes."""
    one = course(sample(legacy(max_usage_in_bytes=most)))
    judged = one.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES, forced=True)

    assert one.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES).verdict is exactly
    assert (judged.verdict, judged.expected) == (forced, "at most 278528 (memory.limit_in_bytes and 262144)")


@pytest.mark.parametrize(("total", "verdict"), [("16385\n", Verdict.CONFORMS), ("16384\n", Verdict.DEVIATES)])
def test_memory_and_swap_together_exceed_the_limit_of_memory(total, verdict):
    seen = sample(legacy(memsw__usage_in_bytes=total))
    finding = course(seen).exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES)

    assert finding.verdict is verdict
    assert finding.expected == "more than 16384 (memory.limit_in_bytes)"
    condition = exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES)
    assert condition.holds(seen) is (verdict is Verdict.CONFORMS)
    assert not condition.holds(sample(files()))
    unseen = course(sample(files())).exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES)
    assert unseen.verdict is Verdict.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("seen", "rising", "staying"),
    [(0, Verdict.DEVIATES, Verdict.CONFORMS), (7, Verdict.CONFORMS, Verdict.DEVIATES)],
)
def test_a_counter_rises_or_stays(seen, rising, staying):
    one = course(sample(events()), sample(events(high=seen)))

    assert one.rises("memory.events", "high").verdict is rising
    assert one.stays("memory.events", "high").verdict is staying
    assert one.rises("memory.events", "high").observed == f"high {seen}"


def test_events_of_a_removed_container_are_read_from_its_pod():
    one = course(sample(events()), sample(None, events(oom_kill=1), exit_code=137, reason="OOMKilled"))

    assert one.rises("memory.events", "oom_kill").verdict is Verdict.CONFORMS
    assert one.oom.reports_exit_code().verdict is Verdict.CONFORMS
    assert one.oom.reports_reason().verdict is Verdict.CONFORMS
    assert one.still_runs().verdict is Verdict.DEVIATES
    assert one.still_runs().observed == "ended with 137 (OOMKilled)"


def test_a_stall_of_up_to_10_ms_is_no_throttling():
    short = QUIET.replace("total=0", "total=10000", 1)
    longer = QUIET.replace("total=0", "total=10001", 1)

    assert (
        course(sample(files(memory_pressure=short))).rises("memory.pressure", "some total").verdict is Verdict.DEVIATES
    )
    assert (
        course(sample(files(memory_pressure=longer))).rises("memory.pressure", "some total").verdict is Verdict.CONFORMS
    )
    assert not rises("memory.pressure", "some total").holds(sample(files(memory_pressure=short)))
    assert rises("memory.pressure", "some total").holds(sample(files(memory_pressure=longer)))


@pytest.mark.parametrize(
    ("amount", "near", "within"),
    [
        (8192000, Verdict.CONFORMS, Verdict.CONFORMS),
        (8192000 - 262144, Verdict.CONFORMS, Verdict.CONFORMS),
        (8192000 - 262145, Verdict.DEVIATES, Verdict.CONFORMS),
        (8192001, Verdict.CONFORMS, Verdict.DEVIATES),
    ],
)
def test_a_limit_is_reached_within_64_pages_and_never_passed(amount, near, within):
    one = course(sample(files(memory_swap_current=f"{amount}\n")), sample(files()))

    assert one.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX).verdict is near
    assert one.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX).verdict is within
    assert reaches("memory.swap.current", Knob.MEMORY_SWAP_MAX).holds(one.samples[0]) is (near is Verdict.CONFORMS)


@pytest.mark.parametrize(
    ("amounts", "exit_code", "verdict"),
    [
        # Seen by the kernel between two samples.
        (("4096", "8192000", "8192000"), 137, Verdict.CONFORMS),
        # The program was killed between two samples: only its pod's peak is left, and there is none before 6.5.
        (("4096", "8192", "8192000"), 137, Verdict.NOT_OBSERVABLE),
        (("4096", None, None), 137, Verdict.NOT_OBSERVABLE),
        (("4096", "8192", "8192"), 137, Verdict.DEVIATES),
        # It still runs, and its samples are complete.
        (("4096", None, None), None, Verdict.DEVIATES),
        (("4096", "8192", "8192000"), None, Verdict.DEVIATES),
    ],
)
def test_a_limit_may_be_reached_between_two_looks(amounts, exit_code, verdict):
    current, peak, pod_peak = amounts

    def of(current, peak):
        more = {} if peak is None else {"memory_swap_peak": f"{peak}\n"}
        return files(memory_swap_current=f"{current}\n", **more)

    pod_files = of(current, pod_peak)
    last = sample(None, pod_files, exit_code=137) if exit_code else sample(of(current, peak), pod_files)
    finding = course(sample(of(current, peak), pod_files), last).comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX)

    assert finding.verdict is verdict
    assert (finding.why_not != "") is (verdict is Verdict.NOT_OBSERVABLE)
    if peak is not None and verdict is Verdict.NOT_OBSERVABLE:
        assert finding.why_not == (
            "memory.swap.current was seen at 8192, and the container ended before the next sample, "
            "with a memory.swap.peak of 8192000 in its pod"
        )


def test_what_was_between_two_looks_counts():
    one = course(sample(files(memory_swap_peak="8192001\n")))

    assert one.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX).verdict is Verdict.DEVIATES
    assert one.swap.is_unused().observed == "8192001"
    assert reaches("memory.swap.current", Knob.MEMORY_SWAP_MAX).holds(one.samples[0])


def test_what_could_not_be_read_is_not_observable():
    one = course(sample(None))

    for finding in (
        one.rises("memory.events", "high"),
        one.stays("memory.events", "high"),
        one.swap.is_unused(),
        one.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        one.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        one.numa.is_only_on(1),
    ):
        assert finding.verdict is Verdict.NOT_OBSERVABLE
        assert finding.why_not


def test_swap_that_was_used_once_was_used():
    one = course(sample(files()), sample(files(memory_swap_current="4096\n")), sample(files()))

    assert one.swap.is_unused().verdict is Verdict.DEVIATES
    assert one.swap.is_unused().observed == "4096"


@pytest.mark.parametrize(
    ("file", "verdict"),
    [
        ("N0=0 N1=1048576", Verdict.CONFORMS),
        ("N0=262144 N1=1048576", Verdict.CONFORMS),
        ("N0=266240 N1=1048576", Verdict.DEVIATES),
        ("N0=4096 N1=1044480", Verdict.DEVIATES),
        ("N0=1048576 N1=0", Verdict.DEVIATES),
    ],
)
def test_page_cache_beyond_the_programs_files_belongs_to_the_runtime(file, verdict):
    """Up to a batch of it may be on another NUMA node; all that the program wrote is on its own."""
    text = {**files(), "memory.numa_stat": f"anon N0=0 N1=0\nfile {file}\n"}
    one = course(sample(text, report=done(1, 1 << 20).replace('"anon"', '"file"')))

    assert one.numa.is_only_on(1, kind="file").verdict is verdict


@pytest.mark.parametrize(
    ("anon", "verdict"),
    [
        ("N0=0 N1=8192", Verdict.CONFORMS),
        ("N0=4096 N1=8192", Verdict.DEVIATES),
        ("N0=0 N1=4096", Verdict.DEVIATES),
        ("N0=8192 N1=0", Verdict.DEVIATES),
    ],
)
def test_anonymous_memory_is_all_on_one_numa_node(anon, verdict):
    one = course(sample(files(memory_numa__stat=""), report=done(1, 8192)))
    text = {**files(), "memory.numa_stat": f"anon {anon}\nfile N0=0 N1=0\n"}
    one = course(sample(text, report=done(1, 8192)))

    assert one.numa.is_only_on(1).verdict is verdict
    assert counted("anon").holds(one.samples[0]) is (anon != "N0=0 N1=4096")


@pytest.mark.parametrize("ask", [lambda one: one.numa.is_only_on(1), lambda one: one.numa.ends_only_on(1)])
def test_a_program_that_ends_before_it_holds_anything_is_on_no_numa_node(ask):
    """A few of its pages are counted on the right node, which is less than it holds."""
    text = {**files(), "memory.numa_stat": "anon N0=0 N1=8192\n"}
    finding = ask(course(sample(text, exit_code=1, reason="Error")))

    assert finding.verdict is Verdict.NOT_OBSERVABLE
    assert finding.why_not == "the workload reported no anon that it holds, and ended with 1 (Error)"


@pytest.mark.parametrize(
    ("mems", "anon", "verdict"),
    [
        ("1", "N0=0 N1=8192", Verdict.CONFORMS),
        ("0", "N0=0 N1=8192", Verdict.DEVIATES),
        ("0,1", "N0=4096 N1=4096 N2=0", Verdict.CONFORMS),
        ("0,1", "N0=4096 N1=4096", Verdict.NOT_OBSERVABLE),
        ("1,2", "N0=4096 N1=4096", Verdict.DEVIATES),
        ("", "N0=0 N1=8192", Verdict.NOT_OBSERVABLE),
    ],
)
def test_anonymous_memory_is_on_the_planned_nodes(mems, anon, verdict):
    one = bound(course(sample({**files(), "memory.numa_stat": f"anon {anon}\n"}, report=done(1, 8192))), mems)
    finding = one.numa.is_only_where_planned()

    assert finding.verdict is verdict
    assert (finding.why_not == "the plan binds the container to no NUMA node") is (not mems)


def bound(one, mems):
    planned = one.observed.rests_on.planned
    resources = dataclasses.replace(planned.resources, cpuset_mems=mems)
    premises = dataclasses.replace(one.observed.rests_on, planned=dataclasses.replace(planned, resources=resources))
    return Course(dataclasses.replace(one.observed, rests_on=premises))


@pytest.mark.parametrize(
    ("here", "there", "verdict", "expected"),
    [
        ("1\n", "0\n", Verdict.CONFORMS, "not 0"),
        ("0\n", "0\n", Verdict.DEVIATES, "not 0"),
        (None, "0\n", Verdict.NOT_OBSERVABLE, "not 0"),
        ("1\n", None, Verdict.NOT_OBSERVABLE, "not "),
    ],
)
def test_a_container_is_placed_elsewhere_than_under_other_rules(here, there, verdict, expected):
    one, other = (course(sample(placed(mems))) for mems in (here, there))
    finding = one.numa.placed_elsewhere_than(other.numa)

    assert (finding.knob, finding.verdict, finding.expected) == ("cpuset.mems", verdict, expected)
    assert finding.observed == ("" if verdict is Verdict.NOT_OBSERVABLE else here.strip())


def placed(mems):
    return {**files(), "cpuset.mems": mems} if mems is not None else None


def test_the_workload_reports_whether_it_did_anything():
    assert course(sample(files(), report=done(1, 4096))).progressed().verdict is Verdict.CONFORMS
    assert course(sample(files())).progressed().verdict is Verdict.DEVIATES
    assert work_done(2).holds(sample(files(), report=done(1, 1) + done(2, 1)))
    assert not work_done(2).holds(sample(files(), report=done(1, 1)))


@pytest.mark.parametrize("bound", [Bytes(0), Bytes(262144)])
def test_what_everything_is_near_to_is_never_reached(bound):
    """Every container uses more than a negative amount."""
    expected = planned(memory__swap__max=bound)[1].cgroup.knobs
    seen = dataclasses.replace(sample(files()), planned=expected)
    finding = course(seen).comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX)

    assert finding.verdict is Verdict.NOT_OBSERVABLE
    assert finding.why_not == (f"the planned memory.swap.max of {bound} is no more than the 262144 bytes of tolerance")


def test_amounts_are_not_compared_with_unplanned_limits():
    expected = planned(memory__swap__max=MAX)[1].cgroup.knobs
    seen = dataclasses.replace(sample(files()), planned=expected)
    one = course(seen, rests_on=[Knob.MEMORY_MAX])

    for judge in (one.comes_near, one.stays_within, one.exceeds):
        finding = judge("memory.swap.current", Knob.MEMORY_SWAP_MAX)
        assert (finding.verdict, finding.why_not) == (Verdict.NOT_OBSERVABLE, "the plan sets no memory.swap.max")


def test_findings_on_a_runtimes_report_name_the_cgroup_and_the_rule():
    finding = course(sample(files())).still_runs()

    assert finding.cgroup == "/pod/app"
    assert finding.reason.rule.startswith("a container runs until")
    assert "look " not in failure(dataclasses.replace(finding, verdict=Verdict.DEVIATES))


def test_events_are_shown_where_they_are_judged():
    """The container's own counters are gone with it, and were zero in the last sample."""
    one = course(sample(events()), sample(None, events(oom_kill=1), exit_code=137))
    finding = one.rises("memory.events", "oom_kill")

    assert finding.observed == "oom_kill 1"
    assert finding.evidence["memory.events of the pod"] == "low 0 high 0 max 0 oom 0 oom_kill 1 oom_group_kill 0"
    assert finding.reason.rule.startswith("a process is killed where memory.max is reached")


def test_commands_that_are_done_are_counted_from_the_workloads_report():
    seen = course(sample(files(), report=done(1, 4096) + done(2, 4096)))

    two, three = (Course(dataclasses.replace(seen.observed, commands=commands)).finishes() for commands in (2, 3))
    assert two.verdict is Verdict.CONFORMS
    assert (three.verdict, three.observed) == (Verdict.DEVIATES, "2 commands done")


def test_a_watch_begins_when_something_was_first_read():
    """The status call precedes the first sample, and has no time."""
    asked, first, last = sample(files(), at=0.0), sample(files(), at=200.0), sample(files(), at=207.5)

    assert course(asked, first, last).still_runs().evidence["seconds"] == "7.5"
