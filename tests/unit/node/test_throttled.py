"""The throttling chapter on kernels in miniature that are wrong in one point: each is named by a deviation."""

import contextlib
import json

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import DeadlineError, NonconformanceError, RuntimeCallError, UsageError
from memqos.node import watching
from tests.unit.node.chapters import CATALOGUE, KUBELETS, chapter, evidence_in
from tests.unit.node.memory import PAGE, UNBOUNDED, MemoryBench

MODULE = chapter("throttling")


class NoPodHigh(MemoryBench):
    """Its kernel heeds the memory.high of containers alone."""

    def _high(self, path):
        return self._amount(path, "memory.high")


class CountsAlways(MemoryBench):
    """Its kernel counts `high` for every charge."""

    def _obey(self, fifo, line):
        super()._obey(fifo, line)
        self._count_high(self.runtime._known(self.steered[fifo], "test").cgroup)


class Unswapping(MemoryBench):
    """Its kernel swaps nothing out, as with swappiness 0."""

    def _on_v2(self, path, anon, file):
        limit = self.cgroups.text(path, "memory.swap.max")
        self.cgroups.show(path, "memory.swap.max", "0\n")
        killed = super()._on_v2(path, anon, file)
        self.cgroups.show(path, "memory.swap.max", limit)
        return killed


class Unthrottled(MemoryBench):
    """Its kernel heeds no memory.high, or somebody puts it back to max between two looks."""

    def _high(self, _):
        return UNBOUNDED


class Early(MemoryBench):
    """Its kernel takes half of a memory.high for the whole."""

    def _high(self, path):
        high = super()._high(path)
        return high if high == UNBOUNDED else high // 2 // PAGE * PAGE


def findings_of(bench, name, kubelet, folder, **given):
    evidence, notes = evidence_in(folder)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever ends a test of a suite
        getattr(MODULE, name)(bench.node, KUBELETS[kubelet], CATALOGUE, evidence, **given)
    return {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.waiting.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watching, "WATCH_SECONDS", 5.0)


@pytest.mark.parametrize(
    ("kernel", "name", "kubelet", "knobs"),
    [
        (NoPodHigh, "test_a_pod_level_memory_high_slows_every_program_of_the_pod", "v1.37-tiered", {"memory.events"}),
        (CountsAlways, "test_a_program_that_frees_in_time_is_slowed_no_more", "v1.22", {"memory.events"}),
        (Unthrottled, "test_a_program_that_frees_in_time_is_slowed_no_more", "v1.22", {"memory.events"}),
        (
            Unswapping,
            "test_memory_that_may_be_swapped_makes_room_above_memory_high",
            "v1.36-none",
            {"memory.events", "memory.swap.current", "report"},
        ),
        (
            Unthrottled,
            "test_a_low_factor_stalls_with_the_formula_of_1_27_too",
            "v1.27",
            {"memory.events", "memory.pressure", "state"},
        ),
        (Early, "test_a_factor_of_one_slows_nothing", "v1.27", {"memory.events", "exit code"}),
    ],
)
def test_a_kernel_that_is_wrong_in_one_point_deviates_there(kernel, name, kubelet, knobs, tmp_path):
    assert findings_of(kernel(), name, kubelet, tmp_path) == knobs


@pytest.mark.parametrize("factor", ["0.4", "0.6", "0.8"])
def test_a_kernel_that_throttles_nothing_deviates_at_every_factor(factor, tmp_path):
    name = "test_growth_is_slow_from_where_the_factor_puts_memory_high"

    assert "memory.events" in findings_of(Unthrottled(), name, "v1.27", tmp_path, factor=factor)


