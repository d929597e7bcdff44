"""The protection suite on a small kernel model: right ones conform, wrong ones and wrong runtimes do not."""

import contextlib
import inspect
from dataclasses import replace

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.engine.cgroup.effective_protection import Effective
from memqos.errors import NonconformanceError, UsageError
from memqos.model.knob import MAX, Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.node.behaviour.neighbour_demand import Aim
from tests.unit.node.chapters import KUBELETS, cases, chapter, evidence_in, pods
from tests.unit.node.fakes import FACTS
from tests.unit.node.pressed import MOUNTED, PressedBench

MODULE = chapter("protection")
CASES = [case for case in cases(MODULE) if "full" in inspect.signature(case.values[0]).parameters]


@contextlib.contextmanager
def full(bench, kubelet):
    with bench.node.watched_pods(
        pods(*MODULE.PODS), bench.node.tight(kubelet), rests_on=MODULE.PREMISES, steered=True
    ) as watch:
        yield watch


def findings_of(function, kubelet, folder, bench):
    evidence, notes = evidence_in(folder)
    with full(bench, kubelet) as watch, contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(watch, evidence)
    return notes.findings


MIB = 1 << 20


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_protection_conforms_if_reclaim_respects_it(function, kubelet, tmp_path):
    findings = findings_of(function, kubelet, tmp_path, PressedBench())

    assert {one.knob for one in findings} >= {"memory.current", "memory.min", "memory.low"}
    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


@pytest.mark.parametrize(
    ("name", "kubelet", "ignores", "pods"),
    [
        ("test_memory_min_protects_every_request", "v1.27", "memory.min", {"kept-guaranteed", "kept-burstable"}),
        ("test_both_tiers_are_kept_while_unprotected_memory_is_left", "v1.36-tiered", "memory.low", {"kept-burstable"}),
        (
            "test_both_tiers_are_kept_while_unprotected_memory_is_left",
            "v1.37-tiered",
            "memory.min",
            {"kept-guaranteed"},
        ),
        # What it takes from the one it need not take from the other.
        (
            "test_memory_low_gives_way_when_nothing_else_is_left",
            "v1.36-tiered",
            "memory.min",
            {"kept-guaranteed", "kept-burstable"},
        ),
    ],
)
def test_a_kernel_that_ignores_a_protection_deviates(name, kubelet, ignores, pods, tmp_path):
    findings = findings_of(getattr(MODULE, name), KUBELETS[kubelet], tmp_path, PressedBench(ignores=ignores))
    lost = [one for one in findings if one.verdict is Verdict.DEVIATES and one.knob == "memory.current"]

    assert {str(one.subject).rpartition("/")[2] for one in lost} == pods
    assert all("memory.min" in one.reason.rule for one in lost)


class Drains(PressedBench):
    """At its first reclaim it returns this many pages that its CPUs had charged ahead for each container."""

    def __init__(self, pages):
        super().__init__()
        self.pages = pages

    def obey(self, fifo, line):
        super().obey(fifo, line)
        for path in map(self.path_of, self.steered.values() if line.startswith("anon") else ()):
            self.use(path, self.amount_in(path, "memory.current") - 4096 * self.pages)


@pytest.mark.parametrize(("pages", "expected"), [(128, Verdict.CONFORMS), (129, Verdict.DEVIATES)])
def test_what_two_cpus_charged_ahead_may_be_missing_and_no_more(pages, expected, tmp_path):
    name = "test_memory_min_protects_every_request"
    findings = findings_of(getattr(MODULE, name), KUBELETS["v1.27"], tmp_path, Drains(pages))
    kept = [one for one in findings if str(one.subject).endswith("/kept-burstable") and one.knob == "memory.current"]

    assert [one.verdict for one in kept] == [expected]
    assert kept[0].expected == "at least 49807360 (50331648 before, less 262144 for each CPU)"


def test_a_loss_within_the_charges_ahead_is_not_observable(tmp_path):
    """On 97 CPUs that is more than half of 48 MiB."""
    name = MODULE.test_memory_min_protects_every_request
    findings = findings_of(name, KUBELETS["v1.27"], tmp_path, PressedBench(node=replace(FACTS, cpus=97)))

    assert {one.why_not for one in findings if one.knob == "memory.current"} == {
        "of 50331648 bytes in use, 97 CPUs may have charged 25427968 ahead"
    }


