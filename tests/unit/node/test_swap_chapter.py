"""The swap suite on small models of kernels with wrong swap, and swap in a course's samples."""

import contextlib
import dataclasses

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import EnvironmentNotAbleError, NonconformanceError, TargetError, UsageError
from memqos.node.behaviour.conditions import ended
from memqos.node.behaviour.watch import growth_of
from memqos.node.machine.swap import order_finding
from tests.unit.node.chapters import CATALOGUE, KUBELETS, chapter, evidence_in, pods
from tests.unit.node.compressing import ZSWAP
from tests.unit.node.crowded import CrowdedBench
from tests.unit.node.fakes import FACTS
from tests.unit.node.memory import MemoryBench
from tests.unit.node.samples import course, files, sample
from tests.unit.node.test_preconditions import findings_of

MODULE = chapter("swap")
DEVICES = chapter("swap", "devices")
MODULES = (MODULE, DEVICES, chapter("swap", "swap_by_release"), chapter("swap", "volumes"), chapter("swap", "zswap"))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("name", "kubelet", "ignores", "files"),
    [
        ("test_limited_swap_is_reached_and_not_exceeded", "v1.36-none", "memory.swap.max", {"memory.swap.current"}),
        (
            "test_a_request_equal_to_the_limit_allows_no_swap",
            "v1.37-default",
            "memory.swap.max",
            {"memory.swap.current", "memory.events", "exit code"},
        ),
        (
            "test_a_critical_pod_swaps_up_to_1_30_and_not_from_1_31",
            "v1.37-default",
            "memory.swap.max",
            {"memory.swap.current", "memory.events"},
        ),
        (
            "test_a_critical_pod_swaps_up_to_1_30_and_not_from_1_31",
            "v1.37-default",
            "swappiness",
            {"memory.swap.current", "state"},
        ),
        (
            "test_limited_swap_of_the_alpha_allows_no_swap",
            "v1.22-limited-swap",
            "memory.swap.max",
            {"memory.swap.current", "memory.events"},
        ),
        (
            "test_unlimited_swap_of_the_alpha_exceeds_the_share_of_1_28",
            "v1.22-unlimited-swap",
            "swappiness",
            {"memory.swap.current", "report", "state"},
        ),
        (
            "test_unset_swap_behaviour_is_unlimited_in_1_28_and_no_swap_later",
            "v1.30-unset-swap",
            "memory.swap.max",
            {"memory.swap.current", "exit code"},
        ),
        (
            "test_a_volume_with_noswap_is_not_swapped",
            "v1.37-default",
            "noswap",
            {"memory.swap.current", "memory.events", "exit code"},
        ),
        (
            "test_a_volume_without_noswap_is_swapped",
            "v1.37-default",
            "swappiness",
            {"memory.swap.current", "report", "state"},
        ),
        ("test_the_device_with_the_higher_priority_is_used_first", "v1.22-unlimited-swap", "priority", {"/proc/swaps"}),
        *(
            (name, "v1.37-default", ignores, files)
            for name, ignores, files in [
                (
                    "test_zswap_compresses_swapped_memory",
                    "zswap",
                    {"memory.zswap.current", "memory.swap.current"},
                ),
                ("test_zswap_compresses_swapped_memory", "size", {"memory.zswap.current"}),
                (
                    "test_zswap_compresses_swapped_memory",
                    "accounting",
                    {"memory.swap.current", "memory.zswap.current"},
                ),
                ("test_zswap_max_0_sends_everything_to_the_device", "memory.zswap.max", {"memory.zswap.current"}),
                ("test_a_full_zswap_pool_is_written_back", "memory.zswap.max", {"memory.zswap.current", "memory.stat"}),
                ("test_a_full_zswap_pool_is_written_back", "shrinking", {"memory.stat", "state"}),
                (
                    "test_a_full_zswap_pool_without_writeback_kills",
                    "memory.zswap.writeback",
                    {"memory.stat", "memory.events", "exit code"},
                ),
            ]
        ),
        ("test_freeing_memory_frees_its_swap", "v1.37-default", "free", {"memory.swap.current"}),
        ("test_an_ended_container_frees_its_swap", "v1.37-default", "free", {"memory.swap.current"}),
    ],
)
def test_a_kernel_with_wrong_swap_deviates(name, kubelet, ignores, files, tmp_path):
    findings = findings_of(named(name), KUBELETS[kubelet], tmp_path, ignores=ignores)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == files


