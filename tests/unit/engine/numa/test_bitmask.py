"""Sets of NUMA nodes: cases beyond upstream's tables."""

import pytest

from memqos.engine.numa.topology_manager import EMPTY, FULL, Mask, masks_of


@pytest.mark.parametrize("zones", [[-1], [64], [0, 64]])
def test_numa_nodes_outside_a_mask_are_refused(zones):
    with pytest.raises(ValueError, match="outside 0 to 63"):
        Mask.of(zones)


@pytest.mark.parametrize("bits", [-1, 1 << 64])
def test_bits_outside_a_mask_are_refused(bits):
    with pytest.raises(ValueError, match="is not a mask"):
        Mask(bits)


@pytest.mark.parametrize(
    ("zones", "text"),
    [([], "00"), ([1], "10"), ([2], "100"), ([0, 2], "0101"), ([4], "10000"), ([3], "1000"), ([0, 4], "010001")],
)
def test_masks_are_shown_as_the_kubelet_logs_them(zones, text):
    """A single NUMA node 2, 4, 6 … has an odd number of digits: the kubelet compares strictly there."""
    assert str(Mask.of(zones)) == text


def test_membership_and_inclusion():
    mask = Mask.of([0, 2])
    assert 2 in mask
    assert 1 not in mask
    assert -1 not in mask
    assert mask.includes(Mask.of([2]))
    assert not mask.includes(Mask.of([1, 2]))
    assert mask.includes(EMPTY)
    assert FULL.includes(mask)


def test_union_intersection_and_difference():
    assert Mask.of([0, 1]) | Mask.of([1, 3]) == Mask.of([0, 1, 3])
    assert Mask.of([0, 1]) & Mask.of([1, 3]) == Mask.of([1])
    assert Mask.of([0, 1]) - Mask.of([1, 3]) == Mask.of([0])


def test_every_set_once_narrow_ones_first():
    assert [one.numa_nodes for one in masks_of((0, 1, 3))] == [(0,), (1,), (3,), (0, 1), (0, 3), (1, 3), (0, 1, 3)]
