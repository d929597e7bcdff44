"""Shortage of the whole machine on a small model of a kernel: right ones conform, wrong ones do not."""

import contextlib
import subprocess

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Verdict
from memqos.errors import EnvironmentNotAbleError, NonconformanceError
from memqos.node.behaviour import watch
from memqos.node.machine import shortage
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target.fake import FakeTarget
from tests.unit.node.chapters import KUBELETS, cases, chapter, evidence_in, pods
from tests.unit.node.pressed import PressedBench

WHOLE, CLASSIC = chapter("protection", "whole_node"), chapter("protection", "classic_lru")
CASES = [(one, True) for one in cases(WHOLE)] + [(one, False) for one in cases(CLASSIC)]
SPARE = 200 << 20
ENDED = 20 << 20


def bench(*, generations, **wrong):
    return PressedBench(spare=SPARE, generations=generations, **wrong)


def findings_of(function, kubelet, folder, node):
    evidence, notes = evidence_in(folder)
    with (
        node.scarce(),
        node.watched_pods(pods(*WHOLE.PODS), kubelet, rests_on=WHOLE.PREMISES, steered=True) as watch,
        contextlib.suppress(NonconformanceError, pytest.skip.Exception),
    ):
        function(watch.press("aggressor", whole_node=True, all_lose=True), evidence)
    return notes.findings


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "WATCH_SECONDS", 5.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 0.2)


