import json

import pytest

from memqos.catalog.topologies import load_topology, parse_topology, topology_names
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.topology import HugePages, Processors, SwapDevice, TopologyNode

GIB = 1 << 30
MIB = 1 << 20

GOOD = {"cpus": 2, "numaNodes": [{"memoryMiB": 512, "cpus": [0]}, {"memoryMiB": 256, "cpus": [1]}]}


def parse(document) -> object:
    return parse_topology("mine", json.dumps(document).encode(), file="mine.json")


def test_shipped_topologies_load():
    assert {name: load_topology(name).memory_bytes for name in topology_names()} == {
        "eight-cpus": 3 * GIB,
        "far-memory": 2 * GIB,
        "four-numa-nodes": 2 * GIB,
        "hugepages": 4 * GIB,
        "one-numa-node": 2 * GIB,
        "small-swaps": 2 * GIB,
        "two-numa-nodes": 2 * GIB,
        "two-numa-nodes-no-swap": 2 * GIB,
    }


def test_the_topology_two_numa_nodes_has_two_numa_nodes():
    topology = load_topology("two-numa-nodes")
    assert topology.numa_nodes == (
        TopologyNode(id=0, memory_bytes=GIB, cpus=(0,)),
        TopologyNode(id=1, memory_bytes=GIB, cpus=(1,)),
    )
    assert topology.distances == ((10, 20), (20, 10))
    assert topology.swap == (SwapDevice(size_bytes=512 * MIB, priority=10),)


def test_no_swap_is_no_swap():
    assert load_topology("two-numa-nodes-no-swap").swap == ()


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="there is no topology 'three-numa-nodes'") as caught:
        load_topology("three-numa-nodes")
    known = "far-memory, four-numa-nodes, hugepages, one-numa-node, small-swaps, two-numa-nodes, two-numa-nodes-no-swap"
    assert known in caught.value.next_step


def test_priority_and_distances_may_be_left_out():
    topology = parse({**GOOD, "swap": [{"sizeMiB": 64}]})
    assert topology.swap == (SwapDevice(size_bytes=64 * MIB, priority=None),)
    assert topology.distances == ()


def test_a_numa_node_may_have_no_cpu():
    topology = parse({"cpus": 1, "numaNodes": [{"memoryMiB": 512, "cpus": [0]}, {"memoryMiB": 64}]})
    assert topology.numa_nodes[1] == TopologyNode(id=1, memory_bytes=64 * MIB, cpus=())


def test_a_numa_node_may_have_no_memory():
    topology = parse({"cpus": 2, "numaNodes": [{"memoryMiB": 512, "cpus": [0]}, {"memoryMiB": 0, "cpus": [1]}]})
    assert topology.numa_nodes[1] == TopologyNode(id=1, memory_bytes=0, cpus=(1,))


def test_a_numa_node_reserves_huge_pages_from_its_memory():
    topology = parse(with_numa_node({"memoryMiB": 1088 + 4, "cpus": [0], "hugepages": {"1G": 1, "2M": 2}}))
    assert topology.numa_nodes[0].hugepages == (
        HugePages(size_bytes=2 * MIB, count=2),
        HugePages(size_bytes=GIB, count=1),
    )


def test_processors_and_zswap_are_optional():
    topology = parse({**GOOD, "processors": {"packages": 2}, "zswap": False})
    assert (topology.processors, topology.zswap) == (Processors(packages=2), False)
    assert parse(GOOD).layout == Processors(cores=2)


def test_a_users_file_is_named_by_its_path(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(GOOD))
    assert load_topology(str(file)).name == "mine"
    with pytest.raises(UsageError, match="the topology cannot be read: No such file"):
        load_topology(str(tmp_path / "other.json"))


def test_former_names_are_read():
    assert [load_topology(name).name for name in ("one-zone", "two-zones", "two-zones-no-swap", "four-zones")] == [
        "one-numa-node",
        "two-numa-nodes",
        "two-numa-nodes-no-swap",
        "four-numa-nodes",
    ]
    former = {"cpus": 2, "zones": GOOD["numaNodes"]}
    assert parse(former) == parse(GOOD)
    with pytest.raises(
        ManifestError, match=r"mine\.json:1: zones: is the former name of numaNodes: give one of them\."
    ):
        parse({**GOOD, **former})
    with pytest.raises(ManifestError, match=r"zones\[0\]\.memoryMiB: must be 0, or 64 MiB or more \(got 63 MiB\)"):
        parse({"cpus": 1, "zones": [{"memoryMiB": 63, "cpus": [0]}]})


