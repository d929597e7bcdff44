"""The numa suite on small models of wrong kernels, and NUMA nodes in a course's samples."""

import contextlib
import dataclasses

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import MachineryError, NonconformanceError, UsageError
from memqos.node.machine.shortage import narrow_numa_node
from memqos.target.fake import FakeTarget
from tests.unit.node.chapters import CATALOGUE, KUBELETS, called, chapter, evidence_in, pods
from tests.unit.node.fakes import FACTS, FAR, FOUR
from tests.unit.node.memory import MemoryBench
from tests.unit.node.samples import course, done, files, sample
from tests.unit.node.test_preconditions import findings_of

MODULE, FULL, SPILLING = (chapter("numa", file) for file in ("", "full_numa_node", "spilling"))
STATIC = KUBELETS["v1.36-static"]
ADMISSION = [
    "test_pods_are_placed_in_order_until_no_numa_node_has_room",
    "test_the_next_pod_uses_the_numa_node_of_an_ended_pod",
]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("name", "kubelet", "files"),
    [
        ("test_anonymous_memory_is_on_the_numa_node_of_cpuset_mems", "v1.37-tiered", {"memory.numa_stat"}),
        ("test_page_cache_is_on_the_numa_node_of_cpuset_mems", "v1.37-tiered", {"memory.numa_stat"}),
        ("test_shared_memory_is_on_the_numa_node_of_cpuset_mems", "v1.37-tiered", {"memory.numa_stat"}),
        ("test_huge_pages_come_from_the_numa_node_of_cpuset_mems", "v1.37-tiered", {"huge pages in use"}),
        ("test_memory_moves_with_cpuset_mems", "v1.37-tiered", {"memory.numa_stat"}),
        (
            "test_a_full_numa_node_kills_although_another_is_empty",
            "v1.37-default",
            {"memory.numa_stat", "memory.events", "exit code"},
        ),
        ("test_page_cache_of_a_full_numa_node_is_reclaimed", "v1.37-default", {"memory.numa_stat"}),
        ("test_memory_is_on_a_numa_node_without_cpus", "v1.37-tiered", {"memory.numa_stat"}),
        ("test_memory_is_on_the_numa_nodes_assigned_to_a_large_pod", "v1.36-static-groups", {"memory.numa_stat"}),
    ],
)
def test_a_kernel_that_takes_the_wrong_numa_node_deviates(name, kubelet, files, tmp_path):
    findings = findings_of(
        getattr(FULL if "full_numa_node" in name else MODULE, name), KUBELETS[kubelet], tmp_path, ignores="cpuset.mems"
    )

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == files


def test_a_kernel_that_takes_numa_nodes_by_number_deviates(tmp_path):
    """Node 2 is near node 3, and nodes 0 and 1 are far from it."""
    function = SPILLING.test_a_full_numa_node_spills_to_the_nearest
    findings = findings_of(function, KUBELETS["v1.37-default"], tmp_path, ignores="distances")

    [spilled] = [one for one in findings if one.verdict is Verdict.DEVIATES]
    assert spilled.expected == "anon of more than 262144 on N2, and at most that on N0"
    assert spilled.observed == "anon N0=150994944 N1=0 N2=0 N3=50331648"


def test_numa_nodes_that_are_all_equally_far_have_no_order():
    node = MemoryBench().node

    assert node.why_not("distances") == "each NUMA node of the machine is equally far from all others"
    with pytest.raises(UsageError, match="is equally far from all others"):
        node.fallback()
    assert MemoryBench(node=dataclasses.replace(FACTS, numa_nodes=FOUR)).node.why_not("distances") == ""


@pytest.mark.parametrize("zones", [[], [9], [0, 9], [1, 0]], ids=["none", "unknown", "unknown-second", "without-cpus"])
def test_impossible_bindings_are_rejected(zones):
    node = MemoryBench(node=dataclasses.replace(FACTS, numa_nodes=FAR)).node
    with (
        pytest.raises(UsageError, match="no container can be bound to the NUMA nodes") as caught,
        node.watched(CATALOGUE.pod("one-numa-node"), KUBELETS["v1.37-tiered"], rests_on=MODULE.MEMS, numa_node=zones),
    ):
        raise AssertionError
    assert caught.value.next_step == "NUMA nodes of the machine: 0 with 2 CPUs, 1 with 0 CPUs."


