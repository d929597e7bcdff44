"""The suites about a short machine and daemons next to pods, on small kernel models."""

import contextlib
import dataclasses

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import NonconformanceError
from memqos.model.path import CgroupPath
from memqos.node.behaviour import watch
from tests.unit.node.chapters import CATALOGUE, KUBELETS, chapter, evidence_in
from tests.unit.node.exhausted import ExhaustedBench
from tests.unit.node.fakes import FACTS
from tests.unit.node.pressed import NODE, PressedBench

WHOLE, ENFORCED, SWAPPING = chapter("node", "whole_machine"), chapter("node", "enforced"), chapter("swap", "daemons")
SPARE = 200 << 20
HELD = 48 << 20
MIB = 1 << 20


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "WATCH_SECONDS", 5.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 0.2)


class DaemonBench(PressedBench):
    """A machine with a daemon that loses 12 MiB when it runs short, unless memory.min above it covers all.

    ignores: also "daemon" (it takes nothing of it), "answer" (no answer). swaps: whether that goes to swap. pods_first:
    it takes nothing of it while pods have something to lose.
    """

    def __init__(self, *args, swaps=False, pods_first=False, **facts):
        super().__init__(*args, spare=SPARE, generations=True, **facts)
        self.swaps = swaps
        self.pods_first = pods_first
        self.daemon = None
        self.held = 0
        self.target.on(("sh", "-ec"), self._script)

    def _script(self, argv, *rest):
        if argv[3] == "memqos-daemon":
            parent = CgroupPath.parse(argv[4].removeprefix("/sys/fs/cgroup"))
            if parent not in self.cgroups:
                self.cgroups.make(parent)
            self.daemon = parent.child("memqos-daemon")
            self.cgroups.make(self.daemon)
            self.held = int(argv[7])
            self.cgroups.show(self.daemon, "memory.current", f"{self.held}\n")
        if argv[3] == "memqos-ask":
            return 0, b"" if self.ignores == "answer" else b"ok\n", b""
        return self._narrow(argv, *rest)

    def run_program(self, container):
        """Anonymous memory, too."""
        (ExhaustedBench if "anon" in self.args[container.id] else PressedBench).run_program(self, container)

    def obey(self, fifo, line):
        super().obey(fifo, line)
        covered = self.amount_in(self.daemon.parent, "memory.min") >= self.held and self.ignores != "memory.min"
        covered |= self.pods_first and self.taken <= SPARE + self.held
        if not covered and self.ignores != "daemon":
            self.cgroups.show(self.daemon, "memory.current", f"{self.held - 12 * MIB}\n")
            if self.swaps:
                self.cgroups.show(self.daemon, "memory.swap.current", f"{12 * MIB}\n")


def beside(bench):
    """The fixture of the suite."""
    return WHOLE.beside.__wrapped__(bench.node, CATALOGUE)


def deviating(function, bench, kubelet, folder, *, given=None):
    evidence, notes = evidence_in(folder)
    first = bench.node if given is None else given
    rest = (KUBELETS[kubelet], CATALOGUE, evidence) if given is None else (KUBELETS[kubelet], evidence)
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(first, *rest)
    assert notes.findings
    assert {one.verdict for one in notes.findings} <= {Verdict.CONFORMS, Verdict.DEVIATES}, notes.findings
    return {
        (str(one.subject).rpartition("/")[2], one.knob) for one in notes.findings if one.verdict is Verdict.DEVIATES
    }


KEEPS = WHOLE.test_a_reserved_daemon_keeps_its_memory_and_answers
YIELDS = WHOLE.test_a_daemon_without_enforced_reservation_loses_memory


@pytest.mark.parametrize(
    ("function", "ignores", "wrong"),
    [
        (KEEPS, "", set()),
        (KEEPS, "memory.min", {("the daemon", "memory.current")}),
        (KEEPS, "answer", {("the daemon", "answer")}),
        (YIELDS, "", set()),
        (YIELDS, "daemon", {("the daemon", "memory.current")}),
        (YIELDS, "answer", {("the daemon", "answer")}),
    ],
)
def test_a_daemon_keeps_memory_that_is_reserved_and_enforced(function, ignores, wrong, tmp_path):
    bench = DaemonBench(ignores=ignores)

    assert deviating(function, bench, "v1.36-tiered", tmp_path, given=beside(bench)) == wrong