def test_a_stall_that_leaves_somebody_working_deviates(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.unit.node.memory.STALLED", "some avg10=9.00 avg60=9.00 avg300=9.00 total=900000\n"
                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")  # fmt: skip
    bench = MemoryBench()
    name = "test_the_stall_is_one_of_the_whole_container"
    monkeypatch.setattr(MODULE, "rises", lambda file, _: MODULE.stalls() if file == "memory.pressure" else None)

    assert findings_of(bench, name, "v1.22", tmp_path) == {"memory.pressure"}


@pytest.mark.parametrize(
    ("test", "ignores", "knobs"),
    [
        (("protection", "test_page_cache_that_is_protected_up_to_the_limit_kills", "v1.36-tiered"), "memory.min",
         {"memory.events", "exit code"}),
        (("limits", "test_the_peak_outlives_the_memory", "v1.37-default"), "peak", {"memory.peak"}),
        (("limits", "test_the_peak_outlives_the_memory", "v1.37-default"), "free", {"memory.current"}),
        (("limits", "test_a_program_that_ended_is_charged_no_more", "v1.37-default"), "ending", {"memory.current"}),
        (("limits", "test_a_limit_below_usage_takes_page_cache", "v1.37-default"), "lowering", {"memory.current"}),
    ],
)  # fmt: skip
def test_a_kernel_that_is_wrong_about_limits_deviates_there(test, ignores, knobs, tmp_path):
    chapter_name, name, kubelet = test
    evidence, notes = evidence_in(tmp_path)
    with contextlib.suppress(NonconformanceError):
        function = getattr(chapter(chapter_name), name)
        function(MemoryBench(ignores=ignores).node, KUBELETS[kubelet], CATALOGUE, evidence)

    assert {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES} == knobs


@pytest.mark.parametrize("kind", ["file", "tmpfs"])
def test_a_kernel_that_forgets_the_files_of_who_ended_deviates(kind, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    function = chapter("limits").test_files_of_a_program_that_ended_stay_charged
    with contextlib.suppress(NonconformanceError):
        function(MemoryBench(ignores="ending").node, KUBELETS["v1.37-default"], CATALOGUE, evidence, kind)

    assert {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES} == {"memory.current"}


def test_half_of_nothing_is_no_limit_and_no_program_leaves_what_is_no_file():
    watched = MemoryBench().node.watched(
        CATALOGUE.pod("holds-small"), KUBELETS["v1.37-default"], rests_on=chapter("limits").PREMISES
    )
    with watched as container:
        with pytest.raises(UsageError, match="no program leaves a 'socket'"):
            container.leave_a_third("socket")
        container.samples.clear()
        with pytest.raises(UsageError, match="uses no memory, of which half could be its limit"):
            container.halve_limit()


ENTERING = chapter("throttling", "entering")


class EnteredBench(MemoryBench):
    """Answers an exec with how long its program took: in the container that stalls, and in the one beside it."""

    def __init__(self, slow, quick="3", **facts):
        super().__init__(**facts)
        self.took = slow, quick

    def _run_beside(self, container, *_, **__):
        ms = self.took[container.name == "beside"]
        if ms == "late":
            raise DeadlineError("no answer.", data={})
        if ms == "kills":
            self._count_kill(self.runtime._known(container, "test").cgroup)
            ms = "0"
        if ms == "refused":
            raise RuntimeCallError("no such process.")
        done = {"event": "done", "ms": int(ms), "command": 1, "verb": "anon", "id": 1, "bytes": 262144, "max_us": 1}
        return 0, f"{json.dumps(done)}\n{{".encode(), b""


@pytest.mark.parametrize(
    ("slow", "quick", "verdict", "words"),
    [
        ("9000", "3", Verdict.CONFORMS, "9.0 s, beside 0.003 s undisturbed"),
        ("late", "3", Verdict.CONFORMS, "not done after"),
        ("4", "3", Verdict.DEVIATES, "0.0 s, beside 0.003 s undisturbed"),
        ("9000", "8000", Verdict.NOT_OBSERVABLE, "took 8.0 s where nothing is above memory.high"),
        ("refused", "3", Verdict.NOT_OBSERVABLE, "as one that is killed does"),
        ("kills", "3", Verdict.NOT_OBSERVABLE, "something was killed in its pod meanwhile"),
    ],
)
def test_a_program_is_slow_in_a_container_that_is_throttled(slow, quick, verdict, words, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    function = ENTERING.test_a_program_that_is_started_in_a_throttled_container_is_slow
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(EnteredBench(slow, quick).node, KUBELETS["v1.22"], CATALOGUE, evidence)
    [found] = [one for one in notes.findings if one.knob == "memory.pressure"]

    assert found.verdict is verdict
    assert words in (found.why_not or found.observed)
