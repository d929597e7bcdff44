"""Shared protection on small models of kernels: right ones conform, wrong ones do not."""

import contextlib

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import EnvironmentNotAbleError, MachineryError, NonconformanceError
from tests.unit.node.chapters import CATALOGUE, KUBELETS, chapter, evidence_in, pods
from tests.unit.node.crowded import CrowdedBench
from tests.unit.node.pressed import MOUNTED, PressedBench

MODULE = chapter("protection", "shares")
TOGETHER = MODULE.test_pods_together_keep_the_memory_min_of_their_class
SWAPPED = MODULE.test_protected_anonymous_memory_is_not_swapped
BY_POD = MODULE.test_a_pods_protection_covers_its_container
ALONE = MODULE.test_a_pods_protection_covers_no_container_without_recursiveprot


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)


def remounts(bench):
    """A bench whose mount command works."""

    def mount(argv, *_):
        options = argv[4].removeprefix("remount,")
        bench.target.put("/proc/mounts", f"cgroup2 {argv[-1]} cgroup2 {options} 0 0\n".encode())
        return 0, b"", b""

    bench.target.on(("mount", "-t"), mount)
    return bench


def findings_of(function, kubelet, folder, bench):
    evidence, notes = evidence_in(folder)
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(bench.node, KUBELETS[kubelet], CATALOGUE, evidence)
    return notes.findings


def by_pod(bench, kubelet, folder, *, recursive):
    """The findings of the test about a container that only its pod protects."""
    evidence, notes = evidence_in(folder)
    node = bench.node
    names = ("kept-by-pod", "unguarded", "neighbour")
    with contextlib.ExitStack() as stack:
        if not recursive:
            stack.enter_context(node.mounted(recursive=False))
        tight = node.tight(KUBELETS[kubelet])
        watch = stack.enter_context(node.watched_pods(pods(*names), tight, rests_on=MODULE.PREMISES, steered=True))
        pressure = watch.press("neighbour", all_lose=True)
        with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
            (BY_POD if recursive else ALONE)(pressure, evidence)
    return notes.findings


def deviating(findings):
    return {(str(one.subject).rpartition("/")[2], one.knob) for one in findings if one.verdict is Verdict.DEVIATES}


BEYOND = ("kept-burstable", "kept-less", "unguarded", "aggressor")


def beyond(bench, folder):
    """The findings of the test of pods that claim more than their class has."""
    node, (evidence, notes) = bench.node, evidence_in(folder)
    tight = node.tight(KUBELETS["v1.27"])
    with node.watched_pods(pods(*BEYOND), tight, rests_on=MODULE.PREMISES, halved=True, steered=True) as watch:
        pressure = watch.press("aggressor", all_lose=True)
        with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
            TOGETHER(pressure, evidence)
    return notes.findings


def test_shares_conform_if_reclaim_respects_them(tmp_path):
    findings = beyond(PressedBench(), tmp_path)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings
    together = [one.expected for one in findings if "together with the other containers" in one.expected]
    assert together == [
        "less than 74448896 together with the other containers",
        "at least 49283072 together with the other containers",
    ]


@pytest.mark.parametrize("ignores", ["memory.min", "proportion"])
def test_a_kernel_that_distributes_nothing_deviates(ignores, tmp_path):
    """One that ignores memory.min takes from both together; one that grants each its whole claim takes from none."""
    assert deviating(beyond(PressedBench(ignores=ignores), tmp_path)) == {("kept-burstable", "memory.current")}


def test_whoever_of_them_lost_how_much_conforms(tmp_path):
    """A loss makes its claim smaller and the other's part larger, until both fit their class's protection."""
    uneven = PressedBench()
    uneven.protected = lambda path, _: 24 << 20 if uneven.amount_in(path, "memory.min") else 0
    assert {one.verdict for one in beyond(uneven, tmp_path)} == {Verdict.CONFORMS}


def test_shares_are_not_observable_where_the_class_has_enough(tmp_path):
    bench = PressedBench()
    tight = bench.node.tight(KUBELETS["v1.27"])
    with bench.node.watched_pods(pods(*BEYOND), tight, rests_on=MODULE.PREMISES, steered=True) as watch:
        pressure = watch.press("aggressor", all_lose=True)

    found = pressure.keep_together("kept-less")
    assert {one.why_not.partition(":")[0] for one in found} == {"no part of it is protected"}


@pytest.mark.parametrize("kubelet", ["v1.36-tiered", "v1.37-tiered"])
@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_pod_is_protected_by_is_its_containers_by_the_mount(kubelet, recursive, tmp_path):
    findings = by_pod(remounts(PressedBench()), kubelet, tmp_path, recursive=recursive)

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


def test_a_kernel_without_recursive_protection_deviates(tmp_path):
    findings = by_pod(PressedBench(ignores="recursiveprot"), "v1.36-tiered", tmp_path, recursive=True)

    assert deviating(findings) == {("kept-by-pod", "memory.current")}


def test_a_kernel_with_unrequested_recursive_protection_deviates(tmp_path):
    """It reclaims memory that is to be protected last, and counts that."""
    bench = remounts(PressedBench())
    asked = bench.asks_for
    bench.asks_for = lambda path, knob: asked(path, knob) or bench.amount_in(path.parent, knob)

    assert deviating(by_pod(bench, "v1.36-tiered", tmp_path, recursive=False)) == {("kept-by-pod", "memory.events")}