@pytest.mark.parametrize(("pages", "expected"), [(128, Verdict.CONFORMS), (129, Verdict.DEVIATES)])
def test_what_is_protected_is_not_read_again_but_for_a_batch_of_each_cpu(pages, expected, tmp_path):
    """A kernel that replaces reclaimed pages by others shows the same memory.current."""
    wrong = PressedBench()
    read_again = wrong.read_again
    wrong.read_again = lambda path: (read_again(path), wrong.count_again(path, 0 if wrong.lost[path] else pages))
    findings = findings_of(MODULE.test_memory_min_protects_every_request, KUBELETS["v1.27"], tmp_path, wrong)
    read = [one for one in findings if one.knob == "memory.stat" and "at most" in one.expected]

    assert [one.verdict for one in read] == [expected] * 2
    assert {one.expected for one in read} == {"workingset_refault_file at most 128 pages (2 times a batch of 64)"}


def test_what_was_lost_is_read_again(tmp_path):
    forgetful = PressedBench()
    forgetful.read_again = lambda _: None
    findings = findings_of(
        MODULE.test_without_a_policy_every_class_loses_page_cache, KUBELETS["v1.36-none"], tmp_path, forgetful
    )

    deviating = [(one.knob, one.observed) for one in findings if one.verdict is Verdict.DEVIATES]
    assert deviating == [("memory.stat", "workingset_refault_file 0")] * 3


class ReadsElsewhere(PressedBench):
    """Pages from node 1 come back on node 0, where its kernel does not count them: kept pages, too."""

    def __init__(self, *, kept_pages):
        super().__init__()
        self.kept_pages = kept_pages

    def use(self, path, usage):
        super().use(path, usage)
        self.cgroups.show(path, "memory.numa_stat", f"anon N0=0 N1=0\nfile N0=0 N1={usage}\n")

    def read_again(self, path):
        left, back = self.amount_in(path, "memory.current"), self.lost[path] or 4096 * self.kept_pages
        self.cgroups.show(path, "memory.numa_stat", f"file N0={back} N1={left}\n")


@pytest.mark.parametrize(
    ("kept_pages", "unsure"), [(0, set()), (128, set()), (129, {"kept-guaranteed", "kept-burstable"})]
)
def test_a_page_returning_on_another_node_may_be_uncounted(kept_pages, unsure, tmp_path):
    bench = ReadsElsewhere(kept_pages=kept_pages)
    findings = findings_of(MODULE.test_memory_min_protects_every_request, KUBELETS["v1.27"], tmp_path, bench)
    uncounted = {str(one.subject).rpartition("/")[2]: one.why_not for one in findings if one.why_not}

    assert {one.verdict for one in findings} == {Verdict.CONFORMS, Verdict.NOT_OBSERVABLE}
    assert uncounted.keys() == {"unguarded"} | unsure
    assert uncounted["unguarded"] == (
        "a page that returns on another NUMA node may not be counted: 25165824 bytes more on N0"
    )


def test_what_is_counted_beyond_the_batches_deviates_wherever_the_rest_came_back(tmp_path):
    bench = ReadsElsewhere(kept_pages=129)
    read_again = bench.read_again
    bench.read_again = lambda path: (read_again(path), bench.count_again(path, 129))
    findings = findings_of(MODULE.test_memory_min_protects_every_request, KUBELETS["v1.27"], tmp_path, bench)

    assert {str(one.subject).rpartition("/")[2] for one in findings if one.verdict is Verdict.DEVIATES} == {
        "kept-guaranteed",
        "kept-burstable",
    }


class WaitsForTheDisk(PressedBench):
    """Before others' writes are on the disk it takes bytes that memory.low covers. counts: whether it counts that."""

    def __init__(self, *, counts, takes=2 << 20):
        super().__init__()
        self.counts, self.takes = counts, takes

    def obey(self, fifo, line):
        super().obey(fifo, line)
        for path in map(self.path_of, self.steered.values()):
            if self.asks_for(path, "memory.low"):
                self.use(path, self.amount_in(path, "memory.current") - self.takes)
                if self.counts:
                    self.count_low(path)


