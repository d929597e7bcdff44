"""The format of NUMA groups: the effect of each key, and keys rejected by name."""

import json

import pytest

from memqos.catalog.topologies import parse_topology
from memqos.errors import ManifestError
from memqos.model.topology import HugePages, Processors, SwapDevice, TopologyNode

GIB = 1 << 30
MIB = 1 << 20


def parse(*groups):
    return parse_topology("mine", json.dumps(groups).encode(), file="mine.json")


def test_a_group_makes_nodes_with_consecutive_cpus():
    topology = parse({"mem": "2G", "cores": 2, "nodes": 2, "packages": 2, "threads": 1})
    assert [zone.cpus for zone in topology.numa_nodes] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert {zone.memory_bytes for zone in topology.numa_nodes} == {2 * GIB}
    assert topology.processors == Processors(packages=2, dies=1, cores=4, threads=1)
    assert topology.cpus == 8


def test_two_threads_per_core_by_default():
    topology = parse({"mem": "1G", "cores": 1})
    assert topology.numa_nodes == (TopologyNode(id=0, memory_bytes=GIB, cpus=(0, 1)),)
    assert topology.processors == Processors(cores=1, threads=2)


def test_groups_with_cpus_are_separate_packages():
    topology = parse({"mem": "1G", "cores": 1, "threads": 1, "dies": 2}, {"mem": "512M", "cores": 1, "dies": 2})
    assert topology.processors == Processors(packages=2, dies=2, cores=1, threads=1)
    assert [zone.memory_bytes // MIB for zone in topology.numa_nodes] == [1024, 1024, 512, 512]


def test_distances_follow_die_and_package_by_default():
    topology = parse({"mem": "512M", "cores": 1, "nodes": 2, "dies": 2}, {"mem": "512M"})
    assert topology.distances == (
        (10, 11, 21, 21, 21),
        (11, 10, 21, 21, 21),
        (21, 21, 10, 11, 21),
        (21, 21, 11, 10, 21),
        (21, 21, 21, 21, 10),
    )


def test_the_default_distances_can_be_in_any_group():
    first = {"mem": "512M", "cores": 1, "nodes": 2, "dies": 2, "dist-same-package": 15}
    topology = parse(first, {"mem": "512M", "dist-same-die": 12, "dist-other-package": 30})
    assert topology.distances[0] == (10, 12, 15, 15, 30)
    assert topology.distances[4] == (30, 30, 30, 30, 10)


def test_a_nodes_own_distances_hold_in_both_directions():
    topology = parse({"mem": "512M", "cores": 1, "packages": 2}, {"mem": "512M", "node-dist": {"0": 88, "1": 66}})
    assert topology.distances == ((10, 21, 88), (21, 10, 66), (88, 66, 10))


def test_all_distances_can_be_given():
    topology = parse({"mem": "512M", "cores": 1, "packages": 2, "dist-all": [[10, 17], [28, 10]]})
    assert topology.distances == ((10, 17), (28, 10))


def test_a_group_may_have_no_memory_or_no_cores():
    topology = parse({"cores": 1, "threads": 1}, {"mem": "1G"})
    assert topology.numa_nodes == (TopologyNode(id=0, memory_bytes=0, cpus=(0,)), TopologyNode(id=1, memory_bytes=GIB))


def test_huge_pages_swap_and_zswap_are_added_to_the_format():
    topology = parse(
        {"purpose": "tests", "swap": [{"sizeMiB": 64, "priority": 1}], "zswap": True},
        {"mem": "1G", "cores": 1, "hugepages": {"2M": 8}},
    )
    assert topology.swap == (SwapDevice(size_bytes=64 * MIB, priority=1),)
    assert topology.zswap is True
    assert topology.numa_nodes[0].hugepages == (HugePages(size_bytes=2 * MIB, count=8),)


GROUP = {"mem": "1G", "cores": 1}


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "mine.json: has no CPUs"),
        ([{"mem": "1G"}], "has no CPUs"),
        ([1], "[0]: it must be an object, not 1."),
        ([{**GROUP, "sockets": 1}], "[0]: unknown field 'sockets'. Known: mem, hugepages, cores, threads, nodes"),
        ([GROUP, {"cxl": [[{"mem": "8G"}]]}], "[1].cxl: is refused: memqos's machines have no CXL"),
        ([{**GROUP, "nvmem": "8G"}], "[0].nvmem: is refused"),
        ([{**GROUP, "dimm": "plugged"}], "[0].dimm: is refused"),
        ([{**GROUP, "cpus-present": 1}], "[0].cpus-present: is refused"),
        ([{**GROUP, "mem": "1T"}], "[0]: 'mem' must be a size such as \"2G\" or \"512M\", not '1T'."),
        ([{**GROUP, "mem": 1}], '[0]: \'mem\' must be a size such as "2G" or "512M", not 1.'),
        ([GROUP, {"mem": "32M"}], "[1].mem: must be 0, or 64 MiB or more (got 32 MiB)"),
        ([GROUP, {}], "[1].mem: must not be 0 in a NUMA node without CPUs"),
        ([{**GROUP, "mem": "256M"}], "must have 512 MiB together"),
        ([{**GROUP, "cores": 65, "threads": 1}], "has 65 CPUs, and a machine has at most 64"),
        ([{**GROUP, "nodes": 127, "packages": 2}], "[0]: makes 254 nodes, and QEMU has at most 128"),
        ([GROUP, {"mem": "1G", "threads": 1}], "[1].threads: must not be set for a group without cores"),
        (
            [GROUP, {**GROUP, "cores": 2}],
            "[1].cores: makes packages of 1 dies with 2 cores, and those of [0] have 1 with 1",
        ),
        ([GROUP, {**GROUP, "threads": 1}], "[1].threads: must be 2 as in [0]"),
        (
            [{**GROUP, "node-dist": {"0": 10}}, GROUP, {**GROUP, "node-dist": {"0": 10}}],
            "[0]: 'node-dist' must be an object, each value a whole number from 11 to 255, not {'0': 10}.",
        ),
        ([{**GROUP, "node-dist": {"7": 20}}], "[0].node-dist.7: there is no node '7': the nodes are 0 to 0."),
        ([{**GROUP, "dist-same-die": 10}], "[0]: 'dist-same-die' must be a whole number from 11 to 255, not 10."),
        ([{**GROUP, "dist-all": [[10, 20]]}], "[0].dist-all: must be 1 rows of 1 numbers"),
        ([{**GROUP, "dist-all": [[11]]}], "distance from node 0 to 0: must be from 10 to 10 (got 11)"),
        (
            [GROUP, {"swap": [{"sizeMiB": 0}]}],
            "[1].swap[0]: 'sizeMiB' must be a whole number from 1 to 1048576, not 0.",
        ),
    ],
)
def test_unsupported_machines_are_rejected_by_entry_and_field(groups, words):
    with pytest.raises(ManifestError) as caught:
        parse(*groups)
    assert words in str(caught.value)
