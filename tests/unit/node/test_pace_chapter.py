"""How much of its pace is kept: the statistics by literal rows, and the suite on a small kernel model."""

import contextlib
import itertools
from fractions import Fraction

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import NonconformanceError, UsageError
from memqos.model.knob import Knob
from memqos.node.behaviour import watch
from memqos.node.behaviour.pace import Turn, chance, left_alone, read_ms, spread
from memqos.workload.report import parse_report
from tests.unit.node.chapters import KUBELETS, cases, chapter, evidence_in, pods
from tests.unit.node.pressed import PressedBench
from tests.unit.node.words import amount, commands_of

MODULE = chapter("isolation")
ALL = list(cases(MODULE))
REFAULTS = [one for one in ALL if one.values[0] is MODULE.test_protected_page_cache_is_not_read_again]
CASES = [one for one in ALL if one not in REFAULTS]


@pytest.mark.parametrize(
    ("better", "worse", "expected"),
    [
        # Every value of the one above every value of the other: 1 way of 70, of 20, of 6, and of 2.
        ([5, 6, 7, 8], [1, 2, 3, 4], Fraction(1, 70)),
        ([4, 5, 6], [1, 2, 3], Fraction(1, 20)),
        ([3, 4], [1, 2], Fraction(1, 6)),
        ([2], [1], Fraction(1, 2)),
        # One pair of sixteen lost: 2 of 70; two pairs lost: 4 of 70, by the table of Mann and Whitney for 4 and 4.
        ([4, 6, 7, 8], [1, 2, 3, 5], Fraction(2, 70)),
        ([4, 5, 7, 8], [1, 2, 3, 6], Fraction(4, 70)),
        # Nothing is better than nothing: all ways are as good.
        ([1, 1, 1], [1, 1, 1], Fraction(1)),
        ([1, 2], [3, 4], Fraction(1)),
        # A tie counts half: 1.5 pairs of 2 are won, as in 2 of 3 ways.
        ([2], [1, 2], Fraction(2, 3)),
    ],
)
def test_the_chance_of_a_ranking_is_exact(better, worse, expected):
    assert chance(better, worse) == expected


@pytest.mark.parametrize(("better", "worse"), [([], [1]), ([1], [])])
def test_a_ranking_without_values_is_an_error(better, worse):
    with pytest.raises(ValueError, match="both must have values"):
        chance(better, worse)


def test_a_turn_has_the_kept_part_of_the_pace():
    assert Turn(undisturbed=200.0, disturbed=800.0).kept == 0.25
    assert spread([0.25, 1.0, 0.5]) == "50 % (25 to 100)"


def test_undisturbed_turns_are_compared_with_each_other():
    turns = [Turn(undisturbed=one, disturbed=1000.0) for one in (100.0, 200.0, 50.0)]

    assert left_alone(turns) == [0.5, 4.0, 0.5]


def test_a_reading_is_timed_from_the_hold_before_it():
    report = parse_report(
        '{"event": "done", "ms": 100, "command": 2, "verb": "hold"}\n'
        '{"event": "done", "ms": 250, "command": 3, "verb": "read", "id": 0, "bytes": 4096, "max_us": 1}\n'
        '{"event": "done", "ms": 300, "command": 4, "verb": "hold"}\n'
        '{"event": "done", "ms": 340, "command": 5, "verb": "read", "id": 0, "bytes": 4096, "max_us": 1}\n',
        source="test",
    )

    assert read_ms(report) == 40


TAKES = {"anon": 0, "file": 1}
"""The commands by which a neighbour takes memory, and which of their words has the amount."""