@pytest.mark.parametrize(
    ("name", "counts", "expected"),
    [
        ("test_dirty_page_cache_is_protected_like_clean", True, Verdict.NOT_OBSERVABLE),
        ("test_dirty_page_cache_is_protected_like_clean", False, Verdict.DEVIATES),
        ("test_both_tiers_are_kept_while_unprotected_memory_is_left", True, Verdict.DEVIATES),
    ],
)
def test_memory_low_that_gave_way_is_undecided_only_with_dirty_neighbours(name, counts, expected, tmp_path):
    """And only if the kernel counts that it did."""
    kubelet = KUBELETS["v1.36-tiered"]
    findings = findings_of(getattr(MODULE, name), kubelet, tmp_path, WaitsForTheDisk(counts=counts))
    lost = [
        one
        for one in findings
        if str(one.subject).endswith("/kept-burstable") and one.knob == "memory.current" and "at least" in one.expected
    ]

    assert [one.verdict for one in lost] == [expected]
    if expected is Verdict.NOT_OBSERVABLE:
        assert lost[0].why_not == "nothing else was reclaimable while the others' writes waited for the disk: low 3"


def test_what_was_kept_though_memory_low_gave_way_was_kept(tmp_path):
    """The kernel counts `low` before it looks for a reclaimable page, and may find none."""
    bench = WaitsForTheDisk(counts=True, takes=0)
    findings = findings_of(
        MODULE.test_dirty_page_cache_is_protected_like_clean, KUBELETS["v1.36-tiered"], tmp_path, bench
    )

    [kept] = [one for one in findings if str(one.subject).endswith("/kept-burstable") and one.knob == "memory.current"
              and "at least" in one.expected]  # fmt: skip
    assert kept.verdict is Verdict.CONFORMS


class KillsTheNeighbour(PressedBench):
    """A program that wants more than the rest is killed for it."""

    def obey(self, fifo, _):
        self.runtime.finish(self.steered[fifo], exit_code=137, reason="OOMKilled")


def test_memory_kept_from_an_early_ended_neighbour_proves_nothing(tmp_path):
    """That nothing was reclaimed for it is still a deviation."""
    function = MODULE.test_memory_min_protects_every_request
    findings = findings_of(function, KUBELETS["v1.27"], tmp_path, KillsTheNeighbour())

    usage = {(str(one.subject).rpartition("/")[2], one.why_not): one.verdict for one in findings
             if one.knob == "memory.current"}  # fmt: skip
    ended = "aggressor/app ended before it had made the others short of memory"
    assert usage == {
        ("kept-guaranteed", ended): Verdict.NOT_OBSERVABLE,
        ("kept-burstable", ended): Verdict.NOT_OBSERVABLE,
        ("unguarded", ""): Verdict.DEVIATES,
    }


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_neighbour_protected_by_mistake_is_the_deviation(function, kubelet, tmp_path):
    """Then no behaviour is judged: protection of one is missing for the others."""
    findings = findings_of(function, kubelet, tmp_path, PressedBench((Knob.MEMORY_MIN, "33554432\n")))

    deviating = {one.knob for one in findings if one.verdict is Verdict.DEVIATES}
    assert deviating == {"memory.min"}
    behaviours = [one for one in findings if one.knob == "memory.current"]
    assert {one.verdict for one in behaviours} == {Verdict.NOT_OBSERVABLE}
    assert all("does not hold: memory.min of container" in one.why_not for one in behaviours)


@pytest.mark.parametrize("above", ["kubepods.slice", "kubepods.slice/kubepods-besteffort.slice"])
@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_class_protected_by_mistake_is_the_deviation(function, kubelet, above, tmp_path):
    """Each pod's own files are as planned, and still those below it lack protection that the others have."""
    bench = PressedBench()
    obey = bench.sampler.obeys

    def protect_and_obey(fifo, line):
        bench.cgroups.show(CgroupPath.parse(f"/{above}"), "memory.min", "33554432\n")
        obey(fifo, line)

    bench.sampler.obeys = protect_and_obey
    findings = findings_of(function, kubelet, tmp_path, bench)

    [deviating] = [one for one in findings if one.verdict is Verdict.DEVIATES]
    assert (deviating.knob, deviating.cgroup, deviating.observed) == ("memory.min", f"/{above}", "33554432")
    assert {one.verdict for one in findings if one.knob == "memory.current"} == {Verdict.NOT_OBSERVABLE}


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_mount_that_loses_its_option_on_the_way_is_the_deviation(function, kubelet, tmp_path):
    """What the model says of protection goes by memory_recursiveprot, as it was when the node was looked at."""
    bench = PressedBench()
    obey = bench.sampler.obeys

    def remount_and_obey(fifo, line):
        bench.target.put("/proc/mounts", MOUNTED.replace(b",memory_recursiveprot", b""))
        obey(fifo, line)

    bench.sampler.obeys = remount_and_obey
    findings = findings_of(function, kubelet, tmp_path, bench)

    [deviating] = [one for one in findings if one.verdict is Verdict.DEVIATES]
    assert (deviating.knob, deviating.expected, deviating.observed) == ("memory_recursiveprot", "on", "off")
    behaviours = [one for one in findings if one.knob == "memory.current"]
    assert {one.why_not for one in behaviours} == {
        "a precondition does not hold: memory_recursiveprot of the cgroup file system is off, planned is on"
    }


