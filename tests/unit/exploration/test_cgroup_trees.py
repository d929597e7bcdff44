"""Trees of cgroups: valid ones, the models' bounds, and deviations."""

import json

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import UsageError
from memqos.exploration.batches import drawn
from memqos.exploration.cgroup_trees import (
    Tolerances,
    cgroup_trees,
    cgroups_of,
    check_tree,
    tree_findings,
    why_not_tried,
)
from memqos.exploration.examples import HEAD, Kind, example_of
from memqos.exploration.judge import Judge
from memqos.exploration.session import shape_of
from memqos.exploration.shrinker import Shrinker
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FakePlace

MIB = 1 << 20
SMALL, LARGE = Tolerances(page_size=4096, cpus=2), Tolerances(page_size=65536, cpus=2)
# c0 protects its child's 16 MiB with memory.min; c1 has no protection: the limit takes 8 MiB of it.
PRESSED = {
    "children": [{"min": 16 * MIB, "children": [{"file": 16 * MIB, "min": 16 * MIB}]}, {"file": 32 * MIB}],
    "limit": 40 * MIB,
}


def seen(current, **counters):
    return {"memory.current": int(current * MIB), "memory.swap.current": 0, **counters}


def judged(tree, after, before=None, seconds=3.0, tolerances=SMALL):
    said = {"before": before or after, "after": after, "seconds": seconds}
    found = tree_findings(tree, said, recursive=True, tolerances=tolerances)
    return [(one.knob, str(one.subject), one.observed) for one in found if one.verdict is Verdict.DEVIATES]


BEFORE = {"": seen(48), "c0": seen(16), "c0/c0": seen(16), "c1": seen(32)}


@pytest.mark.parametrize(("after", "deviating"), [
    ({"": seen(40), "c0": seen(16), "c0/c0": seen(16), "c1": seen(24)}, []),
    ({"": seen(40), "c0": seen(12), "c0/c0": seen(12), "c1": seen(28)},
     [("memory.current under pressure", "cgroup c0/c0 of the tree", str(12 * MIB))]),
    ({"": seen(41), "c0": seen(16), "c0/c0": seen(16), "c1": seen(25)},
     [("memory.current above the limit", "cgroup root of the tree", str(41 * MIB))]),
    ({"": seen(40, oom_kill=1, low=2), "c0": seen(16), "c0/c0": seen(16), "c1": seen(24)},
     [("oom_kill", "cgroup root of the tree", "1"), ("low", "cgroup root of the tree", "2")]),
])  # fmt: skip
def test_the_bounds_of_reclaim(after, deviating):
    assert why_not_tried(PRESSED, SMALL) == ""
    assert judged(PRESSED, after, BEFORE) == deviating


def test_protection_counts_only_up_to_the_parents():
    # The parent has 4 MiB: of the child's 16 MiB the rest may be taken.
    tree = {**PRESSED, "children": [{**PRESSED["children"][0], "min": 4 * MIB}, PRESSED["children"][1]]}
    after = {"": seen(20), "c0": seen(5), "c0/c0": seen(5), "c1": seen(15)}
    assert judged({**tree, "limit": 20 * MIB}, after, BEFORE) == []


def test_memory_high_and_max_of_page_cache():
    tree = {"children": [{"file": 32 * MIB, "high": 8 * MIB}, {"file": 32 * MIB, "max": 8 * MIB}]}
    good = {"": seen(17), "c0": seen(8.5, high=3), "c1": seen(8)}
    assert judged(tree, good) == []
    assert judged(tree, {"": seen(33), "c0": seen(20), "c1": seen(13, oom_kill=1)}) == [
        ("memory.current above memory.high", "cgroup c0 of the tree", str(20 * MIB)),
        ("memory.current above memory.max", "cgroup c1 of the tree", str(13 * MIB)),
        ("oom_kill", "cgroup c1 of the tree", "1"),
    ]