class PacedBench(PressedBench):
    """A machine on which a reading takes a tenth of a second, and up to ten times as long for lost memory."""

    def __init__(self, *args, **facts):
        super().__init__(*args, **facts)
        self.ms = 0
        self.is_full = False
        self.read_beside = 0
        self.reads = 0

    def obey(self, fifo, line):
        container = self.steered[fifo]
        verb, *words = line.split()
        self.ms += 100
        self.is_full = verb in TAKES or (self.is_full and verb != "free")
        if verb in TAKES:
            self._take(container, amount(words[TAKES[verb]]))
        if verb == "free":
            self.use(self.path_of(container), 0)
        if verb == "read" and container in self.neighbours():
            self.read_beside += 1
        elif verb == "read":
            self.reads += 1
            self.read_again(self.path_of(container))
        self.say_done(container, verb, self.ms)

    def read_again(self, path):
        lost = 1 - self.amount_in(path, "memory.current") / (48 << 20)
        self.count_again(path, self.fetched(lost) // 4096)
        self.ms += self.slower(lost)
        # While the neighbour holds its memory, fetched pages are lost again.
        self.use(path, self.amount_in(path, "memory.current") if self.is_full else 48 << 20)

    def fetched(self, lost):
        """Bytes to read again for this part of the memory."""
        return int(lost * (48 << 20))

    def slower(self, lost):
        """Milliseconds to fetch this part of the memory."""
        return 900 * lost

    def neighbours(self):
        """Those that had no commands at their start."""
        return [one for one in self.steered.values() if not commands_of(self.args[one.id])]


class SwapsPacedBench(PacedBench):
    """A machine that swaps a neighbour out as soon as another program reads reclaimed memory again."""

    def slower(self, lost):
        return (
            0 if any(self.amount_in(self.path_of(one), "memory.swap.max") for one in self.neighbours()) else 900 * lost
        )


def findings_of(function, kubelet, folder, bench):
    evidence, notes = evidence_in(folder)
    with (
        bench.node.watched_pods(
            pods(*MODULE.PODS), bench.node.tight(kubelet), rests_on=MODULE.PREMISES, steered=True
        ) as watch,
        contextlib.suppress(NonconformanceError, pytest.skip.Exception),
    ):
        function(watch.disturb(MODULE.PODS[-1], *MODULE.VICTIMS), evidence)
    return notes.findings


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "WATCH_SECONDS", 5.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 0.2)


@pytest.fixture
def paces():
    """The measurements under any kubelet."""
    bench = PacedBench()
    tight = bench.node.tight(KUBELETS["v1.36-tiered"])
    with bench.node.watched_pods(pods(*MODULE.PODS), tight, rests_on=MODULE.PREMISES, steered=True) as watch:
        yield watch.disturb(MODULE.PODS[-1], *MODULE.VICTIMS)


@pytest.mark.parametrize(
    ("ask", "wrong"),
    [
        (lambda paces: paces.keeps_more("unguarded", than="unguarded", taking="swap"),
         "an aggressor cannot take memory for 'swap'"),
        (lambda paces: paces.keeps_more("nobody", than="unguarded", taking="files"),
         "no container 'nobody/' is watched"),
        (lambda paces: paces.keeps_more("unguarded", than=MODULE.PODS[-1], taking="files"),
         "no container 'aggressor/' is watched"),
        (lambda paces: paces.hardly_refaults(MODULE.PODS[-1]), "no container 'aggressor/' is watched"),
    ],
)  # fmt: skip
def test_what_was_not_timed_is_named(ask, wrong, paces):
    with pytest.raises(UsageError, match=wrong):
        ask(paces)


@pytest.mark.parametrize(("beside", "other"), [("anonymous", "files"), ("files", "anonymous")])
def test_an_aggressor_takes_only_the_requested_kind(beside, other):
    bench = PacedBench()
    tight = bench.node.tight(KUBELETS["v1.36-tiered"])
    with bench.node.watched_pods(pods(*MODULE.PODS), tight, rests_on=MODULE.PREMISES, steered=True) as watch:
        paces = watch.disturb(MODULE.PODS[-1], *MODULE.VICTIMS, taking=[beside])

    assert paces.keeps_more("kept-guaranteed", than="unguarded", taking=beside).verdict is Verdict.CONFORMS
    # Three victims are read twice in each of six turns, alone and with one aggressor.
    assert bench.reads == 3 * 2 * 6 * 2
    assert bool(bench.read_beside) is (beside == "files")
    with pytest.raises(UsageError, match=f"no program was timed with an aggressor of kind '{other}'"):
        paces.keeps_more("kept-guaranteed", than="unguarded", taking=other)


