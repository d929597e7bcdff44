"""Watching a container and judging what happened, on made-up samples and on the fake node."""

import json

import pytest

from memqos.engine.finding import Verdict
from memqos.errors import DeadlineError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, NoFile, Reading
from memqos.node import counted, ended, exceeds, reaches, rises, watching
from memqos.node.conditions import WATCHED_FILES, Sample, work_done
from memqos.node.course import Course
from memqos.runtime.base import ContainerState, ContainerStatus
from memqos.workload.report import parse_report
from tests.unit.node.fakes import Bench, kubelet, pod

POD, APP = CgroupPath.parse("/pod"), CgroupPath.parse("/pod/app")
QUIET = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
EVENTS = "low 0\nhigh {high}\nmax 0\noom 0\noom_kill {oom_kill}\noom_group_kill 0\n"


def files(**changes):
    texts = {
        "memory.current": "1000\n",
        "memory.max": "4096000\n",
        "memory.events": EVENTS.format(high=0, oom_kill=0),
        "memory.pressure": QUIET,
        "memory.swap.current": "0\n",
        "memory.swap.max": "8192000\n",
        "memory.numa_stat": "anon N0=0 N1=0\nfile N0=0 N1=0\n",
        "cpuset.mems": "1\n",
    }
    return texts | {name.replace("_", "."): text for name, text in changes.items()}


def sample(container=None, pod_files=None, *, exit_code=None, reason="", report=""):
    gone = dict.fromkeys(WATCHED_FILES[CgroupVersion.V2], NoFile.NO_FILE)
    inside = gone if container is None else container
    status = ContainerStatus(
        state=ContainerState.RUNNING if exit_code is None else ContainerState.EXITED,
        exit_code=exit_code,
        reason=reason,
        message="",
        resources=None,
    )
    cgroups = {
        APP: CgroupReading(path=APP, files=inside),
        POD: CgroupReading(path=POD, files=pod_files or inside),
    }
    reading = Reading(source="test", at=1.0, cgroups=cgroups)
    return Sample(container=APP, pod=POD, reading=reading, status=status, report=parse_report(report, source="test"))


@pytest.fixture(scope="module")
def course():
    """A course of any samples, with a planned container of the fake node."""
    bench, web = Bench(), pod("web")
    with bench.node.admitted([web], kubelet()) as population:
        planned = population.pods[web.uid].planned

    def of(*samples):
        return Course(pod=planned, container=web.containers[0], planned=planned.containers[0], samples=samples)

    return of


def done(number, amount):
    line = {"event": "done", "ms": 1, "command": number, "verb": "anon", "id": number, "bytes": amount}
    return json.dumps(line | {"max_us": 1}) + "\n"


def events(high=0, oom_kill=0):
    return files(memory_events=EVENTS.format(high=high, oom_kill=oom_kill))


def legacy(**changes):
    texts = {
        "memory.usage_in_bytes": "8192\n",
        "memory.max_usage_in_bytes": "8192\n",
        "memory.limit_in_bytes": "16384\n",
        "memory.memsw.usage_in_bytes": "8192\n",
        "memory.memsw.limit_in_bytes": "9223372036854771712\n",
        "memory.failcnt": "0\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    }
    return texts | {f"memory.{name.replace('__', '.')}": text for name, text in changes.items()}


def test_limits_of_cgroup_v1_are_run_into_by_the_pod_or_its_container(course):
    before, after = sample(legacy()), sample(legacy(failcnt="2\n"), legacy(failcnt="3\n"))
    gone = sample(None, legacy(failcnt="3\n"), exit_code=137)

    assert course(before, after).ran_into("memory.failcnt").verdict is Verdict.CONFORMS
    assert course(before, after, gone).ran_into("memory.failcnt").observed == "5"
    assert course(before).ran_into("memory.failcnt").verdict is Verdict.DEVIATES
    assert course(sample(files())).ran_into("memory.failcnt").verdict is Verdict.NOT_OBSERVABLE
    evidence = course(before).ran_into("memory.failcnt").evidence
    assert evidence["memory.oom_control"] == "oom_kill_disable 0 under_oom 0 oom_kill 1"
    assert evidence["memory.usage_in_bytes"] == "8192"


@pytest.mark.parametrize(
    ("most", "exactly", "forced"),
    [
        ("16384\n", Verdict.CONFORMS, Verdict.CONFORMS),
        ("278528\n", Verdict.DEVIATES, Verdict.CONFORMS),
        ("278529\n", Verdict.DEVIATES, Verdict.DEVIATES),
    ],
)
def test_charges_that_cannot_fail_may_pass_a_limit_by_one_batch(course, most, exactly, forced):
    """64 pages of 4 KiB above 16384 bytes."""
    one = course(sample(legacy(max_usage_in_bytes=most)))
    judged = one.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES, forced=True)

    assert one.stays_within("memory.max_usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES).verdict is exactly
    assert (judged.verdict, judged.expected) == (forced, "at most 278528 (memory.limit_in_bytes and 262144)")


@pytest.mark.parametrize(("total", "verdict"), [("16385\n", Verdict.CONFORMS), ("16384\n", Verdict.DEVIATES)])
def test_memory_and_swap_together_exceed_the_limit_of_memory(course, total, verdict):
    seen = sample(legacy(memsw__usage_in_bytes=total))
    finding = course(seen).exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES)

    assert finding.verdict is verdict
    assert finding.expected == "more than 16384 (memory.limit_in_bytes)"
    condition = exceeds("memory.memsw.usage_in_bytes", "memory.limit_in_bytes")
    assert condition.holds(seen) is (verdict is Verdict.CONFORMS)
    assert not condition.holds(sample(files()))
    unseen = course(sample(files())).exceeds("memory.memsw.usage_in_bytes", Knob.MEMORY_LIMIT_IN_BYTES)
    assert unseen.verdict is Verdict.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("seen", "rising", "staying"),
    [(0, Verdict.DEVIATES, Verdict.CONFORMS), (7, Verdict.CONFORMS, Verdict.DEVIATES)],
)
def test_a_counter_rises_or_stays(course, seen, rising, staying):
    one = course(sample(events()), sample(events(high=seen)))

    assert one.rises("memory.events", "high").verdict is rising
    assert one.stays("memory.events", "high").verdict is staying
    assert one.rises("memory.events", "high").observed == f"high {seen}"