def test_growth_above_memory_high_is_bounded_by_the_throttle_model():
    tree = {"children": [{"anon": 48 * MIB, "high": 16 * MIB, "swap": 0}]}
    assert judged(tree, {"": seen(18.5), "c0": seen(18.5)}) == []
    assert judged(tree, {"": seen(48), "c0": seen(48)}) == [
        ("growth above memory.high", "cgroup c0 of the tree", str(48 * MIB))
    ]


def test_swap_and_kills_of_anonymous_memory():
    tree = {"children": [{"anon": 48 * MIB, "max": 20 * MIB, "swap": 4 * MIB}, {"anon": 24 * MIB, "max": 64 * MIB}]}
    after = {"": seen(24), "c0": seen(0, oom_kill=1), "c1": seen(24)}
    assert judged(tree, after) == []
    after = {"": seen(24), "c0": {**seen(20), "memory.swap.current": 28 * MIB}, "c1": seen(24, oom_kill=1)}
    assert judged(tree, after) == [
        ("memory.swap.current", "cgroup c0 of the tree", str(28 * MIB)),
        ("oom_kill", "cgroup c0 of the tree", "0"),
        ("oom_kill", "cgroup c1 of the tree", "1"),
    ]


@pytest.mark.parametrize(("tree", "why"), [
    ({**PRESSED, "limit": 12 * MIB}, "its limit is below the protected bytes"),
    ({"children": [{"anon": 8 * MIB}], "limit": 64 * MIB}, "anonymous memory below a limit is not modelled"),
])  # fmt: skip
def test_unmodelled_trees_are_not_tried(tree, why):
    assert why_not_tried(tree, SMALL) == why


@pytest.mark.parametrize("tree", [
    {"children": []},
    {"children": [{"file": 4096, "anon": 4096}]},
    {"children": [{"file": 4096, "children": [{"file": 4096}]}]},
    {"children": [{"min": 4096}]},
    {"children": [{"file": "4Mi"}]},
    {"children": [{"file": 4096, "weight": 1}]},
    {"children": [{"file": 257 * MIB}]},
    {"children": [{"high": 4096, "children": [{"file": 4096}]}]},
    {"children": [{"file": 4096}], "min": 4096},
    {"children": [{"children": [{"children": [{"children": [{"children": [{"file": 4096}]}]}]}]}]},
])  # fmt: skip
def test_invalid_trees(tree):
    with pytest.raises(UsageError):
        check_tree(tree)