@pytest.mark.parametrize("beside", [[], ["swap"]])
def test_an_aggressor_takes_memory_for_something_known(beside):
    bench = PacedBench()
    tight = bench.node.tight(KUBELETS["v1.36-tiered"])
    with (
        bench.node.watched_pods(pods(*MODULE.PODS), tight, rests_on=MODULE.PREMISES, steered=True) as watch,
        pytest.raises(UsageError, match="Known: anonymous, files"),
    ):
        watch.disturb(MODULE.PODS[-1], *MODULE.VICTIMS, taking=beside)


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_pace_is_kept_where_memory_is(function, kubelet, tmp_path):
    bench = PacedBench()
    findings = findings_of(function, kubelet, tmp_path, bench)
    [pace] = [one for one in findings if one.knob == "pace"]

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings
    assert pace.observed == "100 % (100 to 100), the other 18 % (18 to 18); p = 0.001"
    assert pace.evidence["unguarded/app beside anonymous"] == "18 % (18 to 18)"
    assert pace.evidence["unguarded/app beside files"] == "18 % (18 to 18)"
    # Whenever one of three victims begins one of two readings in one of six turns, it has one or two before it.
    assert bench.read_beside >= 36


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_the_aggressor_may_not_be_swapped_out(function, kubelet, tmp_path):
    """Otherwise it gives way, and the program that lost page cache has its pace again."""
    findings = findings_of(function, kubelet, tmp_path, SwapsPacedBench())

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_kernel_without_protection_deviates(function, kubelet, tmp_path):
    wrong = PacedBench()
    wrong.protected = lambda *_: 0
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"pace"}


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_program_slowed_by_something_else_deviates(function, kubelet, tmp_path):
    """Kept memory does not help a program that waits for a disk which another one uses completely."""
    wrong = PacedBench()
    wrong.slower = lambda _: 900 if wrong.is_full else 0
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"pace"}


@pytest.mark.parametrize(("function", "kubelet"), CASES)
@pytest.mark.parametrize("slower", [lambda _: 0, lambda _: 900], ids=["a disk without delay", "a slow host"])
def test_a_pace_is_not_judged_if_a_loss_costs_nothing(function, kubelet, slower, tmp_path):
    bench = PacedBench()
    bench.slower = slower
    findings = findings_of(function, kubelet, tmp_path, bench)
    [pace] = [one for one in findings if one.knob == "pace"]

    assert (pace.verdict, pace.observed) == (Verdict.NOT_OBSERVABLE, "")
    assert pace.why_not == (
        "a loss costs no more than the undisturbed readings vary on this host: "
        "100 % (100 to 100), the other 100 % (100 to 100); p = 1.000"
    )


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_pace_is_not_judged_on_a_host_with_more_variation_than_the_loss(function, kubelet, tmp_path):
    bench = PacedBench()
    # So many times a tenth of a second, for any reader: for both readings by each of three victims.
    delays = itertools.cycle([tenths for tenths in (0, 4, 1, 6, 0, 8, 3) for _ in range(6)])
    bench.slower = lambda lost: 100 * next(delays) + 10 * bool(lost)
    findings = findings_of(function, kubelet, tmp_path, bench)
    [pace] = [one for one in findings if one.knob == "pace"]

    assert pace.verdict is Verdict.NOT_OBSERVABLE
    assert "no more than the undisturbed readings vary on this host" in pace.why_not


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_a_protected_program_slowed_instead_of_the_unprotected_deviates(function, kubelet, tmp_path):
    """Though nothing comparable slows the other one, which has read its lost memory again."""
    wrong = PacedBench()
    wrong.slower = lambda lost: 900 if wrong.is_full and not lost else 0
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"pace"}


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_twelve_turns_may_show_what_six_do_not_on_an_uneven_host(function, kubelet, tmp_path):
    bench = PacedBench()
    delays = itertools.cycle([tenths for tenths in (0, 1, 1, 0, 1) for _ in range(6)])
    bench.slower = lambda lost: 100 * next(delays) + 150 * bool(lost)
    findings = findings_of(function, kubelet, tmp_path, bench)
    [pace] = [one for one in findings if one.knob == "pace"]

    assert pace.verdict is Verdict.CONFORMS
    assert bench.reads == 216