CROWD = MODULE.test_only_containers_with_a_share_are_swapped
FILLED = [
    MODULE.test_a_used_up_swap_share_kills_only_its_own_program,
    DEVICES.test_full_swap_devices_kill_the_program_that_fills_them,
]


def named(name):
    """A test of the suite, in any of its files."""
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def found_on(bench, function, kubelet, folder):
    evidence, notes = evidence_in(folder)
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        function(bench.node, KUBELETS[kubelet], CATALOGUE, evidence)
    return notes.findings


@pytest.mark.parametrize(
    ("ignores", "deviating"),
    [("", set()), ("swappiness", {"memory.swap.current", "state"}), ("memory.swap.max", {"memory.swap.current"})],
)
def test_only_containers_with_a_share_are_swapped(ignores, deviating, tmp_path):
    findings = found_on(CrowdedBench(ignores=ignores), CROWD, "v1.37-default", tmp_path)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == deviating
    assert {one.verdict for one in findings} <= {Verdict.CONFORMS, Verdict.DEVIATES}


@pytest.mark.parametrize("knob", MODULE.PREMISES)
def test_a_runtime_that_lets_all_containers_swap_is_the_deviation(knob, tmp_path):
    findings = found_on(CrowdedBench((knob, "33554432\n")), CROWD, "v1.37-default", tmp_path)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == {knob}


@pytest.mark.parametrize("function", FILLED, ids=["share", "devices"])
@pytest.mark.parametrize(("swap", "deviates"), [(112 << 20, False), (1 << 30, True)])
def test_what_fills_its_swap_is_killed_alone(function, swap, deviates, tmp_path):
    """With more swap than it needs, and a kernel that ignores limits, nothing is killed."""
    bench = MemoryBench(node=dataclasses.replace(FACTS, swap=swap), ignores="memory.swap.max" if deviates else "")
    findings = found_on(
        bench, function, "v1.22-unlimited-swap" if function in FILLED[1:] else "v1.37-default", tmp_path
    )

    lost = {one.knob for one in findings if one.verdict is Verdict.DEVIATES}
    assert lost >= {"memory.events", "exit code"} if deviates else not lost


@pytest.mark.parametrize(("ignores", "verdict"), [("", Verdict.CONFORMS), ("memory.swap.max", Verdict.DEVIATES)])
def test_each_fills_its_own_share(ignores, verdict, tmp_path):
    function = MODULE.test_each_container_fills_its_own_swap_share
    findings = found_on(MemoryBench(ignores=ignores), function, "v1.36-none", tmp_path)
    within = [one for one in findings if one.expected.startswith("at most")]

    assert [one.verdict for one in within] == [verdict, verdict]
    assert [one.expected for one in within] == [
        "at most 16777216 (memory.swap.max)", "at most 8388608 (memory.swap.max)"
    ]  # fmt: skip


def test_without_swap_limits_no_pod_is_swapped_out():
    node = CrowdedBench().node
    some = pods("holds-little", "neighbour")
    with (
        node.watched_pods(some, node.tight(KUBELETS["v1.37-default"]), rests_on=MODULE.PREMISES, steered=True) as watch,
        pytest.raises(UsageError, match="no pod except the neighbour may swap"),
    ):
        watch.crowd_out("neighbour")


MI = 1 << 20
HEAD = "Filename Type Size Used Priority\n"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("", "no two swap devices of different priority"),
        ("/dev/a partition 100 50 10\n", "no two swap devices of different priority"),
        ("/dev/a partition 100 50 10\n/dev/b partition 100 50 10\n", "no two swap devices of different priority"),
        ("/dev/a partition 100 0 10\n/dev/b partition 100 0 5\n", "nothing is in swap"),
        ("/dev/b partition 100 9 -3\n/dev/a partition 100 100 -2\n", "the first device is full"),
    ],
)
def test_devices_without_an_observable_order(rows, why):
    found = order_finding(HEAD + rows, where="test")

    assert (found.verdict, why in found.why_not) == (Verdict.NOT_OBSERVABLE, True)