def test_the_mount_is_restored():
    bench = remounts(PressedBench())
    with bench.node.mounted(recursive=False):
        assert not bench.node.tree.hierarchy.is_recursive

    assert bench.node.tree.hierarchy.is_recursive
    assert bench.target.file("/proc/mounts") == MOUNTED.replace(b"rw,nsdelegate", b"nsdelegate,rw")


def test_a_mount_that_stays_as_it_was_is_machinery():
    bench = PressedBench()
    bench.target.on(("mount", "-t"), lambda *_: (0, b"", b""))
    with (
        pytest.raises(MachineryError, match="stay mounted with memory_recursiveprot"),
        bench.node.mounted(recursive=False),
    ):
        pass


def test_a_machine_on_cgroup_v1_cannot_be_mounted_otherwise():
    bench = PressedBench()
    bench.target.put("/proc/mounts", b"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    with (
        pytest.raises(EnvironmentNotAbleError, match="cgroup v2 is mounted 0 times"),
        bench.node.mounted(recursive=False),
    ):
        pass


class ScopedBench(PressedBench):
    """Its runtime keeps containers below their scopes. ignores: also "scope" (as if it did not exist)."""

    def __init__(self, **facts):
        super().__init__(runtimes=Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.8.1")), **facts)

    def path_of(self, container):
        return super().path_of(container).child("container")

    def use(self, path, usage):
        super().use(path, usage)
        self.cgroups.show(path.parent.parent, "memory.current", f"{usage}\n")

    def part(self, above, path, knob):
        return (
            self.amount_in(path, knob)
            if self.ignores == "scope" and above == path.parent
            else (super().part(above, path, knob))
        )


@pytest.mark.parametrize(("ignores", "wrong"), [("", set()), ("scope", {("kept-burstable", "memory.current")})])
def test_a_bare_scope_takes_protection_away_without_recursion(ignores, wrong, tmp_path):
    function = MODULE.test_a_container_below_a_bare_scope_is_unprotected_without_recursiveprot
    bench = remounts(ScopedBench(ignores=ignores))
    with bench.node.mounted(recursive=False):
        findings = findings_of(function, "v1.27", tmp_path, bench)

    assert {one.verdict for one in findings} <= {Verdict.CONFORMS, Verdict.DEVIATES}, findings
    assert deviating(findings) == wrong


class SwappingBench(CrowdedBench):
    """Its kernel swaps unprotected memory, or everything if it ignores memory.low."""

    def obey(self, fifo, line):
        neighbour = self.steered[fifo]
        others = [self.path_of(one) for one in self.steered.values() if one.id != neighbour.id]
        self.kept = {path: self.protected(path, ("memory.min", "memory.low")) for path in others}
        super().obey(fifo, line)

    def may_swap(self, path):
        exposed = max(0, self.amount_in(path, "memory.current") - self.kept[path])
        part = 6 << 20 if self.ignores == "memory.low" else exposed
        return min(super().may_swap(path), exposed, part)


@pytest.mark.parametrize("kubelet", ["v1.36-tiered", "v1.37-tiered"])
def test_protected_memory_conforms_where_others_are_swapped(kubelet, tmp_path):
    findings = findings_of(SWAPPED, kubelet, tmp_path, SwappingBench())

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


class WaitsForSwap(SwappingBench):
    """It swaps out memory that memory.low covers, and counts that, while others' memory is being written to swap."""

    def obey(self, fifo, line):
        super().obey(fifo, line)
        for path in map(self.path_of, self.steered.values()):
            self.count_low(path)


def test_swapping_while_others_wait_for_the_disk_is_undecided_if_counted(tmp_path):
    findings = findings_of(SWAPPED, "v1.36-tiered", tmp_path, WaitsForSwap(ignores="memory.low"))

    assert [(str(one.subject).rpartition("/")[2], one.knob) for one in findings if one.why_not] == [
        ("kept-anonymous", "memory.current"),
        ("kept-anonymous", "memory.swap.current"),
    ]
    assert deviating(findings) == set()


def test_what_is_not_swapped_out_though_the_kernel_counts_low_for_it_is_kept(tmp_path):
    findings = findings_of(SWAPPED, "v1.36-tiered", tmp_path, WaitsForSwap())

    assert {one.verdict for one in findings} == {Verdict.CONFORMS}, findings


@pytest.mark.parametrize(
    ("ignores", "wrong"),
    [
        ("memory.low", {("kept-anonymous", "memory.current"), ("kept-anonymous", "memory.swap.current")}),
        ("swappiness", {("exceeds-request", "memory.swap.current"), ("exceeds-request", "memory.events"),
                        ("exceeds-request", "state")}),
    ],
)  # fmt: skip
def test_a_kernel_that_swaps_protected_memory_or_nothing_deviates(ignores, wrong, tmp_path):
    findings = findings_of(SWAPPED, "v1.36-tiered", tmp_path, SwappingBench(ignores=ignores))

    assert deviating(findings) == wrong