def test_a_kernel_that_takes_from_pods_first_takes_from_an_unreserved_daemon_then(tmp_path):
    bench = DaemonBench(pods_first=True)

    assert deviating(YIELDS, bench, "v1.36-tiered", tmp_path, given=beside(bench)) == set()


def test_the_opposite_finding_of_a_daemon_is_not_observable():
    """Protected memory is not expected to be lost, nor unprotected memory to be kept."""
    bench = DaemonBench()
    with bench.node.daemon("/bare.slice") as daemon:
        assert daemon.keeps_its_memory().why_not.startswith("not all of it is protected: effective memory.min is ")
        assert (daemon.keeps_its_memory().measured, daemon.answers().measured) == (True, False)
        bench.cgroups.show(CgroupPath.parse("/bare.slice"), "memory.min", "max\n")
        assert daemon.gives_way().why_not.startswith("something protects it: effective memory.min is ")


@pytest.mark.parametrize(("missing", "kept"), [(131072 * 4, "conforms"), (131072 * 4 + 4096, "deviates")])
def test_a_daemon_may_miss_a_batch_for_each_cpu(missing, kept):
    """Two CPUs, each of which may have charged 64 pages ahead; what is to be taken is more than these."""
    bench = DaemonBench()
    assert bench.node.facts.cpus == 2
    with bench.node.daemon("/bare.slice") as daemon:
        bench.cgroups.show(bench.daemon, "memory.current", f"{HELD - missing}\n")
        assert daemon.gives_way().verdict == ("deviates" if kept == "conforms" else "conforms")
        bench.cgroups.show(CgroupPath.parse("/bare.slice"), "memory.min", "max\n")
        assert daemon.keeps_its_memory().verdict == kept


@pytest.mark.parametrize(("ignores", "wrong"), [("", set()), ("daemon", {("the daemon", "memory.swap.current")})])
def test_a_daemon_is_swapped_and_pods_are_not(ignores, wrong, tmp_path):
    bench = DaemonBench(ignores=ignores, swaps=True)

    assert deviating(SWAPPING.test_a_daemon_is_swapped_and_pods_are_not, bench, "v1.30-unset-swap", tmp_path) == (wrong)


def test_a_kernel_that_swaps_pods_too_deviates(tmp_path):
    bench = DaemonBench(swaps=True)
    obey = bench.sampler.obeys

    def swap_and_obey(fifo, line):
        bench.cgroups.show(bench.path_of(next(iter(bench.steered.values()))), "memory.swap.current", "4096\n")
        obey(fifo, line)

    bench.sampler.obeys = swap_and_obey
    function = SWAPPING.test_a_daemon_is_swapped_and_pods_are_not

    assert {knob for _, knob in deviating(function, bench, "v1.30-unset-swap", tmp_path)} == {"memory.swap.current"}


class SwappablePods(DaemonBench):
    """A runtime drops memory.swap.max of 0, and the kernel swaps pods instead of the daemon, as with youki."""

    def run_program(self, container):
        self.cgroups.show(self.path_of(container), "memory.swap.max", "max\n")
        super().run_program(container)


def test_a_daemon_proves_nothing_beside_pods_that_may_swap(tmp_path):
    evidence, notes = evidence_in(tmp_path)
    bench = SwappablePods(ignores="daemon", swaps=True)
    with contextlib.suppress(NonconformanceError):
        SWAPPING.test_a_daemon_is_swapped_and_pods_are_not(
            bench.node, KUBELETS["v1.30-unset-swap"], CATALOGUE, evidence
        )

    assert {one.knob for one in notes.findings if one.verdict is Verdict.DEVIATES} == {"memory.swap.max"}
    [found] = [one for one in notes.findings if str(one.subject) == "the daemon"]
    assert (found.verdict, found.observed) == (Verdict.NOT_OBSERVABLE, "")
    assert found.why_not.startswith("a precondition does not hold: memory.swap.max of container app of pod default/")


class KillingBench(DaemonBench):
    """A machine that kills the neighbour with so many bytes of the daemon in swap, and so many still in use.

    counts: whether the kernel's killer did it.
    """

    def __init__(self, swapped, uses, *, counts=True):
        super().__init__(swaps=True)
        self.swapped = swapped
        self.uses = uses
        self.counts = counts

    def obey(self, fifo, line):
        super().obey(fifo, line)
        self.cgroups.show(self.daemon, "memory.swap.current", f"{self.swapped}\n")
        self.cgroups.show(self.daemon, "memory.current", f"{self.uses}\n")
        neighbour = self.steered[fifo]
        if self.counts:
            self.count_kill(self.path_of(neighbour))
        self.runtime.finish(neighbour, exit_code=137, reason="OOMKilled")