@pytest.mark.parametrize(("second", "verdict"), [(0, Verdict.CONFORMS), (1, Verdict.DEVIATES)])
def test_the_device_with_the_higher_priority_is_first(second, verdict):
    found = order_finding(f"{HEAD}/dev/b partition 100 {second} 5\n/dev/a partition 100 9 10\n", where="test")

    assert found.verdict is verdict
    assert found.observed == f"/dev/a with priority 10: 9 KiB, /dev/b with priority 5: {second} KiB"


def test_a_malformed_table_of_devices_is_reported():
    with pytest.raises(TargetError, match="cannot be parsed"):
        order_finding(f"{HEAD}/dev/a partition\n", where="test")


def test_a_program_has_one_batch_besides_its_commands_memory():
    texts = [{**files(), "memory.swap.current": f"{amount}\n"} for amount in (262144, 266240)]

    assert [course(sample(text)).swap.is_hardly_used().verdict for text in texts] == [
        Verdict.CONFORMS,
        Verdict.DEVIATES,
    ]


@pytest.mark.parametrize(
    ("kernel", "swap", "lacks"),
    [("6.3.9", 112 << 20, "6.4 or later"), ("6.12.1+deb13", 112 << 20, ""), ("", 112 << 20, "6.4 or later")],
)
def test_noswap_is_known_by_the_kernels_release(kernel, swap, lacks):
    node = MemoryBench(node=dataclasses.replace(FACTS, kernel=kernel, swap=swap)).node

    assert lacks in node.why_not("noswap")
    assert bool(node.why_not("noswap")) is bool(lacks)


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        ((), ("has no memory.zswap.max", "has no memory.zswap.writeback (6.8 or later)")),
        (("memory.zswap.max",), ("", "has no memory.zswap.writeback (6.8 or later)")),
        (("memory.zswap.max", "memory.zswap.writeback"), ("", "")),
    ],
)
def test_zswap_exists_if_cgroups_have_its_files(files, lacks):
    node = MemoryBench(zswap=frozenset(files)).node

    for need, words in zip(("zswap", "zswap writeback"), lacks, strict=True):
        assert words in node.why_not(need)
        assert bool(node.why_not(need)) is bool(words)


def test_a_machine_of_memqos_without_zswap_names_a_fitting_profile():
    assert MemoryBench(disposable=True).node.why_not("zswap").endswith(": try --profile forky")


def test_zswap_is_as_it_was_when_it_is_over():
    bench = MemoryBench()
    with bench.node.zswap():
        assert bench.target.file(ZSWAP) == b"Y\n"
    assert bench.target.file(ZSWAP) == b"N\n"


def test_zswap_cannot_be_enabled_without_kernel_support():
    bench = MemoryBench()
    bench.target.take(ZSWAP)
    with pytest.raises(EnvironmentNotAbleError, match="kernel does not have it"), bench.node.zswap():
        raise AssertionError


def test_what_has_no_limit_cannot_be_overfilled():
    node = MemoryBench().node
    with (
        node.zswap() as zswap,
        node.watched(CATALOGUE.pod("neighbour"), KUBELETS["v1.37-default"], rests_on=MODULE.PREMISES[1:]) as container,
        pytest.raises(UsageError, match=r"no memory\.max or no memory\.swap\.max"),
    ):
        zswap.overfill(container)


def test_what_has_ended_is_not_limited_any_more():
    bench = MemoryBench()
    pod = CATALOGUE.pod("wants-swap-equal")
    with (
        bench.node.zswap() as zswap,
        bench.node.watched(pod, KUBELETS["v1.37-default"], rests_on=MODULE.PREMISES) as container,
    ):
        container.until(ended())
        assert container.has_ended
        zswap.limit(container)
        zswap.keep_out(container)
        zswap.forbid_writeback(container)


@pytest.mark.parametrize(
    ("pool", "swap", "verdict"),
    [
        (4096, 8192, Verdict.DEVIATES),
        (4095, 8192, Verdict.CONFORMS),
        (0, 8192, Verdict.DEVIATES),
        (None, 8192, Verdict.NOT_OBSERVABLE),
    ],
)
def test_what_is_compressed_takes_less_than_half(pool, swap, verdict):
    texts = {**files(), "memory.swap.current": f"{swap}\n"}
    texts |= {} if pool is None else {"memory.zswap.current": f"{pool}\n"}

    found = course(sample(texts)).swap.is_compressed()
    assert (found.verdict, found.measured) == (verdict, True)