@pytest.mark.parametrize(("protects", "reads"), [(True, 108), (False, 216)])
def test_more_turns_are_made_only_if_six_are_not_enough(protects, reads, tmp_path):
    """Each of three victims reads twice in a turn, alone and with two kinds of aggressor: 18 times."""
    bench = PacedBench()
    if not protects:
        bench.protected = lambda *_: 0
    function, kubelet = CASES[0].values
    findings_of(function, kubelet, tmp_path, bench)

    assert bench.reads == reads


@pytest.mark.parametrize(("function", "kubelet"), CASES)
def test_without_a_difference_and_without_a_loss_it_deviates(function, kubelet, tmp_path):
    """No loss is hidden if the kernel counts no refaults: the unprotected one was protected."""
    wrong = PacedBench()
    wrong.protected = lambda *_: 1 << 40
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"pace"}


@pytest.mark.parametrize(("function", "kubelet"), REFAULTS)
def test_what_is_kept_is_not_read_again(function, kubelet, tmp_path):
    findings = findings_of(function, kubelet, tmp_path, PacedBench())
    again = [one for one in findings if one.knob == "memory.stat"]

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings
    # Twice in each of six turns, alone and with both kinds of aggressor, a batch of 64 pages.
    assert [one.expected for one in again[:2]] == [
        "workingset_refault_file at most 2304 pages (36 times a batch of 64)"
    ] * 2
    assert [one.observed for one in again[:2]] == ["workingset_refault_file 0"] * 2


@pytest.mark.parametrize(("function", "kubelet"), REFAULTS)
@pytest.mark.parametrize(("pages", "deviate"), [(64, 0), (65, 2)])
def test_refaults_of_protected_memory_beyond_a_batch_deviate(function, kubelet, pages, deviate, tmp_path):
    wrong = PacedBench()
    wrong.fetched = lambda lost: int(lost * (48 << 20)) or pages * 4096
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert [one.knob for one in findings if one.verdict is Verdict.DEVIATES] == ["memory.stat"] * deviate


@pytest.mark.parametrize(("function", "kubelet"), REFAULTS)
def test_what_memory_low_keeps_may_be_read_again_where_reclaim_waited_for_the_disk(function, kubelet, tmp_path):
    """The aggressor writes a file, and the kernel counts that memory.low gave way meanwhile; memory.min keeps all."""
    bench = PacedBench()
    count = bench.count_again
    bench.count_again = lambda path, pages: (count(path, pages), bench.count_low(path))
    bench.fetched = lambda lost: int(lost * (48 << 20)) or 65 * 4096
    findings = findings_of(function, kubelet, tmp_path, bench)

    by_low = kubelet.id != "v1.27"
    again = [one for one in findings if one.knob == "memory.stat"]
    assert [one.verdict for one in again] == [
        Verdict.DEVIATES,
        Verdict.NOT_OBSERVABLE if by_low else Verdict.DEVIATES,
        Verdict.CONFORMS,
    ]
    assert ("waited for the disk: low 3" in again[1].why_not) == by_low


@pytest.mark.parametrize(("function", "kubelet"), REFAULTS)
def test_without_protection_memory_is_read_again(function, kubelet, tmp_path):
    wrong = PacedBench()
    wrong.protected = lambda *_: 0
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert [one.knob for one in findings if one.verdict is Verdict.DEVIATES] == ["memory.stat"] * 2


@pytest.mark.parametrize(("function", "kubelet"), REFAULTS)
def test_with_everything_protected_nothing_is_read_again(function, kubelet, tmp_path):
    wrong = PacedBench()
    wrong.protected = lambda *_: 1 << 40
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert [one.observed for one in findings if one.verdict is Verdict.DEVIATES] == ["workingset_refault_file 0"]


def test_no_pace_is_judged_where_a_neighbour_is_protected_by_mistake(tmp_path):
    wrong = PacedBench((Knob.MEMORY_MIN, "33554432\n"))
    function, kubelet = CASES[0].values
    findings = findings_of(function, kubelet, tmp_path, wrong)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {"memory.min"}
    assert [one.verdict for one in findings if one.knob == "pace"] == [Verdict.NOT_OBSERVABLE]