def test_partly_protected_memory_is_not_expected_to_be_kept(tmp_path):
    with full(PressedBench(), KUBELETS["v1.36-none"]) as watch:
        pressure = watch.press("aggressor")

    kept, (broken, counted) = pressure.keeps("kept-guaranteed"), pressure.breaks_low("kept-burstable")
    assert kept.why_not == (
        "not all of it is protected: effective memory.min is 0 and memory.low 0 of 50331648 bytes in use"
    )
    assert broken.why_not.startswith("memory.low alone does not cover all of it")
    assert kept.measured
    assert counted.why_not == broken.why_not


def test_refaults_are_not_observable_unless_memory_was_read_again():
    """Since the pressure began: earlier reads do not count."""
    with full(PressedBench(), KUBELETS["v1.27"]) as watch:
        watch.read_again("kept-guaranteed", "unguarded")
        pressure = watch.press("aggressor")
        unread = [pressure.hardly_refaults("kept-guaranteed"), pressure.refaults("unguarded")]
        watch.read_again("kept-guaranteed", "unguarded")
        read = [pressure.hardly_refaults("kept-guaranteed"), pressure.refaults("unguarded")]

    assert {one.why_not for one in unread} == {"it has not read its memory again"}
    assert [one.verdict for one in read] == [Verdict.CONFORMS] * 2


def test_what_something_else_can_lose_is_reached_past_all_that_pods_can(tmp_path):
    with full(PressedBench(), KUBELETS["v1.27"]) as watch:
        pressure = watch.press("aggressor", outside_pods=40 << 20)

    assert pressure.squeeze.short == (48 << 20) + (20 << 20)


def test_what_is_protected_is_not_expected_to_give_way(tmp_path):
    with full(PressedBench(), KUBELETS["v1.27"]) as watch:
        pressure = watch.press("aggressor")

    given_way = pressure.gives_way("kept-guaranteed")
    assert given_way.why_not.startswith("more than half of it is protected: effective memory.min is ")
    assert given_way.measured
    # The unprotected memory is 48 MiB in one pod: kubepods lacks half of it.
    assert pressure.squeeze.short == 24 << 20
    assert pressure.squeeze.takes == (256 << 20) - 3 * (48 << 20) + (24 << 20)


def test_a_small_node_cannot_be_made_tight():
    bench = PressedBench()
    small = bench.node.facts.__class__(memory=256 << 20)
    bench.node.facts = small

    with pytest.raises(UsageError, match=r"cannot make a node with .* short of it"):
        bench.node.tight(KUBELETS["v1.27"])


@pytest.mark.parametrize(
    ("aim", "short"),
    [
        (Aim(), 44 * MIB),
        (Aim(all_lose=True), 66 * MIB),
        (Aim(past_low=True), 104 * MIB),
        (Aim(outside_pods=40 * MIB), 108 * MIB),
        (Aim(short=7 * MIB), 7 * MIB),
    ],
    ids=["half", "all_lose", "past_low", "besides", "short"],
)
def test_the_shortage_depends_on_what_others_can_lose(aim, short):
    """88 MiB unprotected in two of them, and 32 MiB that memory.low alone protects in a third."""
    others = [
        Effective(usage=48 * MIB, min=Bytes(0), low=Bytes(0)),
        Effective(usage=48 * MIB, min=Bytes(8 * MIB), low=Bytes(0)),
        Effective(usage=48 * MIB, min=Bytes(16 * MIB), low=MAX),
    ]

    assert aim.of(others) == short


def test_without_other_pods_nothing_can_be_lost():
    assert {Aim().of([]), Aim(all_lose=True).of([]), Aim(past_low=True).of([])} == {0}


@pytest.mark.parametrize(("names", "limit"), [([], 256 << 20), (["kept-burstable", "kept-less"], 136 << 20)])
def test_pods_have_little_more_than_their_programs_take_at_first(names, limit):
    """48 MiB and 24 MiB of page cache, and 64 MiB."""
    node, some = PressedBench().node, pods(*names)
    kubelet = node.tight(KUBELETS["v1.27"], some)

    assert node.plan(some, kubelet).node.knobs[Knob.MEMORY_MAX].value == Bytes(limit)