@pytest.mark.parametrize(
    ("swapped", "uses", "counts", "verdict"),
    [
        (67108864, 0, True, Verdict.NOT_OBSERVABLE),
        (66846721, 524288, True, Verdict.NOT_OBSERVABLE),
        (66846720, 0, True, Verdict.DEVIATES),
        (67108864, 524289, True, Verdict.DEVIATES),
        (67108864, 67108864, True, Verdict.DEVIATES),
        (67108864, 0, False, Verdict.DEVIATES),
    ],
)
def test_a_pod_that_the_machine_kills_deviates_while_the_daemon_has_something_to_give(
    swapped, uses, counts, verdict, tmp_path
):
    """All 64 MiB of its file but one batch of 64 pages are reclaimable, and what two CPUs charged ahead is not.

    Pages in swap and in memory could be freed. And another program than the kernel may have killed the pod.
    """
    bench, (evidence, notes) = KillingBench(swapped, uses, counts=counts), evidence_in(tmp_path)
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        SWAPPING.test_a_daemon_is_swapped_and_pods_are_not(
            bench.node, KUBELETS["v1.30-unset-swap"], CATALOGUE, evidence
        )
    (odd,) = [one for one in notes.findings if one.verdict is not Verdict.CONFORMS]

    assert (str(odd.subject).rpartition("/")[2], odd.knob, odd.verdict) == ("neighbour", "state", verdict)
    told = (
        f"it ended with 137 (OOMKilled), and the daemon had no reclaimable memory left: {swapped} bytes of it "
        f"are in swap, its file has 67108864, and it uses {uses} (67108864 before)"
    )
    assert odd.why_not == (told if verdict is Verdict.NOT_OBSERVABLE else "")


class OutOfMemory(ExhaustedBench):
    """A machine that has so much left, and then kills."""

    def __init__(self, **facts):
        super().__init__(spare=SPARE, **facts)

    def amount_in(self, path, name):
        """The machine runs out: its free memory, and the pods'."""
        if (path, name) == (NODE, "memory.max"):
            return SPARE + sum(super(OutOfMemory, self).amount_in(self.path_of(one), "memory.current")
                               for one in self.steered.values())  # fmt: skip
        return super().amount_in(path, name)


@pytest.mark.parametrize("ignores", ["", "size"])
def test_the_order_of_kills_holds_of_the_machine(ignores, tmp_path):
    """A killer by scores alone takes the BestEffort pod."""
    function = WHOLE.test_the_highest_score_is_killed_when_the_machine_runs_out
    wrong = deviating(function, OutOfMemory(ignores=ignores), "v1.36-none", tmp_path)

    assert {pod for pod, _ in wrong} == ({"holds-little", "greedy-burstable"} if ignores else set())


MARKS = ENFORCED.test_each_key_enforces_its_cgroup.pytestmark
KEYS = next(mark.args[1] for mark in MARKS if mark.name == "parametrize")


@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("kubelet", ["v1.27", "v1.36-tiered"])
def test_each_key_conforms_by_itself(keys, kubelet, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    ENFORCED.test_each_key_enforces_its_cgroup(PressedBench().node, KUBELETS[kubelet], CATALOGUE, evidence, keys)

    assert {one.verdict for one in notes.findings} == {Verdict.CONFORMS}
    limits = {one.cgroup: one.expected for one in notes.findings if one.knob == "memory.max"}
    assert (limits["/kubepods.slice"] == str(FACTS.memory)) is (keys == ["none"])
    assert len(limits) == 1 + len({*keys} & {"system-reserved", "kube-reserved"})


def test_a_kubelet_that_enforces_nothing_deviates(tmp_path):
    """The cgroups are from a kubelet without keys; the plan is that of one with all of them."""
    pods, kubelet = [CATALOGUE.pod("best-effort")], KUBELETS["v1.36-tiered"]
    node = PressedBench().node
    with node.admitted(pods, kubelet.with_enforced("none")) as population:
        found = dataclasses.replace(population, plan=node.plan(pods, kubelet)).judge_node()

    assert "memory.max" in {one.knob for one in found if one.verdict is Verdict.DEVIATES}
    assert {one.cgroup for one in found if one.verdict is Verdict.NOT_OBSERVABLE} == {
        "/memqossys.slice", "/memqoskube.slice",
    }  # fmt: skip
