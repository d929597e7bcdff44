"""The throttling suite on small models of kernels with one fault each: a deviation names each fault."""

import contextlib
import dataclasses
import json

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import DeadlineError, NonconformanceError, RuntimeCallError, UsageError
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour import watch
from memqos.node.behaviour.conditions import faults
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.throttling import furthest
from tests.unit.node.chapters import CATALOGUE, KUBELETS, called, chapter, evidence_in
from tests.unit.node.memory import PAGE, MemoryBench
from tests.unit.node.samples import EVENTS, course, events, files, sample
from tests.unit.node.zoned import UNBOUNDED

MODULE, STALLING = chapter("throttling"), chapter("throttling", "stalling")


class NoPodHigh(MemoryBench):
    """Its kernel applies the memory.high of containers only."""

    def high_of(self, path):
        return self.amount_in(path, "memory.high")


class CountsAlways(MemoryBench):
    """Its kernel counts `high` for every charge."""

    def obey(self, fifo, line):
        super().obey(fifo, line)
        self.count_high(self.runtime.cgroup_of(self.steered[fifo]))


class Unswapping(MemoryBench):
    """Its kernel swaps nothing out, as with swappiness 0."""

    def on_v2(self, path, anon, file):
        limit = self.cgroups.text(path, "memory.swap.max")
        self.cgroups.show(path, "memory.swap.max", "0\n")
        killed = super().on_v2(path, anon, file)
        self.cgroups.show(path, "memory.swap.max", limit)
        return killed


class Unthrottled(MemoryBench):
    """Its kernel ignores memory.high, or something resets it to max between two samples."""

    def high_of(self, _):
        return UNBOUNDED


class Early(MemoryBench):
    """Its kernel uses half of a memory.high as the whole."""

    def high_of(self, path):
        high = super().high_of(path)
        return high if high == UNBOUNDED else high // 2 // PAGE * PAGE


def fixtures(bench, kubelet, evidence):
    """The fixtures of tests, by the plugin's names."""
    return {
        "qos_node": bench.node,
        "qos_kubelet": KUBELETS[kubelet],
        "qos_catalog": CATALOGUE,
        "qos_evidence": evidence,
    }


def findings_of(bench, name, kubelet, folder, **given):
    evidence, notes = evidence_in(folder)
    function = getattr(MODULE, name, None) or getattr(STALLING, name)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever ends a test of a suite
        called(function, fixtures(bench, kubelet, evidence) | given)
    return {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "WATCH_SECONDS", 5.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 0.2)


@pytest.mark.parametrize(
    ("kernel", "name", "kubelet", "knobs"),
    [
        (NoPodHigh, "test_a_pod_level_memory_high_slows_every_program_of_the_pod", "v1.37-tiered", {"memory.events"}),
        (CountsAlways, "test_a_program_that_frees_its_memory_recovers", "v1.22", {"memory.events"}),
        (Unthrottled, "test_a_program_that_frees_its_memory_recovers", "v1.22", {"memory.events"}),
        (
            Unswapping,
            "test_swappable_memory_above_memory_high_is_reclaimed",
            "v1.36-none",
            {"memory.events", "memory.swap.current", "report"},
        ),
        (
            Unthrottled,
            "test_a_low_factor_stalls_with_the_1_27_formula",
            "v1.27",
            {"memory.events", "memory.pressure", "state"},
        ),
        (Early, "test_a_factor_of_one_slows_nothing", "v1.27", {"memory.events", "exit code"}),
    ],
)
def test_a_kernel_with_one_fault_deviates_there(kernel, name, kubelet, knobs, tmp_path):
    assert findings_of(kernel(), name, kubelet, tmp_path) == knobs


