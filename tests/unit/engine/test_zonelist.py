"""The kernel's order of NUMA nodes, by hand from ACPI's distances."""

import pytest

from memqos.model.node import NumaNode
from memqos.model.topology import Fallback, fallback

GIB = 1 << 30


def zones(*rows: tuple[int, ...], cpus: str = "cccc", memory: str = "mmmm") -> list[NumaNode]:
    """NUMA nodes with these distances; a dot in `cpus` or `memory` is a node without."""
    return [
        NumaNode(
            id=number,
            memory=GIB if memory[number] == "m" else 0,
            cpus=(number,) if cpus[number] == "c" else (),
            distances=row,
        )
        for number, row in enumerate(rows)
    ]


PACKAGES = [(10, 12, 28, 28), (12, 10, 28, 28), (28, 28, 10, 12), (28, 28, 12, 10)]


def test_two_packages_of_two_numa_nodes():
    """From the last NUMA node the other one of its package comes first, while by number node 0 would."""
    assert fallback(zones(*PACKAGES)) == Fallback(home=3, near=2, far=0)


def test_a_numa_node_without_cpus_is_no_home_but_may_be_the_nearest():
    assert fallback(zones(*PACKAGES, cpus="ccc.")) == Fallback(home=2, near=3, far=0)


def test_a_numa_node_without_memory_is_skipped():
    """NUMA node 2 has none: from node 3 the others are equally far, from node 1 node 0 is nearer than node 3."""
    assert fallback(zones(*PACKAGES, memory="mm.m")) == Fallback(home=1, near=0, far=3)


def test_the_nearest_may_have_the_higher_number():
    assert fallback(zones((10, 20, 15), (20, 10, 30), (15, 30, 10))) == Fallback(home=2, near=0, far=1)


@pytest.mark.parametrize(
    "there",
    [
        zones((10,)),
        zones((10, 20), (20, 10)),
        zones((10, 20, 20), (20, 10, 20), (20, 20, 10)),
        zones((), (), ()),
        zones((10, 12), (12, 10), (20, 20)),
        [],
    ],
    ids=["one", "two", "equal", "untold", "told-of-some", "none"],
)
def test_numa_nodes_without_an_observable_order(there: list[NumaNode]):
    assert fallback(there) is None


def test_distances_follow_the_order_of_ids_with_gaps():
    rows = zones((10, 15, 30), (15, 10, 30), (30, 30, 10))
    gaps = [NumaNode(id=4 * one.id, memory=one.memory, cpus=one.cpus, distances=one.distances) for one in rows]

    assert fallback(gaps) == Fallback(home=4, near=0, far=8)
