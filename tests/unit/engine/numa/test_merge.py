"""Merging hints, compared with a plain walk over every combination as in the kubelet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.numa.topology_manager import EMPTY, Hint, Mask, Merger, filter_hints, neediest_width
from tests.unit.engine.numa.walking import better, walked

ZONES = Mask.of(range(4))
DISTANCES = {0: (10, 11, 20, 20), 1: (11, 10, 20, 20), 2: (20, 20, 10, 11), 3: (20, 20, 11, 10)}


def yes(*zones):
    return Hint(Mask.of(zones), preferred=True)


def no(*zones):
    return Hint(Mask.of(zones), preferred=False)


ANY = Hint(None, preferred=True)
ANY_NO = Hint(None, preferred=False)


@pytest.mark.parametrize(
    ("lists", "merged"),
    [
        ([], yes(0, 1, 2, 3)),
        ([[ANY]], yes(0, 1, 2, 3)),
        ([[ANY_NO]], no(0, 1, 2, 3)),
        ([[yes(0), yes(1)], [yes(1)]], yes(1)),
        ([[yes(0)], [yes(1)]], no(0, 1, 2, 3)),
        ([[yes(0, 1)], [yes(0)]], no(0)),
        ([[yes(0), ANY]], yes(0)),
        ([[ANY], [yes(1), no(0, 1)]], yes(1)),
        ([[]], no(0, 1, 2, 3)),
        ([[yes(4)]], no(0, 1, 2, 3)),
        ([[Hint(EMPTY, preferred=True)]], no(0, 1, 2, 3)),
        # Nothing preferred in common: as wide as the neediest resource, then the lower NUMA nodes.
        ([[no(0, 1), no(1, 2), no(0, 1, 2)]], no(0, 1)),
        ([[no(0, 1, 2), no(1, 2, 3)], [no(0, 1, 2), no(1, 2, 3)]], no(0, 1, 2)),
        ([[no(0, 1), no(1, 2)], [no(1), no(2, 3)]], no(1)),
    ],
)
def test_hints_are_merged(lists, merged):
    assert Merger(numa_nodes=ZONES).merge(lists) == merged
    if [] not in lists:
        assert walked(Merger(numa_nodes=ZONES), lists) == merged


def test_before_1_24_the_narrowest_hint_wins_without_a_preferred_one():
    lists = [[no(0, 1), no(1, 2)], [no(0, 1), no(1, 2)]]
    assert Merger(numa_nodes=ZONES).merge(lists) == no(0, 1)
    assert Merger(numa_nodes=ZONES, up_to_need=False).merge(lists) == no(1)


def test_closest_numa_nodes_win_among_sets_of_equal_size():
    lists = [[yes(0, 2), yes(2, 3), yes(0, 3)]]
    assert Merger(numa_nodes=ZONES).merge(lists) == yes(0, 2)
    assert Merger(numa_nodes=ZONES, closest=True, distances=DISTANCES).merge(lists) == yes(2, 3)


def test_fewer_numa_nodes_win_over_closer_ones():
    lists = [[no(0, 1, 2), no(0, 2)]]
    assert Merger(numa_nodes=ZONES, closest=True, distances=DISTANCES).merge(lists) == no(0, 2)


def test_missing_hints_become_explicit():
    assert filter_hints([None, {}, {"cpu": None, "memory": ()}, {"x": [yes(1)]}]) == [
        (ANY,),
        (ANY,),
        (ANY,),
        (ANY_NO,),
        [yes(1)],
    ]


def test_hints_of_any_numa_node_do_not_count_for_the_need():
    assert neediest_width([[ANY]]) == 0
    assert neediest_width([[no(0), no(1, 2)], [no(1, 2), ANY]]) == 2


HINTS = st.builds(Hint, st.one_of(st.none(), st.integers(0, 15).map(Mask)), st.booleans())


@given(
    st.lists(st.lists(HINTS, min_size=1, max_size=4), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_merging_equals_a_walk_over_all_combinations(lists, closest, up_to_need):
    merger = Merger(numa_nodes=ZONES, closest=closest, distances=DISTANCES, up_to_need=up_to_need)
    assert merger.merge(lists) == walked(merger, lists)
    assert merger.merge(lists[::-1]) == merger.merge(lists)


@pytest.mark.parametrize("width", [0, 1, 4])
def test_a_preferred_hint_is_better_however_wide(width):
    merger = Merger(numa_nodes=ZONES)
    assert better(merger, no(0), yes(0, 1, 2), width) == yes(0, 1, 2)
    assert better(merger, yes(0, 1, 2), no(0), width) == yes(0, 1, 2)