@pytest.mark.parametrize(
    ("kept", "swap", "verdict"),
    [
        (1 << 20, 1 << 20, Verdict.CONFORMS),
        (1 << 20, 1 << 19, Verdict.CONFORMS),
        (1 << 20, (1 << 19) - 1, Verdict.DEVIATES),
        (1 << 19, 1 << 20, Verdict.DEVIATES),
        (None, 1 << 20, Verdict.NOT_OBSERVABLE),
    ],
)
def test_what_is_in_zswap_counts_as_swap_but_for_a_batch_of_each_cpu(kept, swap, verdict):
    """Two CPUs of 256 KiB each."""
    stat = {} if kept is None else {"memory.stat": f"anon 0\nzswapped {kept}\n"}
    texts = {**files(), **stat, "memory.swap.current": f"{swap}\n"}

    found = course(sample(texts)).swap.counts_as_swap(cpus=2)
    assert (found.verdict, found.measured) == (verdict, True)


@pytest.mark.parametrize(
    ("pool", "nothing", "limited"),
    [
        (0, Verdict.CONFORMS, Verdict.CONFORMS),
        (1, Verdict.DEVIATES, Verdict.CONFORMS),
        (524288, Verdict.DEVIATES, Verdict.CONFORMS),
        (524289, Verdict.DEVIATES, Verdict.DEVIATES),
    ],
)
def test_a_pool_keeps_to_its_limit_but_for_a_batch_and_to_none_exactly(pool, nothing, limited):
    one = course(sample({**files(), "memory.zswap.current": f"{pool}\n"}))

    assert (one.swap.compresses_nothing().verdict, one.swap.compresses_at_most(262144).verdict) == (nothing, limited)


@pytest.mark.parametrize(
    ("swap", "lacks"),
    [(0, "has 0 MiB of swap"), (128 << 20, ""), (512 << 20, "has 512 MiB of swap")],
)
def test_swap_is_small_where_a_program_can_fill_it(swap, lacks):
    said = MemoryBench(node=dataclasses.replace(FACTS, swap=swap)).node.why_not("small swap")

    assert lacks in said
    assert bool(said) is bool(lacks)


@pytest.mark.parametrize(
    ("left", "verdict"), [("524288\n", Verdict.CONFORMS), ("528384\n", Verdict.DEVIATES), ("0\n", Verdict.CONFORMS)]
)
def test_slots_cached_by_cpus_may_stay_charged(left, verdict):
    """Two CPUs with 64 slots of 4 KiB each."""
    before = sample(files(), {**files(), "memory.swap.current": "8388608\n"})
    after = sample(None, {**files(), "memory.swap.current": left}, exit_code=0)
    found = course(before, after).swap.is_freed(cpus=2)

    assert (found.verdict, found.expected) == (verdict, "at most 524288 at the end, of 8388608")


def test_memory_that_was_never_in_swap_is_not_given_back():
    found = course(sample(files()), sample(files())).swap.is_freed(cpus=2)

    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "at most 0 bytes of its pod were in swap")


def test_one_batch_in_swap_is_not_yet_swapping():
    text = {**files(), "memory.swap.current": "262144\n"}
    more = {**files(), "memory.swap.current": "266240\n"}

    assert course(sample(text)).swap.is_used().verdict is Verdict.DEVIATES
    assert course(sample(more)).swap.is_used().verdict is Verdict.CONFORMS


@pytest.mark.parametrize(("amount", "verdict"), [("8192001\n", Verdict.CONFORMS), ("8192000\n", Verdict.DEVIATES)])
def test_more_is_swapped_than_other_rules_allow(amount, verdict):
    """8192000 bytes are the other plan's swap limit."""
    found = course(sample({**files(), "memory.swap.current": amount})).swap.exceeds_limit_of(
        course(sample(files())).swap
    )

    assert (found.verdict, found.expected) == (verdict, "more than 8192000")


@pytest.mark.parametrize(
    ("free", "more", "sizes"),
    [
        (MI, 2 * MI, [(MI, None), (2 * MI, 32 * MI)]),
        (-MI, 2 * MI, [(2 * MI, 32 * MI)]),
        (MI, 0, [(MI, None)]),
        (0, -MI, []),
    ],
)
def test_growth_is_bounded_by_the_disk_that_others_use(free, more, sizes):
    assert [(one.size, one.rate) for one in growth_of(free, more)] == sizes