@pytest.mark.parametrize(
    ("kernel", "knobs"),
    [
        (MemoryBench(ignores="threads"), {"memory.pressure"}),
        (Unthrottled(), {"memory.events", "memory.pressure", "state"}),
    ],
    ids=["one-pays-for-all", "none-pays"],
)
def test_a_kernel_that_does_not_throttle_threads_deviates(kernel, knobs, tmp_path):
    name = "test_each_thread_waits_for_its_own_charges"

    assert findings_of(kernel, name, "v1.22", tmp_path) == knobs


@pytest.mark.parametrize(
    ("waits", "verdict"), [((1e6, 5e5, 5e5), Verdict.CONFORMS), ((1e6, 5e5, 499_999.0), Verdict.DEVIATES)]
)
def test_a_thread_waits_for_a_second_in_all_steps_together(waits, verdict):
    line = {"event": "step", "ms": 1, "command": 1, "verb": "anon", "id": 1, "bytes": 1, "of": 9}
    lines = [{**line, "max_us": wait, "thread": thread} for wait, thread in zip(waits, (1, 2, 2), strict=True)]
    one = course(sample(files(), report="".join(f"{json.dumps(each)}\n" for each in lines)))

    assert Course(dataclasses.replace(one.observed, threads=2)).throttling.each_thread_waits().verdict is verdict
    assert one.throttling.each_thread_waits().why_not == "the program has one thread"


def test_several_threads_may_grow_as_fast_as_so_many_tasks():
    """From 10 % above on a task sleeps for some 0.64 s: in 10 s one takes 16 batches at most, and four take 64."""
    high = Bytes(20 << 20)
    start, end = 22 << 20, (22 << 20) + 24 * (256 << 10)
    slow, fast = (
        furthest([(0.0, start), (10.0, end)], high.count, page_size=4096, threads=threads) for threads in (1, 4)
    )

    assert slow.usage > slow.allowed
    assert fast.usage < fast.allowed


@pytest.mark.parametrize("factor", ["0.4", "0.6", "0.8", "0.9"])
def test_a_kernel_without_throttling_deviates_at_every_factor(factor, tmp_path):
    name = "test_growth_is_slow_above_the_memory_high_of_each_factor"

    assert "memory.events" in findings_of(Unthrottled(), name, "v1.27", tmp_path, factor=factor)