def test_a_kernel_that_moves_no_page_deviates(tmp_path):
    findings = findings_of(
        MODULE.test_memory_moves_with_cpuset_mems, KUBELETS["v1.37-tiered"], tmp_path, ignores="moving"
    )

    [moved] = [one for one in findings if one.verdict is Verdict.DEVIATES]
    assert (moved.knob, moved.expected) == ("memory.numa_stat", "anon of at least 41943040 on N1 only")
    assert moved.observed == "anon N0=41943040 N1=0"


def in_order_on(bench, evidence):
    """The fixtures of tests of admission, by the plugin's names."""
    return {
        "qos_node": bench.node,
        "qos_kubelet": STATIC,
        "qos_catalog": CATALOGUE,
        "qos_evidence": evidence,
    }


@pytest.mark.parametrize("name", ADMISSION)
@pytest.mark.parametrize(("ignores", "verdicts"), [("", {Verdict.CONFORMS}), ("cpuset.mems", {Verdict.DEVIATES})])
def test_memory_is_where_pods_were_placed_in_order(name, ignores, verdicts, tmp_path):
    evidence, notes = evidence_in(tmp_path)
    bench = MemoryBench(ignores=ignores)
    with contextlib.suppress(NonconformanceError):
        called(getattr(MODULE, name), in_order_on(bench, evidence))

    assert {one.verdict for one in notes.findings if one.knob == "memory.numa_stat"} == verdicts
    assert {one.verdict for one in notes.findings if one.knob != "memory.numa_stat"} == {Verdict.CONFORMS}


def test_a_runtime_that_drops_the_numa_node_is_the_deviation_of_placed_pods(tmp_path):
    evidence, notes = evidence_in(tmp_path)
    with contextlib.suppress(NonconformanceError):
        bench = MemoryBench(("cpuset.mems", "\n"))
        called(MODULE.test_pods_are_placed_in_order_until_no_numa_node_has_room, in_order_on(bench, evidence))

    deviating = [(one.knob, one.observed) for one in notes.findings if one.verdict is Verdict.DEVIATES]
    assert deviating == [("cpuset.mems", ""), ("cpuset.mems", "")]


def test_an_admitted_pod_was_not_rejected():
    node = MemoryBench().node
    with node.watched_pods(pods("numa-first"), STATIC, rests_on=MODULE.MEMS) as watch:
        found = watch.is_refused(CATALOGUE.pod("numa-first"), "UnexpectedAdmissionError")

    assert (found.verdict, found.observed) == (Verdict.DEVIATES, "admitted")


def test_the_pod_that_stays_keeps_its_numa_node_when_another_has_ended():
    """Admitted on an empty node it would have the first NUMA node."""
    node = MemoryBench().node
    first, second, fourth = pods("numa-first", "numa-second", "numa-fourth")
    plan = node.plan([second, fourth], STATIC, before=[first, second])

    mems = {pod.name: pod.containers[0].resources.cpuset_mems for pod in plan.pods}
    assert mems == {"numa-second": "1", "numa-fourth": "0"}
    assert node.plan([second], STATIC).pods[0].containers[0].resources.cpuset_mems == "0"


def test_a_rejected_pod_holds_no_memory():
    node = MemoryBench().node
    some = pods("numa-first", "numa-second", "numa-third", "numa-fourth")
    plan = node.plan([some[1], some[3]], STATIC, before=some[:3])

    assert not plan.refusals
    assert {pod.name: pod.containers[0].resources.cpuset_mems for pod in plan.pods} == {
        "numa-second": "1",
        "numa-fourth": "0",
    }


def test_a_pod_arrives_after_those_of_before_have_ended():
    """Each NUMA node has room for two of them."""
    roomy = tuple(dataclasses.replace(one, memory=1536 << 20) for one in FACTS.numa_nodes)
    node = MemoryBench(node=dataclasses.replace(FACTS, memory=3 << 30, numa_nodes=roomy)).node
    assert node.why_not("small NUMA nodes") == (
        "a NUMA node of the machine has more than 1100 MiB, room for two of the claim's pods"
    )
    first, second, third, fourth = pods("numa-first", "numa-second", "numa-third", "numa-fourth")
    plan = node.plan([second, fourth], STATIC, before=[first, second, third])

    assert {pod.name: pod.containers[0].resources.cpuset_mems for pod in plan.pods} == {
        "numa-second": "0",
        "numa-fourth": "0",
    }