@pytest.mark.parametrize(
    ("function", "kubelet", "generations"),
    [pytest.param(*case.values, generations, id=f"{case.id}-{generations}") for case, generations in CASES],
)
def test_protection_conforms_where_reclaim_begins_at_the_root(function, kubelet, generations, tmp_path):
    findings = findings_of(function, kubelet, tmp_path, bench(generations=generations).node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


@pytest.mark.parametrize(
    ("test", "kubelet", "ignores", "lost"),
    [
        ((WHOLE, "test_memory_min_protects_every_request_when_the_machine_is_short"), "v1.27", "memory.min",
         {"kept-guaranteed", "kept-burstable"}),
        ((WHOLE, "test_guaranteed_keeps_all_when_the_machine_is_short"), "v1.36-tiered", "memory.min",
         {"kept-guaranteed"}),
        ((WHOLE, "test_unprotected_page_cache_is_reclaimed_first_on_the_machine"), "v1.27", "memory.min",
         {"kept-guaranteed"}),
        ((CLASSIC, "test_memory_low_is_effective_if_kubepods_has_it"), "v1.37-tiered", "memory.low",
         {"kept-burstable"}),
    ],
)  # fmt: skip
def test_a_kernel_that_ignores_a_protection_deviates(test, kubelet, ignores, lost, tmp_path):
    module, name = test
    wrong = bench(generations=module is WHOLE, ignores=ignores)
    findings = findings_of(getattr(module, name), KUBELETS[kubelet], tmp_path, wrong.node)
    deviating = [one for one in findings if one.verdict is Verdict.DEVIATES]

    assert {str(one.subject).rpartition("/")[2] for one in deviating} == lost
    assert {one.knob for one in deviating} == {"memory.current"}


@pytest.mark.parametrize("module", [WHOLE, CLASSIC])
def test_a_kernel_that_applies_ineffective_protection_deviates(module, tmp_path):
    """Like one that applies memory.low of a container whatever kubepods has, and counts that it was broken."""
    wrong = bench(generations=False)
    wrong.protected = lambda path, knobs: max(wrong.amount_in(path, knob) for knob in knobs)
    name = {
        WHOLE: "test_memory_low_has_no_effect_without_kubepods",
        CLASSIC: "test_memory_low_has_no_effect_without_kubepods_under_the_classic_lru",
    }[module]
    findings = findings_of(getattr(module, name), KUBELETS["v1.36-tiered"], tmp_path, wrong.node)
    deviating = [one for one in findings if one.verdict is Verdict.DEVIATES]

    assert [(str(one.subject), one.knob) for one in deviating] == [
        ("container app of pod default/kept-burstable", "memory.events")
    ]


def test_a_kernel_that_protects_none_or_all_deviates_under_every_policy(tmp_path):
    wrong = bench(generations=True)
    wrong.protected = lambda path, _: wrong.amount_in(path, "memory.current")
    name = "test_without_a_policy_every_class_loses_page_cache_on_the_machine"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.36-none"], tmp_path, wrong.node)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"memory.current"}


def test_a_kernel_that_kills_instead_of_reclaiming_deviates(tmp_path):
    wrong = bench(generations=True)
    use = wrong.use

    def use_and_kill(path, usage):
        use(path, usage)
        wrong.count_kill(path)

    wrong.use = use_and_kill
    name = "test_nothing_is_killed_while_page_cache_can_be_reclaimed"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.36-none"], tmp_path, wrong.node)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"memory.events"}


@pytest.mark.parametrize(
    ("left", "verdict"),
    [(8192, Verdict.NOT_OBSERVABLE), (524288, Verdict.NOT_OBSERVABLE), (528384, Verdict.DEVIATES)],
)
def test_a_kill_breaks_no_rule_once_all_page_cache_that_may_be_taken_is_gone(left, verdict, tmp_path):
    """Each of three pods without protection has so much left, of which two CPUs may have charged 64 pages ahead."""
    short = bench(generations=True)
    use = short.use

    def use_and_kill(path, usage):
        use(path, usage)
        short.cgroups.show(path, "memory.numa_stat", f"anon N0=0\nfile N0={left if short.lost.get(path) else usage}\n")
        if short.taken and usage > 50331648:
            short.count_kill(path)

    short.use = use_and_kill
    name = "test_nothing_is_killed_while_page_cache_can_be_reclaimed"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.36-none"], tmp_path, short.node)
    [killed] = [one for one in findings if one.knob == "memory.events" and "aggressor" in str(one.subject)]

    assert killed.verdict is verdict
    assert (verdict is Verdict.NOT_OBSERVABLE) == (f"could still be reclaimed was {3 * left} bytes" in killed.why_not)


def test_the_multi_generational_lru_that_keeps_memory_low_deviates(tmp_path):
    wrong = bench(generations=True)
    wrong.generations = False
    name = "test_memory_low_is_reclaimed_by_the_multi_generational_lru"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.37-tiered"], tmp_path, wrong.node)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"memory.stat", "memory.events"}


@pytest.mark.parametrize(
    ("test", "kubelet"),
    [
        ((WHOLE, "test_without_a_policy_every_class_loses_page_cache_on_the_machine"), "v1.36-none"),
        ((WHOLE, "test_memory_low_has_no_effect_without_kubepods"), "v1.36-tiered"),
        ((CLASSIC, "test_memory_low_has_no_effect_without_kubepods_under_the_classic_lru"), "v1.36-tiered"),
    ],
)
@pytest.mark.parametrize("last_first", [False, True])
def test_every_pod_loses_memory_whichever_is_reclaimed_first(test, kubelet, last_first, tmp_path):
    module, name = test
    uneven = bench(generations=False, in_turn=True)
    if last_first:
        uneven.first = reversed
    findings = findings_of(getattr(module, name), KUBELETS[kubelet], tmp_path, uneven.node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


def test_a_scan_that_found_no_old_page_is_not_observable(tmp_path):
    """It counts a scan of memory that memory.low covers, and took none of it."""
    young = bench(generations=True)
    young.count_stolen = lambda path, _: PressedBench.count_stolen(young, path, 0)
    name = "test_memory_low_is_reclaimed_by_the_multi_generational_lru"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.37-tiered"], tmp_path, young.node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS, Verdict.NOT_OBSERVABLE}
    assert [(one.knob, one.why_not) for one in findings if one.why_not] == [
        ("memory.stat", "reclaim scanned it and took nothing: low 3, pgsteal 0")
    ]


@pytest.mark.parametrize(
    ("ignores", "by", "verdict"),
    [
        ("memory.min", "pgsteal_khugepaged 190\npgsteal_direct 0\npgsteal_kswapd 0", Verdict.NOT_OBSERVABLE),
        ("memory.min", "pgsteal_khugepaged 0\npgsteal_direct 64\npgsteal_kswapd 0", Verdict.NOT_OBSERVABLE),
        ("memory.min", "pgsteal_khugepaged 190\npgsteal_direct 64\npgsteal_kswapd 1", Verdict.DEVIATES),
        ("memory.min", "pgsteal_khugepaged 0\npgsteal_direct 0\npgsteal_kswapd 0", Verdict.DEVIATES),
        ("", "pgsteal_khugepaged 0\npgsteal_direct 64\npgsteal_kswapd 0", Verdict.CONFORMS),
    ],
)
def test_memory_reclaimed_before_kswapd_ran_proves_nothing_about_protection(ignores, by, verdict, tmp_path):
    """The multi-generational LRU uses what kswapd computed last; a loss in which kswapd took part is a finding.

    A loss of no more than the CPUs may have charged ahead counts as none, whoever reclaimed.
    """
    early = bench(generations=True, ignores=ignores)
    count = early.count_stolen

    def count_by(path, taken):
        count(path, taken)
        for cgroup in (path, path.parent):
            early.cgroups.show(cgroup, "memory.stat", f"pgsteal {taken // 4096}\n{by}\n")

    early.count_stolen = count_by
    name = "test_guaranteed_keeps_all_when_the_machine_is_short"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.36-tiered"], tmp_path, early.node)
    [kept] = [one for one in findings if one.knob == "memory.current"]

    assert kept.verdict is verdict
    assert (verdict is Verdict.NOT_OBSERVABLE) == ("before kswapd had computed their protection" in kept.why_not)


def test_pages_that_the_kernel_counts_late_are_waited_for(monkeypatch, tmp_path):
    """It updates memory.stat every 2 s, however little there is to count."""
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 60.0)
    late = bench(generations=True)
    count, status, stolen = late.count_stolen, late.runtime.status, []
    late.count_stolen = lambda *taken: stolen.append(taken)

    def asked(container, *, deadline):
        while stolen:
            count(*stolen.pop(0))
        return status(container, deadline=deadline)

    late.runtime.status = asked
    name = "test_memory_low_is_reclaimed_by_the_multi_generational_lru"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.37-tiered"], tmp_path, late.node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


def test_what_only_the_multi_generational_lru_does_is_not_observable_of_the_classic_one(tmp_path):
    """Neither the loss nor its count: such a machine, as bookworm, does not deviate for it."""
    name = "test_memory_low_is_reclaimed_by_the_multi_generational_lru"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.37-tiered"], tmp_path, bench(generations=False).node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS, Verdict.NOT_OBSERVABLE}
    assert [(one.knob, one.why_not) for one in findings if one.why_not] == [
        (file, "the classic LRU takes unprotected memory first, which is enough")
        for file in ("memory.current", "memory.events")
    ]


def test_what_only_the_classic_lru_keeps_is_not_observable_of_the_multi_generational_one():
    node = bench(generations=True).node
    with node.watched_pods(pods(*WHOLE.PODS), KUBELETS["v1.37-tiered"], rests_on=WHOLE.PREMISES, steered=True) as watch:
        pressure = watch.press("aggressor", whole_node=True)

    assert pressure.keeps("kept-burstable").why_not == (
        "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
    )


class RunsShortEarly(PressedBench):
    """One NUMA node runs short while most of the rest is taken: one pod then loses all but 1 MiB."""

    def obey(self, fifo, line):
        if not self.taken:
            path = next(one for one in map(self.path_of, self.steered.values()) if "besteffort" in str(one))
            self.spare += self.amount_in(path, "memory.current") - (1 << 20)
            self.use(path, 1 << 20)
        super().obey(fifo, line)


def test_what_was_lost_before_the_last_of_it_is_taken_is_lost_as_well(tmp_path):
    early = RunsShortEarly(spare=SPARE)
    name = "test_unprotected_page_cache_is_reclaimed_first_on_the_machine"
    findings = findings_of(getattr(WHOLE, name), KUBELETS["v1.27"], tmp_path, early.node)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings
    # Half of the unprotected 48 MiB was to be lost, and 47 were: no more is taken than the rest.
    assert early.taken == SPARE + (47 << 20)


def test_what_can_be_taken_is_free_above_every_low_watermark():
    zones = """\
Node 0, zone      DMA
  pages free     100
        min      3
        low      200
Node 0, zone    DMA32
  per-node stats
      nr_inactive_anon 5
  pages free     3000
        min      3
        low      1000
"""
    target = FakeTarget(files={"/proc/zoneinfo": zones.encode()})

    assert shortage.spare(target, 4096) == 2000 * 4096


def test_per_cpu_pages_count_as_free_and_the_lowmem_reserve_does_not():
    zones = """\
Node 0, zone      DMA
  pages free     3000
        low      100
        protection: (0, 442, 991, 991)
  pagesets
    cpu: 0
              count:    7
Node 0, zone    DMA32
  pages free     3000
        low      1000
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0
              count:    250
              high:     900
    cpu: 1
              count:    50
Node 0, zone   Normal
  pages free     0
        low      32
        protection: (0, 0, 0, 0)
"""
    target = FakeTarget(files={"/proc/zoneinfo": zones.encode()})

    assert shortage.spare(target, 4096) == (1916 + 2300) * 4096


def test_what_is_free_is_read_again_when_most_of_it_is_taken():
    """A program of the runtime ends meanwhile, and its memory is free as well."""
    changing = bench(generations=True)
    leave = changing.leave

    def leave_more(spare):
        changing.spare = spare + ENDED
        leave(changing.spare)

    node = changing.node
    with node.watched_pods(pods(*WHOLE.PODS), KUBELETS["v1.27"], rests_on=WHOLE.PREMISES, steered=True) as watch:
        changing.leave = leave_more
        squeeze = watch.press("aggressor", whole_node=True).squeeze

    assert squeeze.takes - squeeze.short == SPARE // 8 + ENDED


def test_the_machine_gets_its_memory_back():
    said = []

    def run(argv, stdin, _: Deadline):
        said.append((list(argv[4:]), stdin))
        return 0, b"67584\t/proc/sys/vm/min_free_kbytes\n", b""

    target = FakeTarget(files={"/proc/sys/vm/nr_hugepages": b"0\n"}, commands={("sh", "-ec"): run})
    with pytest.raises(RuntimeError), shortage.scarce(target, FAKE_HIERARCHY):
        raise RuntimeError

    assert said == [
        (["/sys/fs/cgroup", "16384", "458752", shortage.KHUGEPAGED, shortage.POOLS], b""),
        (["/sys/fs/cgroup"], b"67584\t/proc/sys/vm/min_free_kbytes\n"),
    ]


@pytest.mark.parametrize(
    ("sizes", "smallest"),
    [
        (("1048576", "2048"), 2048),  # amd64, and ppc64le with the radix MMU
        (("1048576", "2048", "32768"), 2048),  # arm64 with pages of 16 KiB
        (("16384", "16777216"), 16384),  # ppc64le with the hash MMU
        (("1024", "2097152"), 1024),  # s390x
    ],
)
def test_memory_is_set_aside_in_the_smallest_huge_pages(sizes, smallest, tmp_path):
    for size in sizes:
        (tmp_path / f"hugepages-{size}kB").mkdir()
    script = f'{shortage.SMALLEST_POOL}echo "$size $pool"'
    done = subprocess.run(
        ["sh", "-euc", script, "memqos", "", "", "", "", tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{smallest} {tmp_path}/hugepages-{smallest}kB/nr_hugepages\n"


def test_a_kernel_without_huge_pages_cannot_be_made_short():
    with (
        pytest.raises(EnvironmentNotAbleError, match="kernel has no huge pages"),
        shortage.scarce(FakeTarget(), FAKE_HIERARCHY),
    ):
        pass


def test_the_lru_is_restored():
    target = FakeTarget(files={shortage.GENERATIONS: b"0x0007\n"})
    with shortage.reclaiming(target, generations=False):
        assert target.read(shortage.GENERATIONS, deadline=Deadline.after(1)) == b"n\n"

    assert shortage.by_generations(target)


def test_a_kernel_with_one_lru_is_left_with_it():
    target = FakeTarget()
    with shortage.reclaiming(target, generations=True):
        assert not shortage.by_generations(target)