def test_a_stall_that_leaves_a_task_working_deviates(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.unit.node.memory.STALLED", "some avg10=9.00 avg60=9.00 avg300=9.00 total=900000\n"
                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")  # fmt: skip
    bench = MemoryBench()
    name = "test_the_whole_container_stalls"

    assert findings_of(bench, name, "v1.22", tmp_path) == {"memory.pressure"}


@pytest.mark.parametrize(
    ("test", "ignores", "knobs"),
    [
        (("protection", "test_page_cache_protected_up_to_the_limit_kills", "v1.36-tiered"), "memory.min",
         {"memory.events", "exit code"}),
        (("protection", "test_page_cache_below_a_bare_scope_is_reclaimed_at_the_pods_limit", "v1.27"), "",
         {"memory.events", "report", "state"}),
        (("limits", "test_memory_peak_keeps_the_maximum", "v1.37-default"), "peak", {"memory.peak"}),
        (("limits", "test_memory_peak_keeps_the_maximum", "v1.37-default"), "free", {"memory.current"}),
        (("limits", "test_memory_of_an_exited_program_is_uncharged", "v1.37-default"), "ending", {"memory.current"}),
        (("limits", "test_a_limit_below_usage_reclaims_page_cache", "v1.37-default"), "lowering", {"memory.current"}),
    ],
)  # fmt: skip
def test_a_kernel_with_wrong_limits_deviates_there(test, ignores, knobs, tmp_path):
    chapter_name, name, kubelet = test
    evidence, notes = evidence_in(tmp_path)
    with contextlib.suppress(NonconformanceError):
        function = getattr(chapter(chapter_name), name)
        node = MemoryBench(ignores=ignores).node
        given = {"qos_node": node, "qos_kubelet": KUBELETS[kubelet], "qos_catalog": CATALOGUE, "qos_evidence": evidence}
        called(function, given)

    assert {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES} == knobs


class KillsForWhatIsDirty(MemoryBench):
    """Its kernel kills for a lowered limit while page cache waits for the disk, and its runtime finds the cgroup gone.

    writes: whether `sync` gets anything to the disk. dies: whether it was the container after all.
    """

    def __init__(self, *, writes=False, dies=True):
        super().__init__()
        self.written, self.dies = False, dies
        self.target.on(("sync",), lambda *_: (0, b"", b"") if not writes else self._write())

    def _write(self):
        self.written = True
        return 0, b"", b""

    def move(self, container, resources, *, deadline):
        if self.written:
            super().move(container, resources, deadline=deadline)
            return
        if self.dies:
            self.count_kill(self.runtime.cgroup_of(container))
            self.runtime.finish(container, exit_code=137, reason="OOMKilled")
        raise RuntimeCallError("no such file or directory.")


def lowered(bench, folder):
    """The deviating findings of the test of a limit that is lowered below usage."""
    evidence, notes = evidence_in(folder)
    with contextlib.suppress(NonconformanceError):
        chapter("limits").test_a_limit_below_usage_reclaims_page_cache(
            bench.node, KUBELETS["v1.37-default"], CATALOGUE, evidence
        )
    return {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES}


def test_page_cache_is_on_the_disk_before_a_limit_is_lowered_below_it(tmp_path):
    assert lowered(KillsForWhatIsDirty(writes=True), tmp_path) == set()


def test_a_container_killed_by_its_lowered_limit_is_a_finding(tmp_path):
    assert lowered(KillsForWhatIsDirty(), tmp_path) >= {"memory.events", "state"}


def test_what_rests_on_a_limit_that_the_runtime_refuses_to_lower_is_not_observable(tmp_path):
    evidence, notes = evidence_in(tmp_path)
    with pytest.raises(pytest.skip.Exception, match=r"memory\.max of .* could not be requested: no such file"):
        chapter("limits").test_a_limit_below_usage_reclaims_page_cache(
            KillsForWhatIsDirty(dies=False).node, KUBELETS["v1.37-default"], CATALOGUE, evidence
        )

    said = {(one.knob, one.verdict) for one in notes.findings}
    assert ("memory.current", Verdict.NOT_OBSERVABLE) in said
    assert Verdict.DEVIATES not in {verdict for _, verdict in said}


@pytest.mark.parametrize("kind", ["file", "tmpfs"])
def test_a_kernel_that_loses_the_files_of_an_ended_program_deviates(kind, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    function = chapter("limits").test_files_of_an_exited_program_stay_charged
    with contextlib.suppress(NonconformanceError):
        function(MemoryBench(ignores="ending").node, KUBELETS["v1.37-default"], CATALOGUE, evidence, kind)

    assert {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES} == {"memory.current"}


def test_half_of_zero_is_no_limit_and_only_files_are_left():
    watched = MemoryBench().node.watched(
        CATALOGUE.pod("holds-small"), KUBELETS["v1.37-default"], rests_on=chapter("limits").PREMISES
    )
    with watched as container:
        with pytest.raises(UsageError, match="no command leaves a 'socket'"):
            container.leave_a_third("socket")
        container.samples.clear()
        with pytest.raises(UsageError, match="uses no memory, so half of its usage cannot be a limit"):
            container.halve_limit()


class EnteredBench(MemoryBench):
    """Answers an exec with its program's sleep, of 5 s: in the stalling container, and in the other one."""

    def __init__(self, slow, quick="3", **facts):
        super().__init__(**facts)
        self.took = slow, quick

    def _run_beside(self, container, *_, **__):
        ms = self.took[container.name == "beside"]
        if ms == "late":
            raise DeadlineError("no answer.", data={})
        if ms == "kills":
            self.count_kill(self.runtime.cgroup_of(container))
            ms = "0"
        if ms == "refused":
            raise RuntimeCallError("no such process.")
        done = {"event": "done", "ms": 5000, "command": 1, "verb": "anon", "id": 1, "bytes": 8192, "max_us": 1}
        done |= {} if ms == "unknown" else {"slept_ms": float(ms)}
        return 0, f"{json.dumps(done)}\n{{".encode(), b""


@pytest.mark.parametrize(
    ("slow", "quick", "verdict", "words"),
    [
        ("160", "3", Verdict.CONFORMS, "slept 0.160 s of 5.000 s for 8192 bytes; below memory.high it slept 0.003 s"),
        ("159", "3", Verdict.DEVIATES, "slept 0.159 s of 5.000 s for 8192 bytes; below memory.high it slept 0.003 s"),
        ("4000", "160", Verdict.NOT_OBSERVABLE, "slept 0.160 s of 5.000 s for 8192 bytes where nothing is above"),
        (
            "late",
            "3",
            Verdict.NOT_OBSERVABLE,
            "s (the runtime's own program is slowed too) where something is above memory.high",
        ),
        (
            "4000",
            "late",
            Verdict.NOT_OBSERVABLE,
            "s (the runtime's own program is slowed too) where nothing is",
        ),
        ("4000", "unknown", Verdict.NOT_OBSERVABLE, "does not report how long a program waited for a CPU"),
        ("unknown", "3", Verdict.NOT_OBSERVABLE, "does not report how long a program waited for a CPU"),
        ("refused", "3", Verdict.NOT_OBSERVABLE, "did not finish where something is above memory.high"),
        ("kills", "3", Verdict.NOT_OBSERVABLE, "a process in its pod was killed meanwhile"),
    ],
)
def test_a_second_program_is_slow_in_a_throttled_container(slow, quick, verdict, words, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    function = STALLING.test_a_program_started_in_a_throttled_container_is_slow
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        called(function, fixtures(EnteredBench(slow, quick), "v1.22", evidence))
    [found] = [one for one in notes.findings if one.knob == "memory.pressure"]

    assert found.verdict is verdict
    assert words in (found.why_not or found.observed)


def thrashing(*looks):
    """A container whose memory.stat shows anonymous memory and major faults in each sample."""
    return course(*(
        sample(files(memory_stat=f"anon {anon}\nfile 0\npgmajfault {faulted}\n"), at=float(at))
        for at, (anon, faulted) in enumerate(looks)
    ))  # fmt: skip


MIB = 1 << 20


def test_text_thrashes_if_anon_is_constant_while_major_faults_grow():
    """As on 6.12: anon 33,452,032 from the second look on, pgmajfault from 49 by 10 to 18 a second."""
    found = thrashing((16 * MIB, 5), (33452032, 49), (33452032, 62), (33452032, 80)).throttling.thrashes_its_text()
    assert found.verdict is Verdict.CONFORMS
    assert found.observed == "anon from 33452032 to 33452032 while pgmajfault grew by 31"
    little = thrashing((33452032, 5), (33452032 + 4 * 4096, 40), (33452032, 80)).throttling.thrashes_its_text()
    assert little.verdict is Verdict.CONFORMS


@pytest.mark.parametrize(
    ("looks", "observed"),
    [
        # A kernel that keeps text: the program grows, 1 MiB a sample.
        (
            [(MIB * number, 20 * number) for number in range(1, 9)],
            "anon from 8388608 to 8388608 while pgmajfault grew by 0",
        ),
        # One that stops for another reason has no faults.
        ([(MIB, 5)] * 9, "anon from 1048576 to 1048576 while pgmajfault grew by 0"),
        # A page for each sample is growth, however slow.
        (
            [(MIB + 4096 * number, number) for number in range(100)],
            "anon from 1437696 to 1454080 while pgmajfault grew by 4",
        ),
    ],
    ids=["grows", "faults nothing in", "creeps"],
)
def test_a_program_that_grows_or_has_no_faults_does_not_thrash(looks, observed):
    found = thrashing(*looks).throttling.thrashes_its_text()
    assert (found.verdict, found.observed) == (Verdict.DEVIATES, observed)


def test_thrashing_is_not_observable_without_memory_stat():
    assert course(sample(files())).throttling.thrashes_its_text().verdict is Verdict.NOT_OBSERVABLE


def counting(*values):
    return course(*(sample(events(high=value), at=float(at)) for at, value in enumerate(values)))


def tries(a_pass, *, count=60):
    """The values of a counter that grows by so many in a pass; every second sample falls within a pass."""
    within = max(a_pass - 1, 1)
    return [number * a_pass + (number * 5 % within if number % 2 else 0) for number in range(1, count)]


def test_passes_count_seventeen():
    assert counting(*tries(17)).throttling.counts_passes().verdict is Verdict.CONFORMS
    assert counting(*tries(34)).throttling.counts_passes().verdict is Verdict.CONFORMS
    # One successful reclaim shifts all later values.
    moved = [value + 3 * (number > 20) for number, value in enumerate(tries(17))]
    assert counting(*moved).throttling.counts_passes().verdict is Verdict.CONFORMS


@pytest.mark.parametrize("a_pass", [6, 16, 18, 33])
def test_a_kernel_that_tries_another_number_of_times_deviates(a_pass):
    found = counting(*tries(a_pass)).throttling.counts_passes()
    assert found.verdict is Verdict.DEVIATES
    assert found.observed.startswith("multiples of ")


def test_samples_within_passes_only_are_undecided():
    found = counting(*range(1, 60)).throttling.counts_passes()
    assert found.verdict is Verdict.NOT_OBSERVABLE
    assert found.why_not == "the samples fell within passes: no remainder is more frequent than the others"


def test_passes_on_a_busy_host():
    """Values of a real run among others: 25 of 112 leave the same remainder by 17, where chance gives seven."""
    values, at = [], 0
    for number in range(112):
        at += 17 - at % 17 if number % 5 == 0 else 1 + number * 7 % 11
        values.append(at)
    assert counting(*values).throttling.counts_passes().verdict is Verdict.CONFORMS


def test_too_few_values_of_the_counter_are_undecided():
    found = counting(*tries(17, count=30)).throttling.counts_passes()
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "only 29 of 40 values of high were seen")
    assert counting(0).throttling.counts_passes().verdict is Verdict.NOT_OBSERVABLE


def test_waiting_for_major_faults():
    condition = faults()
    enough, few = (sample(files(memory_stat=f"pgmajfault {count}\n")) for count in (40, 39))
    assert (condition.holds(enough), condition.holds(few), condition.holds(sample(files()))) == (True, False, False)
    assert condition.name == "memory.stat pgmajfault reaches 40"
    assert "pgmajfault 39 in " in condition.shows(few)
    assert "(not there)" in condition.shows(sample(files()))


@pytest.mark.parametrize("knob", [Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX])
def test_thrashing_and_passes_rest_on_their_knobs(knob):
    """While a knob is not as planned, the knob deviates, and the behaviour is not observable."""
    wrong = {knob.replace(".", "_"): "4096\n"}
    looks = [
        sample(
            files(
                memory_stat=f"anon 4096\npgmajfault {5 * at}\n",
                memory_events=EVENTS.format(high=17 * at, oom_kill=0),
                **wrong,
            ),
            at=float(at),
        )
        for at in range(1, 60)
    ]
    found = course(*looks, rests_on=(Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX))
    assert {one.knob for one in found.premises if one.verdict is Verdict.DEVIATES} == {knob}
    assert found.throttling.thrashes_its_text().verdict is Verdict.NOT_OBSERVABLE
    assert found.throttling.counts_passes().verdict is Verdict.NOT_OBSERVABLE