def test_a_numa_node_that_stays_free_is_reported():
    target = FakeTarget(commands={("sh", "-ec"): lambda *_: (0, b"0 999999\n", b"")})
    with (
        pytest.raises(MachineryError, match=r"NUMA node 1 of .* still has 1023998976 bytes free"),
        narrow_numa_node(target, 1, leaving=64 << 20),
    ):
        raise AssertionError


def test_a_binding_to_every_node_is_not_observable():
    bench = MemoryBench(node=dataclasses.replace(FACTS, numa_nodes=FOUR[:2]))
    with bench.node.watched(CATALOGUE.pod("numa-group"), KUBELETS["v1.36-static-groups"], rests_on=MODULE.MEMS) as one:
        found = one.course.numa.is_only_where_planned()

    assert found.why_not == "the plan binds the container to all NUMA nodes"


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (["anon N0=8192 N1=0", "anon N0=0 N1=8192"], Verdict.CONFORMS),
        (["anon N0=0 N1=8192", "anon N0=4096 N1=4096"], Verdict.DEVIATES),
        (["anon N0=0 N1=0", "anon N0=0 N1=4096"], Verdict.DEVIATES),
    ],
)
def test_memory_has_moved_once_all_of_it_is_there(texts, verdict):
    one = course(*(sample({**files(), "memory.numa_stat": f"{text}\n"}, report=done(1, 8192)) for text in texts))

    assert one.numa.ends_only_on(1).verdict is verdict


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (["anon N0=0 N1=8388608", "anon N0=262144 N1=4096"], Verdict.CONFORMS),
        (["anon N0=266240 N1=0", "anon N0=0 N1=8388608"], Verdict.DEVIATES),
        (["anon N0=0 N1=262144"], Verdict.DEVIATES),
        (["anon N0=0 N1=0", "anon N0=0 N1=0"], Verdict.NOT_OBSERVABLE),
    ],
)
def test_what_is_killed_may_have_one_batch_elsewhere(texts, verdict):
    """64 pages of 4 KiB; and more than that has to be on the node itself."""
    one = course(*(sample({**files(), "memory.numa_stat": f"{text}\n"}) for text in texts))

    assert one.numa.never_leaves(1).verdict is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("anon N0=0 N1=4096 N2=266240", Verdict.CONFORMS),
        ("anon N0=262144 N1=4096 N2=266240", Verdict.CONFORMS),
        ("anon N0=266240 N1=4096 N2=266240", Verdict.DEVIATES),
        ("anon N0=0 N1=99999999 N2=262144", Verdict.DEVIATES),
    ],
)
def test_memory_spills_to_one_numa_node_by_more_than_a_batch_and_to_another_by_none(text, verdict):
    one = course(sample({**files(), "memory.numa_stat": f"{text}\n"}))

    assert one.numa.spills_to(2, not_to=0).verdict is verdict
    assert course(sample(None)).numa.spills_to(2, not_to=0).verdict is Verdict.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("left", "stolen", "verdict"),
    [
        (8 << 20, "pgsteal 0", Verdict.NOT_OBSERVABLE),
        (8 << 20, "pgsteal 1", Verdict.DEVIATES),
        (8 << 20, "anon 0", Verdict.DEVIATES),
        ((8 << 20) - (64 << 12), "pgsteal 64", Verdict.DEVIATES),
        ((8 << 20) - (65 << 12), "pgsteal 65", Verdict.CONFORMS),
    ],
)
def test_reclaimed_memory_exceeds_a_batch_unless_everything_fitted(left, stolen, verdict):
    texts = {**files(), "memory.numa_stat": f"anon N0=0 N1={left}\n", "memory.stat": f"{stolen}\n"}

    assert course(sample(texts, report=done(1, 8 << 20))).numa.is_reclaimed("anon").verdict is verdict


def test_a_numa_node_without_memory_in_any_sample_is_not_observable():
    one = course(sample(None))

    assert {one.numa.ends_only_on(1).verdict, one.numa.never_leaves(1).verdict} == {Verdict.NOT_OBSERVABLE}
    assert one.oom.is_killed_for_its_numa_node().verdict is Verdict.NOT_OBSERVABLE


def test_what_ran_into_its_own_limit_was_not_killed_for_its_numa_node():
    text = {**files(), "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"}

    assert course(sample(text)).oom.is_killed_for_its_numa_node().why_not == "it ran into memory.max 3 times"