def test_larger_pages_have_larger_tolerances():
    # Each of two CPUs may charge 64 pages ahead: 4 MiB with pages of 64 KiB.
    assert (SMALL.stock, SMALL.slack, LARGE.stock, LARGE.slack) == (MIB // 2, MIB, 8 * MIB, 16 * MIB)
    assert why_not_tried({**PRESSED, "children": [{"file": 16 * MIB}]}, LARGE) == (
        "its programs use at most 16777216 bytes each, by which memory.current may be off with pages of 64 KiB"
    )
    tree = {"children": [{"file": 128 * MIB, "min": 128 * MIB}, {"file": 128 * MIB}], "limit": 192 * MIB}
    before = {"": seen(256), "c0": seen(128), "c1": seen(128)}
    after = {"": seen(190), "c0": seen(113), "c1": seen(77)}
    assert why_not_tried(tree, LARGE) == ""
    assert judged(tree, after, before, tolerances=LARGE) == []
    assert judged(tree, after, before) == [("memory.current under pressure", "cgroup c0 of the tree", str(113 * MIB))]
    lost = {"": seen(188), "c0": seen(111), "c1": seen(77)}
    assert judged(tree, lost, before, tolerances=LARGE) == [
        ("memory.current under pressure", "cgroup c0 of the tree", str(111 * MIB))
    ]


def test_growth_and_kills_with_large_pages():
    # By the kernel's formula a task may pass memory.high by more batches, of 4 MiB each.
    tree = {"children": [{"anon": 48 * MIB, "high": 16 * MIB, "swap": 0}]}
    assert judged(tree, {"": seen(36), "c0": seen(36)}, tolerances=LARGE) == []
    assert judged(tree, {"": seen(37), "c0": seen(37)}, tolerances=LARGE) == [
        ("growth above memory.high", "cgroup c0 of the tree", str(37 * MIB))
    ]
    # Between 16 MiB of its own and 8 MiB more that CPUs charge ahead, the program may be killed or not.
    tree = {"children": [{"anon": 44 * MIB, "max": 64 * MIB, "swap": 0}]}
    assert judged(tree, {"": seen(0), "c0": seen(0, oom_kill=1)}, tolerances=LARGE) == []
    assert judged(tree, {"": seen(0), "c0": seen(0, oom_kill=1)}) == [("oom_kill", "cgroup c0 of the tree", "1")]


@pytest.mark.parametrize("page_size", [4096, 16384, 65536])
def test_drawn_trees_are_tried(page_size):
    tolerances = Tolerances(page_size=page_size, cpus=2)
    found = drawn(cgroup_trees(tolerances), 60, by="1", key=json.dumps)
    for one in found:
        check_tree(one)
        assert why_not_tried(one, tolerances) == ""
    assert len({tuple(len(cgroup.path.parts) for cgroup in cgroups_of(one)) for one in found}) > 3
    assert any("limit" in one for one in found)
    assert any("limit" not in one for one in found)


def test_a_tree_is_an_example_that_shrinks():
    document = {"kubernetes": "1.36", "config": dict(HEAD), "tree": PRESSED}
    example = example_of(document)
    assert example.kind is Kind.KERNEL
    assert example.document() == document
    assert shape_of(example) == (
        '["kernel", [["children", "limit"], [["children", "min"], [["file", "min"]]], [["file"]]]]'
    )

    def keeps_less_than_it_should(examples):
        return [any("min" in cgroup.files and cgroup.file > MIB for cgroup in cgroups_of(one.tree)) for one in examples]

    smallest = Shrinker(keeps_less_than_it_should).shrink(example).document()
    assert smallest["tree"] == {"children": [{"children": [{"file": 2 * MIB, "min": 0}]}]}


def judge_of(answers):
    """A judge on a machine whose python3 prints this about trees, and the requests to it."""
    place = FakePlace()
    runtime = place.runtime(CgroupDriver.SYSTEMD)
    requests = []

    def python(argv, *_):
        requests.append(json.loads(argv[2]))
        return 0, json.dumps(answers).encode(), b""

    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
    node.target.on(("python3",), python)
    return Judge(node), requests


def example(tree):
    return example_of({"kubernetes": "1.36", "config": dict(HEAD), "tree": tree})


def test_trees_are_tried_in_one_call_without_unmodelled_ones():
    good = {"": seen(40), "c0": seen(16), "c0/c0": seen(16), "c1": seen(24)}
    broken = {"": seen(40), "c0": seen(9), "c0/c0": seen(9), "c1": seen(31)}
    said = [{"before": BEFORE, "after": after, "seconds": 1.0} for after in (good, broken)] + [{"error": "no room"}]
    judge, requests = judge_of(said)
    skipped, conforms, deviates, trouble = judge.try_all(
        [example({**PRESSED, "limit": 12 * MIB}), example(PRESSED), example(PRESSED), example(PRESSED)]
    )
    assert skipped.skipped == "its limit is below the protected bytes"
    assert (conforms.deviations, len(conforms.findings)) == ([], 7)
    assert [one.knob for one in deviates.deviations] == ["memory.current under pressure"]
    assert trouble.trouble == "the tree was not created: no room"
    [request] = requests
    assert request["mount"] == "/sys/fs/cgroup"
    assert len(request["trees"]) == 3
    assert request["trees"][0] == {
        "limit": 40 * MIB,
        "cgroups": [
            {"path": "c0", "files": {"memory.min": 16 * MIB}, "file": 0, "anon": 0},
            {"path": "c0/c0", "files": {"memory.min": 16 * MIB}, "file": 16 * MIB, "anon": 0},
            {"path": "c1", "files": {}, "file": 32 * MIB, "anon": 0},
        ],
    }
