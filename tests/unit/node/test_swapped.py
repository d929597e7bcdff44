"""The swap chapter on kernels in miniature that are wrong about swap, and what a course says of swap."""

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.node import watching
from tests.unit.node.chapters import KUBELETS, chapter
from tests.unit.node.samples import course, files, sample
from tests.unit.node.test_premises import findings_of

MODULE = chapter("swap")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("name", "kubelet", "ignores", "files"),
    [
        ("test_limited_swap_is_reached_and_not_passed", "v1.36-none", "memory.swap.max", {"memory.swap.current"}),
        (
            "test_a_request_that_equals_its_limit_leaves_no_swap",
            "v1.37-default",
            "memory.swap.max",
            {"memory.swap.current", "memory.events", "exit code"},
        ),
        (
            "test_a_critical_pod_swaps_up_to_1_30_and_not_after_it",
            "v1.37-default",
            "memory.swap.max",
            {"memory.swap.current", "memory.events"},
        ),
        (
            "test_a_critical_pod_swaps_up_to_1_30_and_not_after_it",
            "v1.37-default",
            "swappiness",
            {"memory.swap.current", "state"},
        ),
        (
            "test_limited_swap_of_the_alpha_is_no_swap",
            "v1.22-limited-swap",
            "memory.swap.max",
            {"memory.swap.current", "memory.events"},
        ),
        (
            "test_unlimited_swap_of_the_alpha_passes_what_limited_swap_gives",
            "v1.22-unlimited-swap",
            "swappiness",
            {"memory.swap.current", "report", "state"},
        ),
        (
            "test_no_swap_behaviour_is_no_limit_in_1_28_and_no_swap_later",
            "v1.30-unset-swap",
            "memory.swap.max",
            {"memory.swap.current", "exit code"},
        ),
        ("test_swap_is_given_back_with_the_memory", "v1.37-default", "free", {"memory.swap.current"}),
        ("test_swap_is_given_back_by_what_has_ended", "v1.37-default", "free", {"memory.swap.current"}),
    ],
)
def test_a_kernel_that_is_wrong_about_swap_deviates(name, kubelet, ignores, files, tmp_path):
    findings = findings_of(getattr(MODULE, name), KUBELETS[kubelet], tmp_path, ignores=ignores)

    assert {one.knob for one in findings if one.verdict is Verdict.DEVIATES} == files


@pytest.mark.parametrize(
    ("left", "verdict"), [("524288\n", Verdict.CONFORMS), ("528384\n", Verdict.DEVIATES), ("0\n", Verdict.CONFORMS)]
)
def test_slots_that_each_cpu_keeps_may_be_missing_of_what_is_given_back(left, verdict):
    """Two CPUs with 64 slots of 4 KiB each."""
    before = sample(files(), {**files(), "memory.swap.current": "8388608\n"})
    after = sample(None, {**files(), "memory.swap.current": left}, exit_code=0)
    found = course(before, after).gives_swap_back(cpus=2)

    assert (found.verdict, found.expected) == (verdict, "at most 524288 at the end, of 8388608")


def test_what_never_was_in_swap_is_not_given_back():
    found = course(sample(files()), sample(files())).gives_swap_back(cpus=2)

    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "no more than 0 bytes of its pod were in swap")


def test_one_batch_in_swap_is_not_yet_swapping():
    text = {**files(), "memory.swap.current": "262144\n"}
    more = {**files(), "memory.swap.current": "266240\n"}

    assert course(sample(text)).swaps().verdict is Verdict.DEVIATES
    assert course(sample(more)).swaps().verdict is Verdict.CONFORMS


@pytest.mark.parametrize(("amount", "verdict"), [("8192001\n", Verdict.CONFORMS), ("8192000\n", Verdict.DEVIATES)])
def test_more_is_swapped_than_other_rules_allow(amount, verdict):
    """8192000 bytes are what the other plan lets it swap."""
    found = course(sample({**files(), "memory.swap.current": amount})).swaps_more_than(course(sample(files())))

    assert (found.verdict, found.expected) == (verdict, "more than 8192000")