def test_events_of_a_container_that_is_gone_are_told_by_its_pod(course):
    one = course(sample(events()), sample(None, events(oom_kill=1), exit_code=137, reason="OOMKilled"))

    assert one.rises("memory.events", "oom_kill").verdict is Verdict.CONFORMS
    assert one.exit_code_tells_kill().verdict is Verdict.CONFORMS
    assert one.reason_tells_oom().verdict is Verdict.CONFORMS
    assert one.still_runs().verdict is Verdict.DEVIATES
    assert one.still_runs().observed == "ended with 137 (OOMKilled)"


def test_a_stall_of_up_to_10_ms_is_no_throttling(course):
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
def test_a_limit_is_reached_within_64_pages_and_never_passed(course, amount, near, within):
    one = course(sample(files(memory_swap_current=f"{amount}\n")), sample(files()))

    assert one.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX).verdict is near
    assert one.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX).verdict is within
    assert reaches("memory.swap.current", "memory.swap.max").holds(one.samples[0]) is (near is Verdict.CONFORMS)


def test_what_could_not_be_read_is_not_observable(course):
    one = course(sample(None))

    for finding in (
        one.rises("memory.events", "high"),
        one.stays("memory.events", "high"),
        one.stays_empty("memory.swap.current"),
        one.stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        one.comes_near("memory.swap.current", Knob.MEMORY_SWAP_MAX),
        one.shows("cpuset.mems", "1"),
        one.anon_only_on(1),
    ):
        assert finding.verdict is Verdict.NOT_OBSERVABLE
        assert finding.why_not


def test_swap_that_was_used_once_was_used(course):
    one = course(sample(files()), sample(files(memory_swap_current="4096\n")), sample(files()))

    assert one.stays_empty("memory.swap.current").verdict is Verdict.DEVIATES
    assert one.stays_empty("memory.swap.current").observed == "4096"


@pytest.mark.parametrize(
    ("anon", "verdict"),
    [
        ("N0=0 N1=8192", Verdict.CONFORMS),
        ("N0=4096 N1=8192", Verdict.DEVIATES),
        ("N0=0 N1=4096", Verdict.DEVIATES),
        ("N0=8192 N1=0", Verdict.DEVIATES),
    ],
)
def test_anonymous_memory_is_all_on_one_zone(course, anon, verdict):
    one = course(sample(files(memory_numa__stat=""), report=done(1, 8192)))
    text = {**files(), "memory.numa_stat": f"anon {anon}\nfile N0=0 N1=0\n"}
    one = course(sample(text, report=done(1, 8192)))

    assert one.anon_only_on(1).verdict is verdict
    assert counted("anon").holds(one.samples[0]) is (anon != "N0=0 N1=4096")


def test_the_workload_tells_whether_it_did_anything(course):
    assert course(sample(files(), report=done(1, 4096))).progressed().verdict is Verdict.CONFORMS
    assert course(sample(files())).progressed().verdict is Verdict.DEVIATES
    assert work_done(2).holds(sample(files(), report=done(1, 1) + done(2, 1)))
    assert not work_done(2).holds(sample(files(), report=done(1, 1)))


def test_watching_ends_when_the_conditions_were_seen_even_one_after_the_other():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        path = container.population.path_of(web, "app")
        bench.cgroups.show(path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.CONFORMS
    assert course.rises("memory.events", "high").cgroup == str(path)
    assert len(bench.log.readings) == 3


def test_watching_ends_with_the_container():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        [handle] = bench.runtime.handles.values()
        bench.runtime.finish(handle, exit_code=137, reason="OOMKilled")
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
    assert ended().holds(course.samples[-1])


def test_a_container_that_only_works_on_gives_nothing_to_judge(monkeypatch):
    monkeypatch.setattr(watching, "WATCH_SECONDS", 0.01)
    bench, web = Bench(), pod("web")
    with (
        bench.node.watched(web, kubelet()) as container,
        pytest.raises(DeadlineError, match=r"memory\.events high rises"),
    ):
        container.until(rises("memory.events", "high"))


def test_a_workload_that_is_done_is_watched_a_little_longer_and_no_more(monkeypatch):
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