def with_numa_node(node):
    return {"cpus": 1, "numaNodes": [node]}


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        (1, "mine.json", "it must be an object, not 1."),
        (
            {**GOOD, "cpu": 2},
            "mine.json:1: ",
            "unknown field 'cpu'. Known: cpus, numaNodes, zones, purpose, processors, distances, swap, zswap.",
        ),
        ({**GOOD, "cpus": 0}, "cpus", "must be a whole number from 1 to 64, not 0."),
        ({**GOOD, "cpus": "2"}, "cpus", "from 1 to 64, not '2'."),
        ({**GOOD, "cpus": True}, "cpus", "from 1 to 64, not True."),
        ({**GOOD, "cpus": 3}, "numaNodes", "must name each CPU from 0 to 2 once (they name [0, 1])"),
        ({**GOOD, "numaNodes": []}, "numaNodes", "must be a list that is not empty"),
        ({"cpus": 1}, "mine.json: ", "missing required field 'numaNodes'."),
        (
            with_numa_node({"memoryMiB": 63, "cpus": [0]}),
            "numaNodes[0].memoryMiB",
            "must be 0, or 64 MiB or more (got 63 MiB)",
        ),
        (
            with_numa_node({"memoryMiB": 1.5, "cpus": [0]}),
            "numaNodes[0]",
            "'memoryMiB' must be a whole number from 0 to 1048576, not 1.5.",
        ),
        (with_numa_node({"memoryMiB": 512, "cpus": [1]}), "numaNodes[0].cpus", "from 0 to 0 (got 1)"),
        (with_numa_node({"memoryMiB": 512, "cpus": [0, 0]}), "numaNodes", "once (they name [0, 0])"),
        (with_numa_node({"memoryMiB": 256, "cpus": [0]}), "numaNodes", "must have 512 MiB together"),
        (
            with_numa_node({"memory": 512}),
            "numaNodes[0]: ",
            "unknown field 'memory'. Known: memoryMiB, cpus, hugepages.",
        ),
        (
            {**GOOD, "numaNodes": [*GOOD["numaNodes"], {"memoryMiB": 0}]},
            "numaNodes[2].memoryMiB",
            "must not be 0 in a NUMA node without",
        ),
        (
            {**GOOD, "numaNodes": [{"memoryMiB": 0, "cpus": [0]}, {"memoryMiB": 256, "cpus": [1]}]},
            "numaNodes",
            "512 MiB together",
        ),
        (
            with_numa_node({"memoryMiB": 512, "cpus": [0], "hugepages": {"4M": 1}}),
            "numaNodes[0].hugepages: ",
            "unknown field '4M'. Known: 2M, 1G.",
        ),
        (
            with_numa_node({"memoryMiB": 512, "cpus": [0], "hugepages": {"2M": 0}}),
            "numaNodes[0].hugepages: ",
            "'2M' must be a whole number from 1 to 1048576, not 0.",
        ),
        (
            with_numa_node({"memoryMiB": 1087, "cpus": [0], "hugepages": {"1G": 1}}),
            "numaNodes[0].hugepages",
            "take 1024 MiB, and the NUMA node's 1087 MiB must keep 64 MiB",
        ),
        ({**GOOD, "zswap": 1}, "zswap", "must be true or false, not 1."),
        ({**GOOD, "processors": {"cores": 3}}, "processors", "must multiply to 2 CPUs (they are 3)"),
        (
            {**GOOD, "processors": {"sockets": 2}},
            "processors: ",
            "unknown field 'sockets'. Known: packages, dies, cores, threads.",
        ),
        ({**GOOD, "swap": [{"sizeMiB": 0}]}, "swap[0]: ", "'sizeMiB' must be a whole number from 1 to 1048576, not 0."),
        (
            {**GOOD, "swap": [{"sizeMiB": 1, "priority": -1}]},
            "swap[0]: ",
            "'priority' must be a whole number from 0 to 32767, not -1.",
        ),
        ({**GOOD, "distances": [[10, "20"], [20, 10]]}, "distances[0]: ", "'[1]' must be a whole number, not '20'."),
        ({**GOOD, "distances": [10, 20]}, "distances: ", "'[0]' must be a list, each item a whole number, not 10."),
        ({**GOOD, "distances": [[10, 20]]}, "distances", "must be 2 rows of 2 numbers"),
        ({**GOOD, "distances": [[11, 20], [20, 10]]}, "distances[0][0]", "from 10 to 10 (got 11)"),
        ({**GOOD, "distances": [[10, 10], [20, 10]]}, "distances[0][1]", "from 11 to 255 (got 10)"),
        ({**GOOD, "distances": [[10, 20], [256, 10]]}, "distances[1][0]", "got 256"),
        (
            {"cpus": 1, "numaNodes": [{"memoryMiB": 64, "cpus": [0]}, *[{"memoryMiB": 64}] * 128]},
            "numaNodes",
            "has 129 NUMA nodes, and QEMU has at most 128",
        ),
    ],
)
def test_invalid_machines_are_rejected_by_field(document, field, words):
    with pytest.raises(ManifestError) as caught:
        parse(document)
    message = str(caught.value)
    assert message.startswith("mine.json")
    assert field in message
    assert words in message


def test_an_error_names_the_line_of_its_field():
    content = (
        b'{\n  "cpus": 1,\n  "numaNodes": [\n    {"memoryMiB": 1024, "cpus": [0]},\n    {"memoryMiB": 63}\n  ]\n}\n'
    )
    with pytest.raises(ManifestError, match=r"mine\.json:5: numaNodes\[1\]\.memoryMiB: must be 0, or 64 MiB or more"):
        parse_topology("mine", content, file="mine.json")
    with pytest.raises(ManifestError, match=r"mine\.json:5: numaNodes\[1\]: 'memoryMiB' must be a whole number"):
        parse_topology("mine", content.replace(b"63", b'"1G"'), file="mine.json")


@pytest.mark.parametrize(("content", "says"), [
    (b"{", r"mine\.json:1: this is not JSON, at column 2"),
    (b"\xff", r"mine\.json:1: byte 0 is not UTF-8"),
    (b"[" * 100_000, r"mine\.json: the nesting is deeper"),
    (b'{"cpus": 1, "numaNodes": [{"cpus": [0], "memoryMiB": 1024, "memoryMiB": 2048}]}',
     r"mine\.json: the key 'memoryMiB' occurs twice in one object"),
])  # fmt: skip
def test_invalid_json_is_an_error(content, says):
    with pytest.raises(ManifestError, match=says):
        parse_topology("mine", content, file="mine.json")
